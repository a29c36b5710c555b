//! Operations that move pixels: shear, translation, rotation, every image by its own amount, as one sampling grid.

use tch::{Kind, Tensor};

use crate::platform::device::send;

/// Colour of what comes in from outside: the grey of the published policies.
const OUTSIDE: f64 = 0.5;

/// Where an image's pixels come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Movement {
    /// `ShearX(s)`: row y moves left by s y pixels, counted from the top.
    ShearX(f32),
    /// `ShearY(s)`: column x moves up by s x pixels, counted from the left.
    ShearY(f32),
    /// To the right, as a share of the width.
    TranslateX(f32),
    /// Downwards, as a share of the height.
    TranslateY(f32),
    /// Anticlockwise about the centre, in degrees.
    Rotate(f32),
}

impl Movement {
    /// The 2 x 3 matrix from positions in the result to positions in the image, both -1..1, for `aspect` = width /
    /// height.
    fn matrix(self, aspect: f32) -> [f32; 6] {
        match self {
            Self::ShearX(amount) => [1.0, amount / aspect, amount / aspect, 0.0, 1.0, 0.0],
            Self::ShearY(amount) => [1.0, 0.0, 0.0, amount * aspect, 1.0, amount * aspect],
            Self::TranslateX(share) => [1.0, 0.0, -2.0 * share, 0.0, 1.0, 0.0],
            Self::TranslateY(share) => [1.0, 0.0, 0.0, 0.0, 1.0, -2.0 * share],
            Self::Rotate(degrees) => {
                let (sine, cosine) = degrees.to_radians().sin_cos();
                [cosine, -sine / aspect, 0.0, sine * aspect, cosine, 0.0]
            }
        }
    }
}

/// Moves every image; the nearest pixel counts, what comes in from outside is grey.
///
/// # Shapes
/// `images` f32 `[n, c, h, w]` and as many movements; returns the same shape.
pub fn warp(images: &Tensor, movements: &[Movement]) -> Tensor {
    let size = images.size();
    let aspect = size[3] as f32 / size[2] as f32;
    let matrices: Vec<f32> = movements.iter().flat_map(|movement| movement.matrix(aspect)).collect();
    let matrices = send(&Tensor::from_slice(&matrices).view([size[0], 2, 3]), images.device());
    let grid = Tensor::affine_grid_generator(&matrices.to_kind(Kind::Float), size, false);
    const NEAREST: i64 = 1;
    const ZEROS: i64 = 0;
    (images - OUTSIDE).grid_sampler(&grid, NEAREST, ZEROS, false) + OUTSIDE
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    /// 0, 0.0625, 0.125 ... row by row, 4x4, one channel.
    fn ramp() -> Tensor {
        (Tensor::arange(16, (Kind::Float, Device::Cpu)) / 16.0).view([1, 1, 4, 4])
    }

    /// The pixels that the result's pixels came from, by number; -1 from outside.
    fn sources(movement: Movement) -> Vec<i32> {
        // Grey itself is the value of pixel 8, which therefore reads as outside.
        let moved = Vec::<f32>::try_from(warp(&ramp(), &[movement]).view(-1)).unwrap();
        moved.iter().map(|&value| if value == 0.5 { -1 } else { (value * 16.0).round() as i32 }).collect()
    }

    #[test]
    fn nothing_moves_at_amount_zero() {
        for movement in [
            Movement::ShearX(0.0),
            Movement::ShearY(0.0),
            Movement::TranslateX(0.0),
            Movement::TranslateY(0.0),
            Movement::Rotate(0.0),
        ] {
            let moved = warp(&ramp(), &[movement]);
            assert!(moved.allclose(&ramp(), 0.0, 1e-7, false), "{movement:?}");
        }
    }

    #[test]
    fn pixels_move_where_they_should() {
        let right = [-1, 0, 1, 2, -1, 4, 5, 6, -1, -1, 9, 10, -1, 12, 13, 14];
        assert_eq!(sources(Movement::TranslateX(0.25)), right);
        let up = [4, 5, 6, 7, -1, 9, 10, 11, 12, 13, 14, 15, -1, -1, -1, -1];
        assert_eq!(sources(Movement::TranslateY(-0.25)), up);
        let quarter = [3, 7, 11, 15, 2, 6, 10, 14, 1, 5, 9, 13, 0, 4, -1, 12];
        assert_eq!(sources(Movement::Rotate(90.0)), quarter);
        // Row y, at height y + 1/2, moves left by about that much.
        let sheared = sources(Movement::ShearX(0.99));
        assert_eq!(&sheared[4..8], [5, 6, 7, -1], "{sheared:?}");
        let column: Vec<i32> = sources(Movement::ShearY(0.99)).into_iter().skip(1).step_by(4).collect();
        assert_eq!(column, [5, 9, 13, -1]);
    }

    #[test]
    fn every_image_has_its_own_movement() {
        let both = Tensor::cat(&[ramp(), ramp()], 0);
        let moved = warp(&both, &[Movement::TranslateX(0.0), Movement::Rotate(180.0)]);
        assert!(moved.narrow(0, 0, 1).allclose(&ramp(), 0.0, 1e-7, false));
        assert!(moved.narrow(0, 1, 1).allclose(&ramp().flip([2, 3]), 0.0, 1e-6, false));
    }

    #[test]
    fn wide_images_keep_their_angles() {
        // A 2x4 image turned by 180 degrees, and its shear counted in pixels.
        let wide = (Tensor::arange(8, (Kind::Float, Device::Cpu)) / 16.0).view([1, 1, 2, 4]);
        assert!(warp(&wide, &[Movement::Rotate(180.0)]).allclose(&wide.flip([2, 3]), 0.0, 1e-6, false));
        let sheared = Vec::<f32>::try_from(warp(&wide, &[Movement::ShearX(0.7)]).view(-1)).unwrap();
        assert_eq!(sheared[4..].iter().map(|v| (v * 16.0).round()).collect::<Vec<_>>(), [5.0, 6.0, 7.0, 8.0]);
    }
}
