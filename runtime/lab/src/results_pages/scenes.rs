//! The page of things in other places: what `orco-lab scenes` measured with a bundle, for each set of places.

use std::fmt::Write as _;
use std::path::Path;

use super::{MeasuredBundle, NOTE, ResultsPagesError, read_if_there};
use crate::scenes::{KnownShares, SceneInput, ScenePromise, SceneReport, SceneResults, percent};

/// Folder of what was measured, in that of a bundle.
const FOLDER: &str = "report/scenes";

/// Sets of places that were measured: the name of the file, and what stands in the heading.
const PLACES: [(&str, &str); 2] = [
    ("shelves", "shelves (GroceryStoreDataset, the first 120 of every 20th test picture by path)"),
    ("web", "web pictures (BACKGROUND_Google of Caltech-101, the first 120 by name)"),
];

/// What was measured in a set of places.
pub(super) struct MeasuredScenes {
    places: &'static str,
    report: SceneReport,
}

/// Reads what was measured of a bundle.
pub(super) fn read(bundle: &Path) -> Result<Vec<MeasuredScenes>, ResultsPagesError> {
    let mut found = Vec::new();
    for (file, places) in PLACES {
        let path = bundle.join(FOLDER).join(format!("{file}.json"));
        let Some(json) = read_if_there(&path)? else { continue };
        let report = serde_json::from_slice(&json).map_err(|source| ResultsPagesError::Scenes { path, source })?;
        found.push(MeasuredScenes { places, report });
    }
    Ok(found)
}

/// The page; none where nothing was measured.
pub(super) fn page(bundles: &[MeasuredBundle]) -> Option<String> {
    let mut text = format!("{NOTE}{INTRODUCTION}");
    let mut is_empty = true;
    for bundle in bundles {
        for scenes in &bundle.scenes {
            is_empty = false;
            text += &section(&bundle.manifest.name, scenes);
        }
    }
    text += CLOSING;
    (!is_empty).then_some(text)
}

fn section(bundle: &str, MeasuredScenes { places, report }: &MeasuredScenes) -> String {
    let SceneReport { command, draws, mean } = report;
    let has_known = mean.inputs.iter().any(|shares| shares.known.is_some());
    let [known_titles, known_rule] = if has_known { KNOWN_COLUMNS } else { [""; 2] };
    let mut text = format!(
        "\n## `{bundle}` on {places}\n\n    {command}\n\n| what the backbone sees | in its own place | in another place | \
         the same, base classes allowed | shots that the checks refuse |{known_titles}\n|---|---|---|---|---|{known_rule}\n"
    );
    for (input, kind) in SceneInput::ALL.into_iter().enumerate() {
        let cell = |of: &dyn Fn(&SceneResults) -> f64| with_range(draws, mean, of);
        let _ = write!(
            text,
            "| {} | {} | {} | {} | {} |",
            seen_through(kind),
            cell(&|results| results.inputs[input].own_place),
            cell(&|results| results.inputs[input].other_place),
            cell(&|results| results.inputs[input].other_place_all_classes),
            cell(&|results| results.inputs[input].refused_shots),
        );
        if has_known {
            let known = |of: fn(&KnownShares) -> f64| {
                with_range_if_any(draws, mean, &|results| results.inputs[input].known.as_ref().map(of))
            };
            let _ = write!(text, " {} | {} |", known(|shares| shares.own_place), known(|shares| shares.other_place));
        }
        text.push('\n');
    }
    if has_known {
        text += KNOWN;
    }
    text += &promises(report);
    let _ = writeln!(
        text,
        "\nEmpty places called empty: {}. Things missed: {}. Two things in one frame, both right: {}.",
        with_range(draws, mean, &|results| results.empty),
        with_range(draws, mean, &|results| results.missed),
        with_range(draws, mean, &|results| results.two_things),
    );
    text
}

/// What the device promises, and whether it comes true; nothing where that was not measured.
fn promises(SceneReport { draws, mean, .. }: &SceneReport) -> String {
    if mean.inputs.iter().all(|shares| shares.promise.is_none()) {
        return String::new();
    }
    let mut text = format!("{PROMISES}\n{PROMISE_COLUMNS}\n|---|---|---|---|---|---|---|\n");
    for (input, kind) in SceneInput::ALL.into_iter().enumerate() {
        let cell = |of: &dyn Fn(&ScenePromise) -> Option<f64>| {
            with_range_if_any(draws, mean, &|results| results.inputs[input].promise.as_ref().and_then(of))
        };
        // Of a draw it is all or nothing.
        let in_range = |of: fn(&ScenePromise) -> Option<f64>| {
            mean.inputs[input].promise.as_ref().and_then(of).map_or_else(|| "-".to_owned(), percent)
        };
        let range = mean.inputs[input].promise.and_then(|promise| promise.range);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            seen_through(kind),
            cell(&|promise| Some(promise.promised)),
            range.map_or_else(|| "-".to_owned(), |[low, high]| format!("{} to {}", percent(low), percent(high))),
            cell(&|promise| Some(promise.own_place_gap)),
            cell(&|promise| Some(promise.other_place_gap)),
            in_range(|promise| promise.own_place_in_range),
            in_range(|promise| promise.other_place_in_range),
        );
    }
    text
}

fn seen_through(input: SceneInput) -> &'static str {
    match input {
        SceneInput::CentreSquare => "centre square",
        SceneInput::Region => "tight region",
        SceneInput::EmptyView => "cut out by the empty view",
        SceneInput::Mask => "cut out by its own mask",
    }
}

/// A share over all draws in percent, with the lowest and the highest of a draw where they differ.
fn with_range(draws: &[SceneResults], mean: &SceneResults, of: &dyn Fn(&SceneResults) -> f64) -> String {
    with_range_if_any(draws, mean, &|results| Some(of(results)))
}

/// The same of draws that may lack it; a dash where all do.
fn with_range_if_any(draws: &[SceneResults], mean: &SceneResults, of: &dyn Fn(&SceneResults) -> Option<f64>) -> String {
    let Some(mean) = of(mean).map(percent) else { return "-".to_owned() };
    let lowest = draws.iter().filter_map(of).fold(f64::MAX, f64::min);
    let highest = draws.iter().filter_map(of).fold(f64::MIN, f64::max);
    if lowest == highest { mean } else { format!("{mean} ({} to {})", percent(lowest), percent(highest)) }
}

/// Further columns of the first table, where they were measured, and the rule below their titles.
const KNOWN_COLUMNS: [&str; 2] = [" right and known in its own place | right and known in another place |", "---|---|"];

const KNOWN: &str = "
*Right and known* are right answers of a device that names learned classes alone, where it does not say *unknown*.
";

const PROMISES: &str = "
What the device promises once it is taught, as it tells people whose answers name learned classes alone, and that less \
what is right above, in percentage points. The range means to hold the accuracy in 80 % of cases; the last two columns \
say in how many draws it does. A promise is made from the shots, which know one place.
";

const PROMISE_COLUMNS: &str = "| what the backbone sees | promised | range | less right in its own place | less right in \
                               another place | own place in the range | another place in the range |";

const INTRODUCTION: &str = "# Things in other places

Does a device know a thing in another place than the one where it was learned? Ten of ETH-80's 80 things are cut out by \
their masks and pasted onto ten photographs, at 0.6 of the frame's height. Frames have 640 x 480 pixels, an exposure \
that is off by up to 7 %, a white balance that is off by up to 2 %, noise of 3 of 255 steps, and JPEG's losses. Each \
thing is learned from five shots on its own photograph. Then it is asked in six other pictures there, and in six on a \
photograph that belonged to another thing.

Numbers are means over draws in %, with the lowest and the highest draw. Right answers are those among the ten things: \
the nearest one counts, even where a device would say *unknown*. ETH-80's pictures and photographs of places are not \
part of this repository.

Thresholds were set on other photographs of the same sets, with things drawn from the same 80. Mistakes in draws 101 to \
104 of the web pictures led to the filling of outlines; the seeds below are others.
";

const CLOSING: &str = "
## Time

[Benchmarks](benchmarks.md) has frames a second of `everyday` in rten on one core, without and with an empty view:

    cargo bench -p orco-runtime --bench scene

## What is left

With the empty view, the place matters little: answers in another place are about as often right as in the thing's own. \
The row of the thing's own mask shows what a perfect comparison with the empty place would give; what lies between is \
the cost of comparing, for instance where a white cup before a white wall loses a part of itself. What remains \
are things that look alike: ETH-80 has ten of each of eight kinds, and a draw may hold two pears or three cups. \
Tight region and centre square are better in the thing's own place because they learn the place, too, and worse \
elsewhere.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::InputShares;

    fn report(promises: &[Option<ScenePromise>]) -> SceneReport {
        let shares = |promise| InputShares { own_place: 1.0, other_place: 0.5, promise, ..InputShares::default() };
        let draw = |promise| SceneResults { inputs: vec![shares(promise); 4], ..SceneResults::default() };
        let draws: Vec<SceneResults> = promises.iter().copied().map(draw).collect();
        SceneReport { command: "orco-lab scenes".into(), mean: SceneResults::mean(&draws), draws }
    }

    #[test]
    fn what_was_not_measured_has_no_column_and_no_table() {
        let scenes = |report| MeasuredScenes { places: "shelves", report };
        let old = section("everyday", &scenes(report(&[None, None])));
        assert!(old.contains("| centre square | 100.0 | 50.0 | 0.0 | 0.0 |\n") && !old.contains("promise"), "{old}");
        assert!(!old.contains("known"), "{old}");
        let mut known = report(&[None, None]);
        let shares = |own_place, other_place| Some(KnownShares { own_place, other_place });
        known.draws[0].inputs[1].known = shares(1.0, 0.25);
        known.draws[1].inputs[1].known = shares(0.5, 0.25);
        known.mean = SceneResults::mean(&known.draws);
        let new = section("everyday", &scenes(known));
        assert!(new.contains("| tight region | 100.0 | 50.0 | 0.0 | 0.0 | 75.0 (50.0 to 100.0) | 25.0 |\n"), "{new}");
        assert!(new.contains("| centre square | 100.0 | 50.0 | 0.0 | 0.0 | - | - |\n"), "{new}");
        let tables = new.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count());
        assert!(tables.clone().count() == 6 && tables.clone().all(|columns| columns == 8), "{new}");
        let promise = |promised, own_place_gap| ScenePromise {
            promised,
            range: Some([0.5, 0.9]),
            own_place_gap,
            other_place_gap: 0.25,
            own_place_in_range: Some(0.0),
            other_place_in_range: Some(1.0),
        };
        let new = section("everyday", &scenes(report(&[Some(promise(0.75, -0.25)), Some(promise(0.85, -0.15))])));
        let columns = PROMISE_COLUMNS.matches('|').count();
        let row = "| cut out by the empty view | 80.0 (75.0 to 85.0) | 50.0 to 90.0 | -20.0 (-25.0 to -15.0) | 25.0 | 0.0 \
                   | 100.0 |";
        assert!(new.contains(row) && row.matches('|').count() == columns, "{new}");
    }
}
