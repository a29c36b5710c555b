//! `orco-lab scenes`: how well things that were learned in one place are recognised in others.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use orco_lab::format::{lab_command, print, shell_word};
use orco_lab::scenes::{InputShares, SceneInput, ScenePlan, SceneReport, SceneResults, measure, objects_in, percent};
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::pictures_in;

use crate::output::{check_replaced, write};

/// Arguments of `orco-lab scenes`.
#[derive(Args)]
pub struct ScenesArguments {
    /// Folder of things: each folder below it that holds PNG files is one. Masks are the files' transparency, or
    /// `maps/NAME-map.png` beside them (ETH-80).
    objects: PathBuf,
    /// Folder of photographs of places, JPEG or PNG.
    places: PathBuf,
    /// The bundle's folder.
    #[arg(long, value_name = "DIR", default_value = "models/everyday")]
    bundle: PathBuf,
    /// Draws of things, places, shots and light.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    draws: u32,
    /// Seed of the first draw; each further one has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Things of a draw, and places: two at least, since each is shown in another one's place.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    things: u32,
    /// Pictures of each thing that are asked in each place.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=1000))]
    asked: u32,
    /// Writes the result to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures all draws and prints each, and their mean.
pub fn run(arguments: &ScenesArguments) -> Result<()> {
    if let Some(path) = &arguments.json {
        let is_report = |json: &[u8]| serde_json::from_slice::<SceneReport>(json).is_ok();
        check_replaced(path, is_report, "a result")?;
    }
    let bundle = Bundle::open(&arguments.bundle)?;
    let (objects, places) = (objects_in(&arguments.objects)?, pictures_in(&arguments.places)?);
    let mut draws = Vec::new();
    print(HEADING)?;
    for draw in 0..u64::from(arguments.draws) {
        let plan = ScenePlan {
            bundle: &bundle,
            inputs: &SceneInput::ALL,
            objects: &objects,
            places: &places,
            things_per_draw: arguments.things as usize,
            queries_per_thing: arguments.asked as usize,
            seed: arguments.seed + draw,
        };
        let results = measure(&plan)?;
        print_results(&format!("seed {}", plan.seed), &results)?;
        draws.push(results);
    }
    let mean = SceneResults::mean(&draws);
    if draws.len() > 1 {
        print_results("mean", &mean)?;
    }
    let Some(path) = &arguments.json else { return Ok(()) };
    let json = serde_json::to_string_pretty(&SceneReport { command: command(arguments), draws, mean })?;
    write(path, &format!("{json}\n"))
}

const HEADING: &str = "right answers in %, among the things that were taught: in their place, in another one; in another one \
                       with base classes; shots that the checks refuse; right and not unknown, where learned classes \
                       alone are answered: in their place, in another one; what the device promises after teaching, \
                       the promised range, and the promised accuracy less what is right in their place and in another \
                       one, in points";

fn print_results(name: &str, results: &SceneResults) -> Result<()> {
    print(name)?;
    for (input, shares) in SceneInput::ALL.into_iter().zip(&results.inputs) {
        print(format!("  {:<15} {}", input.name(), columns(shares)))?;
    }
    for (what, share) in [
        ("empty places called empty", results.empty),
        ("things missed", results.missed),
        ("frames in which more was found", results.spurious),
        ("two things, both right", results.two_things),
    ] {
        print(format!("  {what:<29} {:>6}", percent(share)))?;
    }
    Ok(())
}

/// What was measured through an input, below [`HEADING`].
fn columns(shares: &InputShares) -> String {
    let InputShares { own_place, other_place, other_place_all_classes, refused_shots, known, promise } = *shares;
    let cell = |share: Option<f64>| format!("{:>6}", share.map_or_else(|| "-".to_owned(), percent));
    let shares = [own_place, other_place, other_place_all_classes, refused_shots].map(|share| cell(Some(share)));
    let [known_own, known_other] = [known.map(|of| of.own_place), known.map(|of| of.other_place)].map(cell);
    let range = promise.and_then(|of| of.range).map(|[low, high]| format!("{} to {}", percent(low), percent(high)));
    let promised =
        [promise.map(|of| of.promised), promise.map(|of| of.own_place_gap), promise.map(|of| of.other_place_gap)];
    let [promised, own_gap, other_gap] = promised.map(cell);
    let range = range.unwrap_or_else(|| "-".to_owned());
    format!("{}  {known_own} {known_other}  {promised} {range:>14} {own_gap} {other_gap}", shares.join(" "))
}

fn command(arguments: &ScenesArguments) -> String {
    let word = |path: &PathBuf| shell_word(&path.to_string_lossy());
    lab_command(format_args!(
        "scenes {} {} --bundle {} --draws {} --seed {} --things {} --asked {}",
        word(&arguments.objects),
        word(&arguments.places),
        word(&arguments.bundle),
        arguments.draws,
        arguments.seed,
        arguments.things,
        arguments.asked
    ))
}
