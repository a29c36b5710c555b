//! What people read on a terminal: lines of a table beside what others published, and commands that can be pasted.

use core::fmt::Display;
use std::io::{self, Write as _};

use orco_benchmark::Summary;

/// Standard output took no more.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output")]
pub struct PrintError(#[from] io::Error);

/// Prints a line on standard output.
///
/// # Errors
/// [`PrintError`] if it takes no more, as a file on a full disk.
pub fn print(line: impl Display) -> Result<(), PrintError> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// What stands above [lines](fn@line) whose names take so many columns; `theirs` is the title of the last column.
/// Session 0 is what phases 1 and 2 reach on base classes.
pub fn heading(width: usize, theirs: &str) -> String {
    let title = |name| format!("{name:>14}");
    let titles = ["session 0", "aHM", "last HM", "aACC", "base decay"].map(title).join(" ");
    format!("{:<width$} {titles}  {theirs}", "").trim_end().to_owned()
}

/// The line of what was measured, in percent, beside what others gave.
pub fn line(width: usize, name: &str, summary: &Summary, theirs: &str) -> String {
    let last = summary.last_hm.zip(summary.last_hm_deviation);
    let first = summary.sessions.first().zip(summary.deviations.first());
    let numbers = [
        first.map_or_else(|| "-".into(), |(mean, deviation)| summary.both(mean.base, deviation.base)),
        summary.both(summary.ahm, summary.ahm_deviation),
        last.map_or_else(|| "-".into(), |(mean, deviation)| summary.both(mean, deviation)),
        summary.both(summary.aacc, summary.aacc_deviation),
        summary.both(summary.base_decay, summary.base_decay_deviation),
    ];
    let numbers = numbers.map(|number| format!("{number:>14}")).join(" ");
    format!("{name:<width$} {numbers}  {theirs}").trim_end().to_owned()
}

/// A system's result: one line for the means over all sessions and one per session.
pub fn session_table(summary: &Summary) -> String {
    let name = |name: &str| match name {
        "ahm" => "aHM".to_owned(),
        "last hm" => "last HM".to_owned(),
        "aacc" => "aACC".to_owned(),
        other => other.to_owned(),
    };
    let totals =
        summary.totals().map(|(of, mean, deviation)| format!("{} {}", name(of), summary.both(mean, deviation)));
    let totals: Vec<String> = totals.collect();
    format!("{}: {}\n{}", summary.name, totals.join(", "), summary.table())
}

/// A path as one word of a POSIX shell.
pub fn shell_word(text: &str) -> String {
    let text = if text.starts_with('-') { format!("./{text}") } else { text.to_owned() };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./+:,@%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        assert_eq!(shell_word("models/cifar100-edge"), "models/cifar100-edge");
        assert_eq!(shell_word("my bundles/it's"), "'my bundles/it'\\''s'");
        assert_eq!(shell_word("-x"), "./-x");
    }
}
