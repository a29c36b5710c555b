//! Summaries as CSV: one line for each number, so that any program for statistics reads it without a plan of columns.

use std::fmt::Write as _;

use crate::metrics::SessionAccuracy;
use crate::spread::Spread;
use crate::summary::Summary;

/// The names of the columns. `session` is empty where a number is over all sessions, `deviation`, which is over the
/// draws, where there is but one.
pub const HEADING: &str = "system,draws,session,metric,mean,deviation";

/// All numbers of all systems, below [`HEADING`]. What a session does not have has no line.
pub fn csv<'a>(summaries: impl IntoIterator<Item = &'a Summary>) -> String {
    let mut text = format!("{HEADING}\n");
    for summary in summaries {
        let system = format!("{},{}", csv_quoted(&summary.name), summary.draws);
        let mut line = |session: &str, name: &str, Spread { mean, deviation }: Spread| {
            let deviation = deviation.map_or_else(String::new, |deviation| deviation.to_string());
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{system},{session},{name},{mean},{deviation}");
        };
        for (metric, total) in summary.totals() {
            line("", metric.csv_name(), total);
        }
        for (session, numbers) in summary.session_numbers() {
            for (name, number) in SessionAccuracy::NAMES.into_iter().zip(numbers) {
                if let Some(number) = number {
                    line(&session.to_string(), name, number);
                }
            }
        }
    }
    text
}

/// A field, in quotes where it needs them (RFC 4180).
pub fn csv_quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Draw, summarise};

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
