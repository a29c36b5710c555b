//! The ICC profile of a JPEG file, which lies in one or more of its segments (ICC.1, annex B.4).

use super::frame::{SOS, Segments};
use crate::image::colours::MAX_PROFILE;

/// The profile's bytes, if all parts of one are there, in any order, and it is not too large.
pub(super) fn read(jpeg: &[u8]) -> Option<Vec<u8>> {
    let mut segments = Segments::new(jpeg);
    let mut parts: Vec<(u8, u8, &[u8])> = Vec::new();
    loop {
        match segments.next().ok()? {
            (SOS, _) => break,
            (0xe2, content) => {
                if let Some([number, count, part @ ..]) = content.strip_prefix(b"ICC_PROFILE\0") {
                    parts.push((*number, *count, part));
                }
            }
            _ => {}
        }
    }
    parts.sort_unstable_by_key(|(number, ..)| *number);
    let whole = parts.iter().map(|(number, ..)| usize::from(*number)).eq(1..=parts.len());
    let agree = parts.iter().all(|(_, count, _)| usize::from(*count) == parts.len());
    let bytes: usize = parts.iter().map(|(.., part)| part.len()).sum();
    let usable = !parts.is_empty() && whole && agree && bytes <= MAX_PROFILE;
    usable.then(|| parts.into_iter().flat_map(|(.., part)| part).copied().collect())
}
