//! A benchmark computed from CIFAR-100's images themselves.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use crate::benchmark::Benchmark;
use crate::cifar100::{self, Cifar100Error, Cifar100Part, Cifar100Records, SIDE};
use crate::encode::encode_into;
use orco_core::config::MethodConfig;
use orco_core::random::Random;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::{EncodeError, Encoder};
use orco_runtime::image::from_planes;
use orco_state::bank::Bank;

/// Classes of a session, shots of a class and candidates of a class where no benchmark file says otherwise.
const WAYS: usize = 5;
const SHOTS: usize = 5;
const CANDIDATES: usize = 20;

/// Why a benchmark could not be computed from images.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImagesError {
    /// The images could not be read.
    #[error(transparent)]
    Dataset(#[from] Cifar100Error),
    /// The backbone failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The bundle knows a class that the data set does not have.
    #[error("the bundle's class \"{label}\" is none of CIFAR-100's; measure with a bundle trained on it")]
    UnknownClass {
        /// The class.
        label: String,
    },
    /// The bundle's benchmark file names images that the data set does not have.
    #[error("the bundle's benchmark file names images that CIFAR-100 does not have")]
    Template,
}

/// Computes a benchmark with a bundle's backbone: of the images that `template` names, or, without one, of all test
/// images and of seeded candidates, the classes that the bundle does not know arriving five at a time in the order of
/// their labels.
///
/// `on_progress` is told how many images of how many are done.
///
/// # Errors
/// If the images cannot be read, the backbone fails, or the template or the bundle's classes do not fit CIFAR-100.
pub fn from_cifar100(
    bundle: &Bundle,
    template: Option<&Benchmark>,
    encoder: &mut dyn Encoder,
    folder: &Path,
    on_progress: &mut dyn FnMut(usize, usize),
) -> Result<Benchmark, ImagesError> {
    let train = cifar100::read(folder, Cifar100Part::Train)?;
    let test = cifar100::read(folder, Cifar100Part::Test)?;
    let names = cifar100::class_names(folder)?;
    let plan = ImagePlan::new(bundle, template, &names, &train, &test)?;
    let MethodConfig { views, precision, .. } = bundle.base_model.config;
    let total = plan.measured.len() + plan.candidates.len() + plan.base.len();
    let mut done = 0;
    let mut bank = |records: &Cifar100Records, indices: &[u32], views: usize| -> Result<Bank, EncodeError> {
        let mut bank = Bank::new(bundle.base_model.head.inputs, views, precision);
        let pictures = indices.iter().map(|&index| {
            let record = records.get(index as usize);
            (plan.class_of[usize::from(record.label)], from_planes(SIDE as u32, SIDE as u32, record.planes))
        });
        encode_into(&mut bank, bundle, encoder, pictures, || {
            done += 1;
            on_progress(done, total);
        })?;
        Ok(bank)
    };
    let measured = bank(if plan.measured_on_test { &test } else { &train }, &plan.measured, 1)?;
    let candidates = bank(&train, &plan.candidates, views)?;
    let base = bank(&train, &plan.base, 1)?;
    Ok(Benchmark {
        source: format!("images of {}", folder.display()),
        labels: plan.labels,
        ways: plan.ways,
        shots: template.map_or(SHOTS as u32, |template| template.shots),
        base_means: base.means(bundle.base_model.classes.len()),
        measured,
        measured_sources: plan.measured,
        measured_on_test: plan.measured_on_test,
        candidates,
        candidate_sources: plan.candidates,
        fixed_draw: template.is_some_and(|template| template.fixed_draw),
    })
}

/// Which images play which part.
struct ImagePlan {
    /// The device's number of each of CIFAR-100's classes.
    class_of: Vec<u32>,
    labels: Vec<String>,
    ways: Vec<u32>,
    measured: Vec<u32>,
    measured_on_test: bool,
    candidates: Vec<u32>,
    base: Vec<u32>,
}

impl ImagePlan {
    fn new(
        bundle: &Bundle,
        template: Option<&Benchmark>,
        names: &[String],
        train: &Cifar100Records,
        test: &Cifar100Records,
    ) -> Result<Self, ImagesError> {
        let base: Vec<String> = bundle.base_model.classes.iter().map(|class| class.label.clone()).collect();
        if let Some(unknown) = base.iter().find(|label| !names.contains(label)) {
            return Err(ImagesError::UnknownClass { label: unknown.clone() });
        }
        let labels = match template {
            Some(template) => template.labels.clone(),
            None => unseen_classes(names, &base, bundle.base_model.target_count() - base.len()),
        };
        let order: Vec<&String> = base.iter().chain(&labels).collect();
        // Excluded classes are numbered past the others and never read.
        let number = |name: &String| order.iter().position(|label| *label == name).unwrap_or(order.len()) as u32;
        let class_of: Vec<u32> = names.iter().map(number).collect();
        let (measured, measured_on_test, candidates) = match template {
            Some(template) => {
                (template.measured_sources.clone(), template.measured_on_test, template.candidate_sources.clone())
            }
            None => {
                let seed = bundle.manifest.provenance.seed;
                let candidates = (base.len()..order.len()).flat_map(|class| candidates(train, &class_of, class, seed));
                (members(test, &class_of, 0..order.len()), true, candidates.collect())
            }
        };
        let is_within =
            |records: &Cifar100Records, indices: &[u32]| indices.iter().all(|&index| (index as usize) < records.len());
        if !is_within(if measured_on_test { test } else { train }, &measured) || !is_within(train, &candidates) {
            return Err(ImagesError::Template);
        }
        let held_out: BTreeSet<u32> =
            if measured_on_test { BTreeSet::new() } else { measured.iter().copied().collect() };
        let mut trained = members(train, &class_of, 0..base.len());
        trained.retain(|index| !held_out.contains(index));
        let ways = template.map_or_else(|| vec![WAYS as u32; labels.len() / WAYS], |template| template.ways.clone());
        Ok(Self { class_of, labels, ways, measured, measured_on_test, candidates, base: trained })
    }
}

/// The classes that no base class is, as many as make whole sessions with `room` free targets.
fn unseen_classes(names: &[String], base: &[String], room: usize) -> Vec<String> {
    let unseen = names.iter().filter(|name| !base.contains(name)).cloned();
    let mut unseen: Vec<String> = unseen.take(room).collect();
    unseen.truncate(unseen.len() / WAYS * WAYS);
    unseen
}

/// Indices of the images whose classes have such numbers.
fn members(records: &Cifar100Records, class_of: &[u32], wanted: Range<usize>) -> Vec<u32> {
    let labels = records.labels().enumerate();
    let inside = labels.filter(|(_, label)| wanted.contains(&(class_of[usize::from(*label)] as usize)));
    inside.map(|(index, _)| index as u32).collect()
}

/// Images of a class that shots are drawn from.
fn candidates(train: &Cifar100Records, class_of: &[u32], class: usize, seed: u64) -> Vec<u32> {
    let mut candidates = members(train, class_of, class..class + 1);
    Random::new(seed, &format!("candidates of {class}")).shuffle(&mut candidates);
    candidates.truncate(CANDIDATES);
    candidates
}
