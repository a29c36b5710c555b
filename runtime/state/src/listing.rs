//! Lists in sentences for people: the first entries, and how many more there are.

use alloc::string::String;
use core::fmt::{Display, Write};

/// The first `most` entries, and how many more there are: one long list must not hide the rest of a sentence.
///
/// ```
/// use orco_state::listing::join_first;
///
/// let labels = ["mug", "duck", "cone", "vase"];
/// assert_eq!(join_first(labels.iter(), 2, ", "), "mug, duck, and 2 more");
/// assert_eq!(join_first(labels.iter(), 4, "; "), "mug; duck; cone; vase");
/// ```
pub fn join_first<T: Display>(entries: impl ExactSizeIterator<Item = T>, most: usize, separator: &str) -> String {
    let more = entries.len().saturating_sub(most);
    let mut list = String::new();
    for (index, entry) in entries.take(most).enumerate() {
        let between = if index == 0 { "" } else { separator };
        write!(list, "{between}{entry}").expect("writing into memory cannot fail");
    }
    if more > 0 {
        write!(list, "{separator}and {more} more").expect("writing into memory cannot fail");
    }
    list
}
