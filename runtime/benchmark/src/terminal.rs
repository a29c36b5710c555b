//! What programs show and read on a command line.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar with rate and time left; hidden where nobody looks.
pub fn progress_bar(total: usize, what: &str) -> ProgressBar {
    let bar = if io::stderr().is_terminal() { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len}, {per_sec}, {eta} left {msg}");
    bar.set_style(style.expect("template is valid").progress_chars("=> "));
    bar.set_prefix(what.to_owned());
    bar
}

/// Reads a share, 0 to 1.
///
/// # Errors
/// What is expected, if it is none.
pub fn parse_share(argument: &str) -> Result<f32, String> {
    let share = argument.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a share from 0 to 1, such as 0.05".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_from_0_to_1() {
        assert_eq!([parse_share("0"), parse_share("0.05"), parse_share("1")], [Ok(0.0), Ok(0.05), Ok(1.0)]);
        for none in ["", "5 %", "-0.1", "1.1", "NaN"] {
            assert!(parse_share(none).is_err(), "{none}");
        }
    }
}
