//! What people read on a terminal: lines of a table beside what others published, and commands that can be pasted.

use std::fmt::Display;
use std::io::{self, Write as _};

use orco_benchmark::spread::Spread;
use orco_benchmark::{Metric, Summary};

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

/// What is said where fewer draws differ than were asked for.
const EQUAL_DRAWS: &str = "every class has as many candidates as a draw takes, so all draws hold the same shots";

/// Says so where fewer draws are measured than were asked for, since the others are equal to them.
///
/// # Errors
/// As [`print()`].
pub fn say_of_draws(draws: usize, asked: usize) -> Result<(), PrintError> {
    if draws < asked { print(EQUAL_DRAWS) } else { Ok(()) }
}

/// Metrics that [lines](fn@line) show beside the accuracy of session 0.
const METRICS: [Metric; 4] = [Metric::Ahm, Metric::LastHm, Metric::Aacc, Metric::BaseDecay];

/// What stands above [lines](fn@line) whose names take so many columns; `published` is the title of the last column.
/// Session 0 is what phases 1 and 2 reach on base classes.
pub fn heading(width: usize, published: &str) -> String {
    let title = |name| format!("{name:>14}");
    let titles: Vec<String> = ["session 0"].into_iter().chain(METRICS.map(Metric::name)).map(title).collect();
    let titles = titles.join(" ");
    format!("{:<width$} {titles}  {published}", "").trim_end().to_owned()
}

/// The line of what was measured, in percent, beside what was published.
pub fn line(width: usize, name: &str, summary: &Summary, published: &str) -> String {
    let base = summary.session_numbers().next().and_then(|(_, [base, ..])| base);
    let totals = METRICS.map(|metric| summary.total(metric));
    let shown =
        |number: Option<Spread>| number.map_or_else(|| format!("{:>14}", "-"), |number| format!("{number:>14}"));
    let numbers: Vec<String> = [base].into_iter().chain(totals).map(shown).collect();
    let numbers = numbers.join(" ");
    format!("{name:<width$} {numbers}  {published}").trim_end().to_owned()
}

/// A system's result: one line for the means over all sessions and one per session.
pub fn session_table(summary: &Summary) -> String {
    let totals: Vec<String> = summary.totals().map(|(metric, total)| format!("{} {total}", metric.name())).collect();
    format!("{}: {}\n{}", summary.name, totals.join(", "), summary.table())
}

/// The command that runs `orco-lab` with these words, each as a POSIX shell reads it. Whatever it writes names the
/// command that made it.
pub fn lab_command(words: impl Display) -> String {
    format!("cargo run --release -p orco-lab -- {words}")
}

/// A path as one word of a POSIX shell, which no program takes for an option.
pub fn shell_word(path: &str) -> String {
    if path.starts_with('-') { shell_quoted(&format!("./{path}")) } else { shell_quoted(path) }
}

/// Any text as one word of a POSIX shell.
pub fn shell_quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./+:,@%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
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
