//! Which parts of a picture the backbone sees.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Most parts of a look.
const MAX_PARTS: usize = 4;
/// Smallest side of a part, as a share of the picture's.
const MIN_SIDE: f32 = 0.25;
/// Most that a part may count beside the whole.
const MAX_WEIGHT: f32 = 10.0;

/// The parts of a picture that the backbone sees: the whole, and centred parts of it. A picture's features are the
/// weighted mean of those of its parts.
///
/// Look closer where things rarely fill the picture: a thing in the middle counts for more, and what surrounds it for
/// less. Every part is an image for the backbone and takes its time.
///
/// In TOML and JSON it is a list whose first element is 1.0, the whole; each further one is a side, or a side and a
/// weight: `[1.0, 0.75]`, `[1.0, { side = 0.55, weight = 0.5 }]`.
///
/// ```
/// use orco_runtime::image::{Look, LookPart};
///
/// let look = Look::new(&[1.0, 0.75]).unwrap();
/// assert_eq!((look.parts().len(), look.to_string().as_str()), (2, "whole picture and its middle (0.75 of the side)"));
/// assert!(Look::new(&[0.75]).is_err());
/// let half = LookPart { side: 0.55, weight: 0.5 };
/// assert_eq!(Look::weighted(&[LookPart::WHOLE, half]).unwrap().total_weight(), 1.5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<WrittenPart>", into = "Vec<WrittenPart>")]
pub struct Look {
    /// The parts; beyond the last, nothing that counts.
    parts: [LookPart; MAX_PARTS],
    count: usize,
}

/// A centred part of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookPart {
    /// Its side, as a share of the picture's.
    pub side: f32,
    /// How much its features count beside those of the whole picture, which count 1.
    pub weight: f32,
}

/// A part as it is written: one that counts as much as the whole is its side alone.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenPart {
    Side(f32),
    Weighted(LookPart),
}

/// Why numbers are no look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a look starts with 1.0, the whole picture; at most three sides follow, each smaller than the one before and at \
     least 0.25, alone or with a weight above 0 and at most 10: [1.0, 0.75], [1.0, {{ side = 0.55, weight = 0.5 }}]"
)]
#[non_exhaustive]
pub struct LookError;

impl LookPart {
    /// The whole picture.
    pub const WHOLE: Self = Self::of(1.0);

    /// A part that counts as much as the whole picture.
    const fn of(side: f32) -> Self {
        Self { side, weight: 1.0 }
    }
}

impl Look {
    /// The whole picture alone.
    pub const WHOLE: Self = Self { parts: [LookPart::WHOLE; MAX_PARTS], count: 1 };

    /// A look at centred parts whose sides are these shares of the picture's, in descending order; the first is the
    /// whole. All count alike.
    ///
    /// # Errors
    /// [`LookError`] if the numbers are something else.
    pub fn new(sides: &[f32]) -> Result<Self, LookError> {
        Self::weighted(&sides.iter().map(|side| LookPart::of(*side)).collect::<Vec<_>>())
    }

    /// A look at such parts; the first is the whole, and each further one is smaller than the one before.
    ///
    /// # Errors
    /// [`LookError`] if they are something else.
    pub fn weighted(parts: &[LookPart]) -> Result<Self, LookError> {
        let starts = parts.len() <= MAX_PARTS && parts.first() == Some(&LookPart::WHOLE);
        let falls = parts.windows(2).all(|pair| pair[1].side < pair[0].side && pair[1].side >= MIN_SIDE);
        let counts = parts.iter().all(|part| part.weight > 0.0 && part.weight <= MAX_WEIGHT);
        if !starts || !falls || !counts {
            return Err(LookError);
        }
        let mut look = Self { count: parts.len(), ..Self::WHOLE };
        look.parts[..parts.len()].copy_from_slice(parts);
        Ok(look)
    }

    /// The parts, each of which the backbone computes.
    pub fn parts(&self) -> &[LookPart] {
        &self.parts[..self.count]
    }

    /// The sum of the parts' weights.
    pub fn total_weight(&self) -> f32 {
        self.parts().iter().map(|part| part.weight).sum()
    }

    /// Whether the whole picture is the only part.
    pub fn is_whole(&self) -> bool {
        self.count == 1
    }

    /// The length that a side needs if the smallest part is to be `length` pixels long.
    pub fn canvas(&self, length: u32) -> u32 {
        let smallest = self.parts[self.count - 1].side;
        (length as f32 / smallest).ceil() as u32
    }

    /// First pixel and length of each part along a side of that length.
    pub fn spans(&self, length: u32) -> impl Iterator<Item = [u32; 2]> + '_ {
        self.parts().iter().map(move |part| {
            let part = ((length as f32 * part.side).round() as u32).clamp(1, length);
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
        let described = |part: &LookPart| match part.weight {
            1.0 => part.side.to_string(),
            weight => format!("{} with weight {weight}", part.side),
        };
        let sides: Vec<String> = self.parts()[1..].iter().map(described).collect();
        write!(f, " and its middle ({} of the side)", sides.join(" and "))
    }
}

impl TryFrom<Vec<WrittenPart>> for Look {
    type Error = LookError;

    fn try_from(written: Vec<WrittenPart>) -> Result<Self, LookError> {
        let part = |written| match written {
            WrittenPart::Side(side) => LookPart::of(side),
            WrittenPart::Weighted(part) => part,
        };
        Self::weighted(&written.into_iter().map(part).collect::<Vec<_>>())
    }
}

impl From<Look> for Vec<WrittenPart> {
    fn from(look: Look) -> Self {
        let written = |part: &LookPart| match part.weight {
            1.0 => WrittenPart::Side(part.side),
            _ => WrittenPart::Weighted(*part),
        };
        look.parts().iter().map(written).collect()
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
        for weight in [0.0, -1.0, 10.5, f32::NAN] {
            assert_eq!(Look::weighted(&[LookPart::WHOLE, LookPart { side: 0.5, weight }]), Err(LookError), "{weight}");
        }
        let light = LookPart { side: 1.0, weight: 0.5 };
        assert_eq!(Look::weighted(&[light, LookPart::of(0.5)]), Err(LookError), "the whole counts 1");
    }

    #[test]
    fn a_look_is_written_as_it_is_read() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Recipe {
            look: Look,
        }
        for (text, weights) in [
            ("look = [1.0]\n", &[1.0][..]),
            ("look = [1.0, 0.75]\n", &[1.0, 1.0]),
            ("look = [1.0, { side = 0.5, weight = 0.25 }]\n", &[1.0, 0.25]),
        ] {
            let recipe: Recipe = toml::from_str(text).unwrap();
            assert_eq!(recipe.look.parts().iter().map(|part| part.weight).collect::<Vec<_>>(), weights);
            assert_eq!(toml::to_string(&recipe).unwrap(), text);
        }
        let refused = toml::from_str::<Recipe>("look = [1.0, { side = 0.5, weight = 0 }]").unwrap_err().to_string();
        assert!(refused.contains("with a weight above 0"), "{refused}");
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
