//! Features of the base images, computed once where the backbone is frozen.

use std::ops::Range;
use std::rc::Rc;

use anyhow::{Result, bail};
use orco_state::codec;
use serde_json::json;
use tch::{Device, Kind, Tensor};

use crate::config::{AugmentConfig, BaseAlignConfig, Precision};
use crate::data::augment::random_view;
use crate::data::dataset::{Images, Split};
use crate::model::Model;
use crate::platform::device::send;
use crate::platform::interrupt;
use crate::run::checkpoint;
use crate::run::digest::digest;
use crate::run::progress::WorkProgress;
use crate::train::training_loop::BaseSession;

/// Most images at a time.
const BATCH: usize = 500;

/// Features of the base images: clean, and under several augmented views.
pub(super) struct FeatureCache {
    /// f32 `[n, features]`.
    pub(super) clean: Tensor,
    /// Each f32 `[n, features]`.
    views: Vec<Tensor>,
    /// i64 `[n]`.
    pub(super) labels: Tensor,
}

/// The features of the last alignment, for the next ones in this process. Variants of an ablation that differ only in
/// what follows the features reuse them.
#[derive(Default)]
pub struct SharedFeatures(Option<(String, Rc<FeatureCache>)>);

impl SharedFeatures {
    /// The features that [`FeatureCache::new`] gives; torch's generator ends where that would have left it.
    pub(super) fn get(
        &mut self,
        model: &Model,
        augment: &AugmentConfig,
        config: &BaseAlignConfig,
        base: &BaseSession<'_>,
    ) -> Result<Rc<FeatureCache>> {
        let key = key(model, augment, config, base)?;
        if let Some((_, cache)) = self.0.as_ref().filter(|(there, _)| *there == key) {
            log::info!("features: those of the alignment before");
            cache.replay_draws(augment, base);
            return Ok(Rc::clone(cache));
        }
        // Frees the old features before new ones need the memory.
        self.0 = None;
        let cache = Rc::new(FeatureCache::new(model, augment, config, base)?);
        self.0 = Some((key, Rc::clone(&cache)));
        Ok(cache)
    }
}

/// A digest of everything that the features depend on.
fn key(model: &Model, augment: &AugmentConfig, config: &BaseAlignConfig, base: &BaseSession<'_>) -> Result<String> {
    let views = json!([augment, config.cached_views, config.views_precision, config.train_backbone, config.mirrored]);
    let images = json!([base.seed, base.split.base, base.images.labels]);
    let channels = json!([model.channels.mean, model.channels.deviation, model.look]);
    let own = model.tensors().into_iter().filter(|(name, _)| name.starts_with("backbone."));
    let backbone = [
        codec::digest(&checkpoint::encode(&own.collect::<Vec<_>>(), None)?),
        model.onnx.as_ref().map_or([0; 32], |onnx| onnx.digest),
    ];
    Ok(digest(json!([views, images, channels, backbone])))
}

impl FeatureCache {
    /// Computes the clean features, and those of as many augmented views as the recipe caches: none where the backbone
    /// is trained, since each step then draws its own.
    ///
    /// # Errors
    /// If an engine outside this program fails, or a stop was asked for.
    pub(super) fn new(
        model: &Model,
        augment: &AugmentConfig,
        config: &BaseAlignConfig,
        base: &BaseSession<'_>,
    ) -> Result<Self> {
        let (train, split, group) = (base.images, base.split, base.run.group());
        let views = if config.train_backbone { 0 } else { config.cached_views };
        let mut progress =
            WorkProgress::new("features", "images", ((views + 1) * split.base.len().div_ceil(group.size())) as u64, 0);
        let mut pass = |augment: Option<(&AugmentConfig, Precision)>| {
            features(model, augment, base, &split.base, &mut |count| {
                progress.advance(count as u64, "");
                Ok(interrupt::check()?)
            })
        };
        let clean = pass(None)?;
        check_features(&clean, train, split)?;
        let views = (0..views).map(|_| pass(Some((augment, config.views_precision)))).collect::<Result<_>>()?;
        progress.finish();
        Ok(Self { clean, views, labels: send(&train.select_labels(&split.base), model.device()) })
    }

    /// Draws the random numbers that [`FeatureCache::new`] drew.
    fn replay_draws(&self, augment: &AugmentConfig, base: &BaseSession<'_>) {
        let (train, group) = (base.images, base.run.group());
        let own = group.own_part(&base.split.base).len();
        group.draw_separately(|| ());
        for _ in &self.views {
            group.draw_separately(|| {
                let together = train.forward_batch(BATCH);
                for start in (0..own).step_by(together) {
                    let _ = random_view(&blank(together.min(own - start), self.clean.device()), augment);
                }
            });
        }
    }

    /// Features of two different cached views of each image in `rows_of_rank` of the batch, `[b, features]` each.
    pub(super) fn two_views(&self, batch: &Tensor, rows_of_rank: Range<usize>) -> [Tensor; 2] {
        let own = |all: &Tensor| all.narrow(0, rows_of_rank.start as i64, rows_of_rank.len() as i64);
        let images = own(batch);
        let stacked: Vec<Tensor> = self.views.iter().map(|view| view.index_select(0, &images)).collect();
        let stacked = Tensor::stack(&stacked, 1);
        self.choose(batch.size()[0], batch.device()).map(|choice| {
            let index = own(&choice).view([-1, 1, 1]).expand([-1, 1, stacked.size()[2]], false);
            stacked.gather(1, &index, false).squeeze_dim(1)
        })
    }

    /// Draws two different views for each of `count` images: their numbers, i64 `[count]` each.
    pub(super) fn choose(&self, count: i64, device: Device) -> [Tensor; 2] {
        let (views, options) = (self.views.len() as i64, (Kind::Int64, device));
        let first = Tensor::randint(views, [count], options);
        let second = (&first + 1 + Tensor::randint(views - 1, [count], options)).remainder(views);
        [first, second]
    }
}

/// Black images, f32 `[count, 3, 8, 8]`, to replay the draws of random views on: the number of draws depends on the
/// number of images, not on their size.
pub(super) fn blank(count: usize, device: Device) -> Tensor {
    Tensor::zeros([count as i64, 3, 8, 8], (Kind::Float, device))
}

/// Refuses features that are not finite, and warns of features that are nearly the same for every image.
fn check_features(clean: &Tensor, train: &Images, split: &Split) -> Result<()> {
    let broken = clean.isfinite().all_dim(1, false).logical_not().nonzero().view(-1);
    if let Some(first) = Vec::<i64>::try_from(broken)?.first() {
        let image = split.base[*first as usize];
        bail!(
            "the backbone's features of training image {image} (class {}) are not finite; look at the image, and at \
             backbone.mean and backbone.deviation",
            train.labels[image]
        );
    }
    /// Lowest norm of the centred features relative to the norm of the features. Backbones that work have 0.3 and more.
    const MIN_SPREAD: f64 = 1e-3;
    let norm = |rows: &Tensor| rows.square().sum(Kind::Double).sqrt().double_value(&[]);
    let spread = norm(&(clean - clean.mean_dim(0, true, Kind::Float))) / norm(clean).max(f64::MIN_POSITIVE);
    if spread < MIN_SPREAD {
        log::warn!(
            "the backbone gives nearly the same features for every image (they differ by {:.4} % of their length): \
             it will tell nothing apart; check its weights, and that its input is normalised as it was trained \
             (backbone.mean, backbone.deviation)",
            100.0 * spread
        );
    }
    Ok(())
}

/// Clean features of the training images at `indices`, f32 `[n, features]`.
///
/// # Errors
/// If an engine outside this program fails.
pub(super) fn clean_features(model: &Model, base: &BaseSession<'_>, indices: &[usize]) -> Result<Tensor> {
    features(model, None, base, indices, &mut |_| Ok(()))
}

/// Features of the training images at `indices`, f32 `[n, features]`: clean, or with `augment` of one random view of
/// each, computed in its precision. `done` is told the size of every batch. Each rank computes a part and gets all.
fn features(
    model: &Model,
    augment: Option<(&AugmentConfig, Precision)>,
    base: &BaseSession<'_>,
    indices: &[usize],
    done: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Tensor> {
    let group = base.run.group();
    let own = group.own_part(indices);
    let rows = group.draw_separately(|| own_features(model, augment, base.images, &own, done))?;
    Ok(group.gather_rows(&rows, indices.len())?)
}

/// As [`features`], by this process alone.
fn own_features(
    model: &Model,
    augment: Option<(&AugmentConfig, Precision)>,
    train: &Images,
    indices: &[usize],
    done: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Tensor> {
    let batch = |indices: &[usize]| {
        let images = train.batch(indices, model.device());
        augment.map_or_else(|| images.shallow_clone(), |(augment, _)| random_view(&images, augment))
    };
    let mut parts = Vec::new();
    if let Some(onnx) = model.onnx.as_ref().filter(|_| model.look.is_whole()) {
        onnx.start()?.stream(indices.chunks(train.forward_batch(BATCH)).map(batch), |features| {
            done(features.size()[0] as usize)?;
            parts.push(features);
            anyhow::Ok(())
        })?;
        return Ok(send(&Tensor::cat(&parts, 0), model.device()));
    }
    let mut source = model.source(augment.map_or(Precision::F32, |(_, precision)| precision))?;
    for indices in indices.chunks(train.forward_batch(BATCH)) {
        parts.push(source.features(&batch(indices))?);
        done(indices.len())?;
    }
    Ok(Tensor::cat(&parts, 0))
}
