//! Features of the base images, computed once where the backbone is frozen.

use orco_runtime::encoder::EncodeError;
use tch::{Kind, Tensor};

use crate::augment::view;
use crate::config::AugmentConfig;
use crate::dataset::{Images, Split};
use crate::model::Model;
use crate::progress::Progress;

/// Images at a time.
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

impl FeatureCache {
    /// Computes `views` augmented views beside the clean one.
    pub(super) fn new(
        model: &Model,
        augment: &AugmentConfig,
        views: usize,
        train: &Images,
        split: &Split,
    ) -> Result<Self, EncodeError> {
        let device = model.device();
        let mut source = model.source()?;
        let mut progress = Progress::new("features", ((views + 1) * split.base.len()) as u64, 0);
        let mut pass = |augmented: bool| {
            let parts = split.base.chunks(BATCH).map(|indices| {
                let images = train.select(indices).to_device(device).to_kind(Kind::Float) / 255.0;
                let images = if augmented { view(&images, augment) } else { images };
                progress.advance(indices.len() as u64, "");
                source.features(&images)
            });
            Ok(Tensor::cat(&parts.collect::<Result<Vec<_>, _>>()?, 0))
        };
        let clean = pass(false)?;
        let views = (0..views).map(|_| pass(true)).collect::<Result<_, _>>()?;
        progress.finish();
        Ok(Self { clean, views, labels: train.select_labels(&split.base).to_device(device) })
    }

    /// For every image of the batch, features under two different cached views.
    pub(super) fn two_views(&self, batch: &Tensor) -> [Tensor; 2] {
        let views = self.views.len() as i64;
        let stacked: Vec<Tensor> = self.views.iter().map(|view| view.index_select(0, batch)).collect();
        let stacked = Tensor::stack(&stacked, 1);
        let options = (Kind::Int64, batch.device());
        let first = Tensor::randint(views, batch.size(), options);
        let second = (&first + 1 + Tensor::randint(views - 1, batch.size(), options)).remainder(views);
        let pick = |choice: Tensor| {
            let index = choice.view([-1, 1, 1]).expand([-1, 1, stacked.size()[2]], false);
            stacked.gather(1, &index, false).squeeze_dim(1)
        };
        [pick(first), pick(second)]
    }
}
