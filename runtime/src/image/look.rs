//! Which parts of a picture the backbone sees.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Most parts of a look.
const MAX_PARTS: usize = 4;
/// Smallest side of a part, as a share of the picture's.
const MIN_SIDE: f32 = 0.25;

/// The parts of a picture that the backbone sees: the whole, and centred parts of it, whose features are averaged.
///
/// Look closer where things rarely fill the picture: a thing in the middle counts for more, and what surrounds it for
/// less. Every part is an image for the backbone and takes its time.
///
/// ```
/// use orco_runtime::image::Look;
///
/// let look = Look::new(&[1.0, 0.75]).unwrap();
/// assert_eq!((look.parts(), look.to_string().as_str()), (2, "whole picture and its middle (0.75 of the side)"));
/// assert!(Look::new(&[0.75]).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f32>", into = "Vec<f32>")]
pub struct Look {
    /// Sides of the parts; 0 beyond the last.
    sides: [f32; MAX_PARTS],
    count: usize,
}

/// Why numbers are no look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a look starts with 1.0, the whole picture; at most three sides follow, each smaller than the one before and at \
     least 0.25"
)]
#[non_exhaustive]
pub struct LookError;

impl Look {
    /// The whole picture alone.
    pub const WHOLE: Self = Self { sides: [1.0, 0.0, 0.0, 0.0], count: 1 };

    /// A look at centred parts whose sides are these shares of the picture's, falling; the first is the whole.
    ///
    /// # Errors
    /// [`LookError`] if the numbers are something else.
    pub fn new(sides: &[f32]) -> Result<Self, LookError> {
        let fits = sides.len() <= MAX_PARTS && sides.first() == Some(&1.0);
        let falls = sides.windows(2).all(|pair| pair[1] < pair[0] && pair[1] >= MIN_SIDE);
        if !fits || !falls {
            return Err(LookError);
        }
        let mut look = Self { count: sides.len(), ..Self::WHOLE };
        look.sides[..sides.len()].copy_from_slice(sides);
        Ok(look)
    }

    /// Sides of the parts, as shares of the picture's.
    pub fn sides(&self) -> &[f32] {
        &self.sides[..self.count]
    }

    /// Number of parts, each of which the backbone computes.
    pub fn parts(&self) -> usize {
        self.count
    }

    /// Whether the whole picture is the only part.
    pub fn is_whole(&self) -> bool {
        self.count == 1
    }

    /// The length that a side needs if the smallest part is to be `length` pixels long.
    pub fn canvas(&self, length: u32) -> u32 {
        let smallest = self.sides[self.count - 1];
        (length as f32 / smallest).ceil() as u32
    }

    /// First pixel and length of each part along a side of that length.
    pub fn spans(&self, length: u32) -> impl Iterator<Item = [u32; 2]> + '_ {
        self.sides().iter().map(move |side| {
            let part = ((length as f32 * side).round() as u32).clamp(1, length);
            [(length - part) / 2, part]
        })
    }
}

impl Default for Look {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whole picture")?;
        if self.is_whole() {
            return Ok(());
        }
        let sides: Vec<String> = self.sides()[1..].iter().map(f32::to_string).collect();
        write!(f, " and its middle ({} of the side)", sides.join(" and "))
    }
}

impl TryFrom<Vec<f32>> for Look {
    type Error = LookError;

    fn try_from(sides: Vec<f32>) -> Result<Self, LookError> {
        Self::new(&sides)
    }
}

impl From<Look> for Vec<f32> {
    fn from(look: Look) -> Self {
        look.sides().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_look_is_refused() {
        let wrong: [&[f32]; 9] = [
            &[],
            &[0.75],
            &[1.0, 1.0],
            &[1.0, 0.2],
            &[1.0, 0.5, 0.75],
            &[1.0, f32::NAN],
            &[f32::NAN],
            &[1.0, 0.9, 0.8, 0.7, 0.6],
            &[1.0, -0.5],
        ];
        for sides in wrong {
            assert_eq!(Look::new(sides), Err(LookError), "{sides:?}");
        }
        assert_eq!(Look::new(&[1.0]), Ok(Look::WHOLE));
    }

    #[test]
    fn the_smallest_part_of_a_canvas_is_as_long_as_the_input() {
        for sides in [&[1.0, 0.75][..], &[1.0, 0.75, 0.55], &[1.0, 0.25]] {
            let look = Look::new(sides).unwrap();
            for length in 1..=256 {
                let canvas = look.canvas(length);
                let spans: Vec<[u32; 2]> = look.spans(canvas).collect();
                assert_eq!((spans.len(), spans[0]), (sides.len(), [0, canvas]));
                assert!(spans[sides.len() - 1][1] >= length, "{sides:?}, {length}: {spans:?}");
            }
        }
        assert_eq!(Look::new(&[1.0, 0.75]).unwrap().canvas(224), 299);
        assert_eq!(Look::WHOLE.canvas(224), 224);
    }
}
