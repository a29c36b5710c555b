//! Summaries as CSV: one line for each number, so that any program for statistics reads it without a plan of columns.

use std::fmt::Write as _;

use crate::metrics::{SessionAccuracy, Summary};

/// The names of the columns. `session` is empty where a number is over all sessions, `deviation`, which is over the
/// draws, where there is but one.
pub const HEADING: &str = "system,draws,session,metric,mean,deviation";

/// All numbers of all systems, below [`HEADING`]. What a session does not have has no line.
pub fn csv<'a>(summaries: impl IntoIterator<Item = &'a Summary>) -> String {
    let mut text = format!("{HEADING}\n");
    for summary in summaries {
        let system = format!("{},{}", quoted(&summary.name), summary.draws);
        let shown = |deviation: f64| if summary.draws > 1 { deviation.to_string() } else { String::new() };
        for (name, mean, deviation) in summary.totals() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{system},,{name},{mean},{}", shown(deviation));
        }
        for (means, deviations) in summary.sessions.iter().zip(&summary.deviations) {
            let numbers = means.numbers().into_iter().zip(deviations.numbers());
            for (name, (mean, deviation)) in SessionAccuracy::NAMES.iter().zip(numbers) {
                if let (Some(mean), Some(deviation)) = (mean, deviation) {
                    let _ = writeln!(text, "{system},{},{name},{mean},{}", means.session, shown(deviation));
                }
            }
        }
    }
    text
}

/// A field, in quotes where it needs them (RFC 4180).
pub fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Draw, summarise};

    #[test]
    fn every_number_has_a_line() {
        let row =
            |session, inc: Option<f64>| SessionAccuracy { session, base: 75.5, inc, hm: inc, top1: 60.25, area: None };
        let rows = vec![row(0, None), row(1, Some(50.0))];
        let summary = summarise("ours, \"all\"", &[Draw::of_rows(rows)]);
        let text = csv(&[summary]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], HEADING);
        assert!(lines.contains(&"\"ours, \"\"all\"\"\",1,,ahm,50,"), "{text}");
        assert!(lines.contains(&"\"ours, \"\"all\"\"\",1,1,top-1,60.25,"), "{text}");
        // Five totals (no area), two numbers of session 0, four of session 1.
        assert_eq!(lines.len(), 1 + 5 + 2 + 4);
    }
}
