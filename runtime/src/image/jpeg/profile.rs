//! The ICC profile of a JPEG file, which lies in one or more of its segments (ICC.1, annex B.4).

use super::frame::{SOS, Segments};
use crate::image::colours::MAX_PROFILE;

/// A part of a profile: the content of one segment.
struct IccPart<'a> {
    /// From 1.
    number: u8,
    /// Parts of the whole profile.
    count: u8,
    bytes: &'a [u8],
}

/// The profile's bytes, if all parts of one are there, in any order, and it is not too large.
pub(super) fn read(jpeg: &[u8]) -> Option<Vec<u8>> {
    let mut segments = Segments::new(jpeg);
    let mut parts: Vec<IccPart<'_>> = Vec::new();
    loop {
        match segments.next().ok()? {
            (SOS, _) => break,
            (0xe2, content) => {
                if let Some([number, count, bytes @ ..]) = content.strip_prefix(b"ICC_PROFILE\0") {
                    // No profile has more parts than numbers.
                    if parts.len() == usize::from(u8::MAX) {
                        return None;
                    }
                    parts.push(IccPart { number: *number, count: *count, bytes });
                }
            }
            _ => {}
        }
    }
    parts.sort_unstable_by_key(|part| part.number);
    let are_complete = parts.iter().map(|part| usize::from(part.number)).eq(1..=parts.len());
    let agree = parts.iter().all(|part| usize::from(part.count) == parts.len());
    let length: usize = parts.iter().map(|part| part.bytes.len()).sum();
    let is_usable = !parts.is_empty() && are_complete && agree && length <= MAX_PROFILE;
    is_usable.then(|| parts.iter().flat_map(|part| part.bytes).copied().collect())
}
