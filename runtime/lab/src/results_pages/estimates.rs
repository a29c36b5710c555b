//! Whether estimates and sets of labels come true: a table of what `orco-lab eval --unknown` measured with each bundle,
//! on its own benchmark and on pictures of others.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use orco_benchmark::percent_or_dash;
use orco_benchmark::spread::mean_of_any;
use serde::Deserialize;

use super::{ESTIMATES_FOLDER, MeasuredBundle, ResultsPagesError, json_files};
use crate::estimates::{EstimateRow, LearnedOnlyEstimates};
use crate::results::UnknownResults;

/// What was measured on a set of pictures: the part of results that the table shows.
#[derive(Deserialize)]
pub(super) struct MeasuredEstimates {
    /// The pictures, in words.
    source: String,
    command: String,
    unknown: UnknownResults,
}

/// Reads what was measured with a bundle, in the order of the files' names.
pub(super) fn read(bundle: &Path) -> Result<Vec<MeasuredEstimates>, ResultsPagesError> {
    json_files(&bundle.join(ESTIMATES_FOLDER))?.iter().map(|path| read_file(path)).collect()
}

fn read_file(path: &Path) -> Result<MeasuredEstimates, ResultsPagesError> {
    let json = fs::read(path).map_err(|source| ResultsPagesError::Read { path: path.into(), source })?;
    serde_json::from_slice(&json).map_err(|source| ResultsPagesError::Estimates { path: path.into(), source })
}

/// The section of all bundles; nothing where nothing was measured.
pub(super) fn section(bundles: &[MeasuredBundle]) -> String {
    let named = bundles.iter().flat_map(|bundle| {
        let name = bundle.manifest.name.as_str();
        bundle.estimates.iter().map(move |measured| (name, measured))
    });
    table(&named.collect::<Vec<_>>())
}

fn table(measured: &[(&str, &MeasuredEstimates)]) -> String {
    if measured.is_empty() {
        return String::new();
    }
    let commands: String = measured.iter().map(|(_, measured)| format!("    {}\n", measured.command)).collect();
    let rule = "---|".repeat(COLUMNS.matches('|').count() - 1);
    let mut text = format!("{INTRODUCTION}\n{commands}\n{COLUMNS}\n|{rule}\n");
    for (bundle, MeasuredEstimates { source, unknown, .. }) in measured {
        let cells: String = cells(&unknown.estimate_errors).iter().map(|cell| format!(" {cell} |")).collect();
        let _ = writeln!(text, "| {bundle} | {source} |{cells}");
    }
    text
}

/// Means over the sessions, below [`COLUMNS`].
fn cells(rows: &[EstimateRow]) -> [String; 10] {
    let all = |of: fn(&EstimateRow) -> Option<f64>| mean_of_any(rows.iter().filter_map(of));
    let alone = |of: fn(&LearnedOnlyEstimates) -> Option<f64>| {
        mean_of_any(rows.iter().filter_map(|row| row.learned_only.as_ref()).filter_map(of))
    };
    let means = [
        all(|row| Some(row.base_covered)),
        all(|row| Some(row.learned_covered)),
        all(|row| Some(row.size)),
        all(|row| row.learned_gap),
        alone(|row| row.covered),
        alone(|row| row.size),
        alone(|row| row.estimated),
        alone(|row| row.measured),
        alone(|row| row.gap),
        alone(|row| row.in_range),
    ];
    means.map(percent_or_dash)
}

const COLUMNS: &str = "| bundle | measured on | right label in the set: base classes | learned classes | labels in a set | \
                       learned classes, estimated less measured | alone: right label in the set | labels in a set | \
                       estimated accuracy | measured | estimated less measured | in range |";

const INTRODUCTION: &str = "
## Estimates and sets of labels

Means over sessions and draws, in percent, differences in percentage points; classes count alike, and pictures that \
count as unknown are not left out. [Sets of labels](../how/answers.md#sets-of-labels) are to hold the right one for \
90 % of pictures. *Alone* is where answers name learned classes alone, as they do by default once three things are \
taught: that estimate is what people are told then, as a [range](../how/answers.md#promises-as-ranges). *In range* is \
the share of draws in which the measured accuracy lies in it. Printed by
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_pictures_has_a_row_with_means_over_its_sessions() {
        let row = EstimateRow::example();
        let alone = LearnedOnlyEstimates { gap: Some(-1.5), covered: None, ..row.learned_only.unwrap() };
        let second = EstimateRow { base_covered: 90.0, learned_gap: None, learned_only: Some(alone), ..row };
        let measured = |source: &str, rows: &[EstimateRow]| MeasuredEstimates {
            source: source.into(),
            command: "orco-lab eval".into(),
            unknown: UnknownResults { false_alarms: 0.05, sessions: Vec::new(), estimate_errors: rows.to_vec() },
        };
        let own = measured("pictures of cups", &[row, second]);
        let old = measured("the benchmark", &[EstimateRow { learned_only: None, ..row }]);
        let text = table(&[("everyday", &own), ("edge", &old)]);
        let rows = [
            "| everyday | pictures of cups | 90.50 | 88.50 | 1.75 | 4.00 | 91.25 | 1.25 | 92.50 | 96.00 | -2.50 | 100.00 |\n",
            "| edge | the benchmark | 91.00 | 88.50 | 1.75 | 4.00 | - | - | - | - | - | - |\n",
        ];
        assert!(rows.iter().all(|row| text.contains(row)), "{text}");
        let columns: Vec<usize> =
            text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
        assert_eq!(columns, [13; 4], "{text}");
        assert!(text.contains("    orco-lab eval\n    orco-lab eval\n\n|"), "{text}");
        assert_eq!(table(&[]), "");
    }
}
