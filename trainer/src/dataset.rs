//! Images with labels, and the few-shot class-incremental split over them.

pub mod cifar100;
mod split;

pub use split::{SHOTS, Session, Split, SplitError};

use tch::Tensor;

/// Labelled images in memory.
#[derive(Debug)]
pub struct Images {
    /// u8 `[n, 3, height, width]`, red, green, blue planes.
    pub pixels: Tensor,
    /// Class of each image, `[n]`.
    pub labels: Vec<u16>,
}

impl Images {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// u8 `[k, 3, height, width]`: the images at `indices`.
    pub fn select(&self, indices: &[usize]) -> Tensor {
        let indices: Vec<i64> = indices.iter().map(|&i| i as i64).collect();
        self.pixels.index_select(0, &Tensor::from_slice(&indices).to_device(self.pixels.device()))
    }

    /// i64 `[k]`: the labels at `indices`.
    pub fn select_labels(&self, indices: &[usize]) -> Tensor {
        let labels: Vec<i64> = indices.iter().map(|&i| i64::from(self.labels[i])).collect();
        Tensor::from_slice(&labels)
    }
}
