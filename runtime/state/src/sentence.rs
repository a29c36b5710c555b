//! Parts of sentences for people: long lists, numbers of things and of bytes, errors with their causes.

use alloc::string::String;
use core::error::Error;
use core::fmt::{Display, Write};

/// The first `most` entries, and how many more there are: one long list must not hide the rest of a sentence.
///
/// ```
/// use orco_state::sentence::join_first;
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

/// A number of things.
///
/// ```
/// use orco_state::sentence::counted;
///
/// assert_eq!([counted(1, "shot"), counted(3, "shot")], ["1 shot", "3 shots"]);
/// assert_eq!([counted(1, "learned class"), counted(0, "learned class")], ["1 learned class", "0 learned classes"]);
/// ```
pub fn counted(count: usize, thing: &str) -> String {
    let plural = match thing.chars().last() {
        _ if count == 1 => "",
        Some('s') => "es",
        _ => "s",
    };
    alloc::format!("{count} {thing}{plural}")
}

/// A number of bytes, in MiB or GiB.
///
/// ```
/// use orco_state::sentence::byte_size;
///
/// assert_eq!([byte_size(512 << 20), byte_size(21 << 30)], ["512 MiB", "21.0 GiB"]);
/// ```
pub fn byte_size(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if mebibytes < 1024.0 {
        alloc::format!("{mebibytes:.0} MiB")
    } else {
        alloc::format!("{:.1} GiB", mebibytes / 1024.0)
    }
}

/// An error with its causes, as one sentence.
///
/// ```
/// use orco_state::codec::DecodeError;
/// use orco_state::pack::PackError;
/// use orco_state::sentence::with_causes;
///
/// let error = PackError::Decode(DecodeError::Body);
/// assert_eq!(with_causes(&error), DecodeError::Body.to_string());
/// ```
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut sentence = alloc::format!("{error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(sentence, ": {error}").expect("writing into memory cannot fail");
        cause = error.source();
    }
    sentence
}
