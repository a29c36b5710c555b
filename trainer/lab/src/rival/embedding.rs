//! Features of all images that a rival measures, learns from or averages, by a frozen backbone.

use std::collections::HashMap;

use anyhow::Result;
use orco_trainer::data::dataset::{DataSet, Images};
use orco_trainer::model::Model;
use orco_trainer::platform::interrupt;
use orco_trainer::run::progress::WorkProgress;
use tch::{Kind, Tensor};

/// Features of images, each under t transformations.
pub(super) struct Embedding {
    /// Of the images accuracy is measured on, `[n, t, d]`.
    pub measured: Tensor,
    /// Means over the training images of every base class, `[base, t, d]`.
    pub means: Tensor,
    /// Of all candidate shots, `[m, t, d]`.
    candidates: Tensor,
    /// Rows of `candidates` by training image.
    rows: HashMap<usize, i64>,
}

impl Embedding {
    /// Computes them, each image once for each rotation, in quarter turns.
    ///
    /// # Errors
    /// If a stop was asked for.
    pub fn of(model: &Model, data: &DataSet, measured: &Images, rotations: &[i64]) -> Result<Self> {
        let split = &data.split;
        let shots: Vec<usize> = split.candidates.concat();
        let count = split.base.len() + shots.len() + split.measured.len();
        let mut progress = WorkProgress::new("features", "images", count as u64, 0);
        let mut pass = |images: &Images, indices: &[usize]| clean(model, images, indices, rotations, &mut progress);
        let base = pass(&data.train, &split.base)?;
        let (candidates, measured) = (pass(&data.train, &shots)?, pass(measured, &split.measured)?);
        progress.finish();
        let means = class_means(&base, &data.train.select_labels(&split.base), split.base_classes as i64);
        let rows = shots.into_iter().enumerate().map(|(row, image)| (image, row as i64)).collect();
        Ok(Self { measured, means, candidates, rows })
    }

    /// Features of some of the candidate shots, `[shots, t, d]`.
    pub fn shots(&self, images: &[usize]) -> Tensor {
        let rows: Vec<i64> = images.iter().map(|image| self.rows[image]).collect();
        self.candidates.index_select(0, &Tensor::from_slice(&rows))
    }
}

/// Features of clean images under each rotation, in quarter turns, f32 `[indices, rotations, d]` on the processor.
fn clean(
    model: &Model,
    images: &Images,
    indices: &[usize],
    rotations: &[i64],
    progress: &mut WorkProgress,
) -> Result<Tensor> {
    let each = rotations.iter().map(|&rotation| rotated(model, images, indices, rotation, progress));
    Ok(Tensor::stack(&each.collect::<Result<Vec<_>>>()?, 1))
}

/// Features of clean images rotated by so many quarter turns, f32 `[indices, d]` on the processor.
fn rotated(
    model: &Model,
    images: &Images,
    indices: &[usize],
    rotation: i64,
    progress: &mut WorkProgress,
) -> Result<Tensor> {
    let mut parts = Vec::new();
    for indices in indices.chunks(images.forward_batch(BATCH)) {
        interrupt::check()?;
        let features = model.features(images, indices, |images| images.rot90(rotation, [2, 3]));
        parts.push(features.to_device(tch::Device::Cpu));
        if rotation == 0 {
            progress.advance(indices.len() as u64, "");
        }
    }
    Ok(Tensor::cat(&parts, 0))
}

/// Features of clean images, f32 `[indices, d]` on the processor, with progress.
pub(super) fn features(model: &Model, images: &Images, indices: &[usize]) -> Result<Tensor> {
    let mut progress = WorkProgress::new("features", "images", indices.len() as u64, 0);
    let features = rotated(model, images, indices, 0, &mut progress)?;
    progress.finish();
    Ok(features)
}

/// Images at a time.
const BATCH: usize = 500;

/// The rows of each class, i64 `[n]` for the n rows whose label, of `labels` i64, it is.
pub(super) fn rows_of_classes(labels: &Tensor, classes: i64) -> Vec<Tensor> {
    (0..classes).map(|class| labels.eq(class).nonzero().squeeze_dim(1)).collect()
}

/// Means of the rows of each class.
///
/// # Shapes
/// `features` f32 `[n, t, d]`, `labels` i64 `[n]`; returns f32 `[classes, t, d]`.
pub(super) fn class_means(features: &Tensor, labels: &Tensor, classes: i64) -> Tensor {
    let size = features.size();
    let sums = Tensor::zeros([classes, size[1], size[2]], (Kind::Float, features.device()));
    let sums = sums.index_add(0, labels, features);
    let counts = labels.bincount(None::<Tensor>, classes).clamp_min(1).to_kind(Kind::Float);
    sums / counts.view([-1, 1, 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_of_each_class_under_each_transformation() {
        let features = Tensor::from_slice(&[1.0f32, 10.0, 3.0, 30.0, 5.0, 70.0]).view([3, 2, 1]);
        let means = class_means(&features, &Tensor::from_slice(&[1i64, 1, 0]), 3);
        assert_eq!(Vec::<f32>::try_from(means.view(-1)).unwrap(), [5.0, 70.0, 2.0, 20.0, 0.0, 0.0]);
    }
}
