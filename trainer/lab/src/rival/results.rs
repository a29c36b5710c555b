//! What was measured of rivals: as lines of a table, and as files.

use std::path::Path;

use anyhow::Result;
use orco_benchmark::Summary;
use orco_benchmark::csv::csv;
use orco_lab::format;
use orco_lab::published::PaperTable;
use orco_lab::results::MeasuredSystem;
use orco_lab::rival_results::RivalRun;
use orco_lab::seeds::{SeedSummary, csv as csv_of_seeds};
use orco_trainer::config::{MeasureOn, Recipe, SplitConfig};

use super::Rival;
use crate::measurements::{self, ResultsContext};

/// Columns of a rival's name.
const WIDTH: usize = 10;

/// The table of the OrCo paper that is on a recipe's data and split.
pub(super) fn table(recipe: &Recipe) -> Option<PaperTable> {
    let SplitConfig { base_classes, sessions, ways, measure_on, .. } = recipe.split;
    let table = PaperTable::of(recipe.data.kind.title(), base_classes, &vec![ways as u32; sessions]);
    table.filter(|_| measure_on == MeasureOn::Test)
}

/// What stands above the lines of the table of a recipe.
pub fn heading(recipe: &Recipe) -> String {
    let published = table(recipe).map(|table| format!("published on {}: aHM / last HM / aACC", table.name()));
    format::heading(WIDTH, &published.unwrap_or_default())
}

/// The line of a rival beside what was published of it.
pub fn line(rival: Rival, recipe: &Recipe, summary: &Summary) -> String {
    let published =
        table(recipe).map(|table| rival.published(table).map_or_else(|| "-".into(), |totals| totals.to_string()));
    format::line(WIDTH, rival.name(), summary, &published.unwrap_or_default())
}

/// What was measured of a rival: once by the recipe's seed, or once by each of several.
#[derive(Clone, Debug)]
pub struct MeasuredRival<T> {
    /// The rival.
    pub rival: Rival,
    /// Its numbers.
    pub measured: T,
}

/// Writes all that was measured as rivals.json and rivals.csv; `run` says how it came about.
///
/// # Errors
/// If a file cannot be written.
pub fn write(
    folder: &Path,
    measured: &[MeasuredRival<Summary>],
    run: &RivalRun,
    context: ResultsContext<'_>,
) -> Result<()> {
    let recipe = context.recipe;
    let beside = |of: &MeasuredRival<Summary>| {
        MeasuredSystem::from(of.measured.clone()).beside(of.rival.published_numbers(recipe).into_iter().flatten())
    };
    let mut results = context.empty_results();
    results.systems = measured.iter().map(beside).collect();
    let csv = csv(results.summaries());
    measurements::write(folder, "rivals", recipe, Some(run), &results, &csv)
}

/// Writes what was measured of each rival with every one of these seeds, the recipe's first, as rivals-seeds.json and
/// rivals-seeds.csv; returns each rival taken together.
///
/// # Errors
/// If a file cannot be written.
pub fn write_over_seeds(
    folder: &Path,
    measured: &[MeasuredRival<Vec<Summary>>],
    seeds: &[u64],
    run: &RivalRun,
    context: ResultsContext<'_>,
) -> Result<Vec<SeedSummary>> {
    let recipe = context.recipe;
    let over: Vec<SeedSummary> = measured.iter().map(|of| SeedSummary::of(&of.measured)).collect();
    let beside = |(over, of): (&SeedSummary, &MeasuredRival<Vec<Summary>>)| {
        let published = of.rival.published_numbers(recipe).into_iter().flatten();
        MeasuredSystem::of_trainings(over, of.measured.clone()).beside(published)
    };
    let mut results = context.empty_results();
    results.training_seeds = seeds.to_vec();
    results.systems = over.iter().zip(measured).map(beside).collect();
    measurements::write(folder, "rivals-seeds", recipe, Some(run), &results, &csv_of_seeds(&over))?;
    Ok(over)
}
