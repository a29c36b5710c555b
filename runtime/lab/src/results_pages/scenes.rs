//! The page of things in other places: what `orco-lab scenes` measured with a bundle, for each set of places.

use std::fmt::Write as _;
use std::path::Path;

use super::{MeasuredBundle, NOTE, ResultsPagesError, read_if_there};
use crate::scenes::{SceneInput, SceneReport, SceneResults};

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
    let mut text = format!(
        "\n## `{bundle}` on {places}\n\n    {command}\n\n| what the backbone sees | in its own place | in another place | \
         the same, base classes allowed | shots that the checks refuse |\n|---|---|---|---|---|\n"
    );
    for (input, kind) in SceneInput::ALL.into_iter().enumerate() {
        let cell = |of: &dyn Fn(&SceneResults) -> f64| with_range(draws, mean, of);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            seen_through(kind),
            cell(&|results| results.inputs[input].own_place),
            cell(&|results| results.inputs[input].other_place),
            cell(&|results| results.inputs[input].other_place_all_classes),
            cell(&|results| results.inputs[input].refused_shots),
        );
    }
    let _ = writeln!(
        text,
        "\nEmpty places called empty: {}. Things missed: {}. Two things in one frame, both right: {}.",
        with_range(draws, mean, &|results| results.empty),
        with_range(draws, mean, &|results| results.missed),
        with_range(draws, mean, &|results| results.two_things),
    );
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
    let lowest = draws.iter().map(of).fold(f64::MAX, f64::min);
    let highest = draws.iter().map(of).fold(0.0, f64::max);
    let mean = percent(of(mean));
    if lowest == highest { mean } else { format!("{mean} ({} to {})", percent(lowest), percent(highest)) }
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

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

Frames a second of `everyday` in rten on one core of an Intel Xeon (family 6, model 167), without and with an empty \
view: 13.0 and 10.5 for 640 x 480, 11.2 and 9.8 for 1920 x 1080, 9.2 and 8.2 for 4608 x 2592.

    cargo bench -p orco-runtime --bench scene

## What is left

With the empty view, the place matters little: answers in another place are about as often right as in the thing's own. \
The row of the thing's own mask shows what a perfect comparison with the empty place would give; what lies between is \
the cost of comparing, for instance where a white cup before a white wall loses a part of itself. What remains \
are things that look alike: ETH-80 has ten of each of eight kinds, and a draw may hold two pears or three cups. \
Tight region and centre square are better in the thing's own place because they learn the place, too, and worse \
elsewhere.
";
