//! Rivals that train the backbone, below a table of the paper: two tables for each recipe that trained them.

use std::fmt::Write as _;
use std::fs;
use std::iter::once;
use std::path::Path;

use orco_benchmark::{SessionAccuracy, percent_or_dash};

use super::{ResultsPagesError, TOTALS, json_files};
use crate::published::{ORCO_BASE, ORCO_INC, PaperRow, PaperTable, ROWS};
use crate::results::MeasuredSystem;
use crate::rival_results::{RivalBackboneConfig, RivalBudget, RivalRecipe, RivalResults};

const HEADING: &str = "\n### Rivals that train the backbone\n\n";

/// Stands below the first table that has rivals.
const INTRODUCTION: &str = "\
    One recipe trains all rivals of a table: the same network, images, views, learning rate and number of steps in \
    the base training. CEC, C-FSCIL and LIMIT then train the backbone further by episodes; in every session, BiDist \
    and LCwoF train its last stage, C-FSCIL and NC-FSCIL a projection behind it. \
    Their own settings are those that their authors published, for CIFAR-100 where they did; nothing was tuned here. \
    *Baseline* is trained by cross entropy and answers by the nearest class mean. *Published* is the OrCo paper's row, \
    aHM / harmonic mean of the last session / aACC, where each method has its own backbone and budget. \
    Authors train the base session for 100 to 600 epochs, so the tables below do not say which method is best. A device \
    is measured on the released weights, without this training, so its row does not compare with these. In commands, \
    DATA is the folder of the data set, LISTS that of the session lists, RUN a new one: see \
    [Train other methods](../guides/data.md#train-other-methods).\n";

/// Stands below the others.
const SEE_ABOVE: &str = "They are trained and named as [above](#rivals-that-train-the-backbone).\n";

/// Rivals that were trained by a recipe, and the benchmark that they were measured on.
pub(super) struct MeasuredRivals {
    table: PaperTable,
    measured: RivalResults,
}

/// Reads every JSON file of a folder, in the order of their names; there may be no such folder.
pub(super) fn read(folder: &Path) -> Result<Vec<MeasuredRivals>, ResultsPagesError> {
    json_files(folder)?.iter().map(|path| read_file(path)).collect()
}

fn read_file(path: &Path) -> Result<MeasuredRivals, ResultsPagesError> {
    let json = fs::read(path).map_err(|source| ResultsPagesError::Read { path: path.into(), source })?;
    let measured: RivalResults =
        serde_json::from_slice(&json).map_err(|source| ResultsPagesError::Rivals { path: path.into(), source })?;
    let table = measured.table().ok_or_else(|| ResultsPagesError::NoTable { path: path.into() })?;
    Ok(MeasuredRivals { table, measured })
}

/// What was measured on a benchmark; nothing where no file is of it.
pub(super) fn section(rivals: &[MeasuredRivals], table: PaperTable) -> String {
    let has_rivals = |table: &PaperTable| rivals.iter().any(|rivals| rivals.table == *table);
    if !has_rivals(&table) {
        return String::new();
    }
    let is_first = PaperTable::ALL.iter().find(|table| has_rivals(table)) == Some(&table);
    let of_table = rivals.iter().filter(|rivals| rivals.table == table);
    let recipes: String = of_table.map(|rivals| of_recipe(&rivals.measured, table)).collect();
    format!("{HEADING}{}{recipes}", if is_first { INTRODUCTION } else { SEE_ABOVE })
}

/// The budget, the command and the numbers of a recipe.
fn of_recipe(measured: &RivalResults, table: PaperTable) -> String {
    let systems = &measured.results.systems;
    let mut text = format!("\n#### {}\n\n{}", measured.recipe.name, training(measured));
    if let Some(run) = &measured.run {
        let _ = write!(text, " Printed by\n\n    {}", run.command);
    }
    text + "\n" + &totals(systems, table) + &sessions(systems, table)
}

/// How rivals were trained, and what deviations are over, in sentences.
fn training(measured: &RivalResults) -> String {
    let RivalResults { results, recipe, run } = measured;
    let RivalRecipe { seed, backbone, pretrain: RivalBudget { epochs, batch }, .. } = recipe;
    let RivalBackboneConfig { architecture, width, stem, weights } = backbone;
    let mut text = format!("Backbone: `{architecture}`");
    if *width > 0 {
        let _ = write!(text, " of width {width}");
    }
    if stem.as_deref() == Some("imagenet") {
        text += " with the stem for ImageNet";
    }
    if let Some(run) = run {
        let _ = write!(text, ", images of {0} x {0}", run.image_size);
    }
    match weights {
        Some(weights) => {
            let _ = write!(text, ", from the weights of `{weights}`.");
        }
        None => text += ", from scratch.",
    }
    let _ = write!(text, " Budget of the base training: {epochs} epochs in batches of {batch} images");
    if let Some(run) = run {
        let _ = write!(text, ", which are {} steps on {} base images", run.steps, run.base_images);
        if !run.lengths.is_empty() {
            let _ = write!(text, ". Beyond it: {}", run.lengths.join("; "));
        }
    }
    match results.training_seeds.as_slice() {
        [] => {
            let _ = write!(text, ". Training seed: {seed}.");
        }
        seeds => {
            let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
            let _ = write!(text, ". Training seeds: {}.", seeds.join(", "));
        }
    }
    if results.systems.iter().any(|system| system.trainings.is_some()) {
        text += " The first deviation is over draws of the shots, the second over training seeds.";
    } else if results.summaries().any(|summary| summary.draws > 1) {
        text += " Deviations are over draws of the shots.";
    }
    text
}

/// A row for each rival.
fn totals(systems: &[MeasuredSystem], table: PaperTable) -> String {
    let names: String = TOTALS.iter().map(|metric| format!(" {} |", metric.name())).collect();
    let mut text = format!("\n| rival | published |{names} draws |\n|---|---|{}---|\n", "---|".repeat(TOTALS.len()));
    for system in systems {
        let cells: String = TOTALS.iter().map(|metric| format!(" {} |", system.cell(*metric))).collect();
        let (title, published) = (title(system), published(system, table));
        let _ = writeln!(text, "| {title} | {published} |{cells} {} |", system.summary.draws);
    }
    text
}

/// Accuracies of every session, a row for each group of classes; OrCo's below, where the paper prints them.
fn sessions(systems: &[MeasuredSystem], table: PaperTable) -> String {
    let Some(first) = systems.first().filter(|first| !first.summary.sessions.is_empty()) else {
        return String::new();
    };
    let numbers: String = first.summary.sessions.iter().map(|session| format!(" {} |", session.session)).collect();
    let mut text = format!(
        "\nAccuracy after each session on base classes, on learned ones and on all, in percent:\n\n\
         | rival | classes |{numbers}\n|---|---|{}\n",
        "---|".repeat(first.summary.sessions.len())
    );
    for system in systems {
        let title = title(system);
        let ours =
            |of: fn(&SessionAccuracy) -> Option<f64>| -> Vec<_> { system.summary.sessions.iter().map(of).collect() };
        text += &row(title, "base", ours(|session| Some(session.base)));
        text += &row(title, "learned", ours(|session| session.inc));
        text += &row(title, "all", ours(|session| Some(session.top1)));
    }
    if table == PaperTable::Cifar100 {
        text += &row("OrCo, published", "base", ORCO_BASE.map(Some));
        text += &row("OrCo, published", "learned", once(None).chain(ORCO_INC.map(Some)));
    }
    text
}

fn row(title: &str, classes: &str, values: impl IntoIterator<Item = Option<f64>>) -> String {
    let cells: String = values.into_iter().map(|value| format!(" {} |", percent_or_dash(value))).collect();
    format!("| {title} | {classes} |{cells}\n")
}

/// The row of the paper's tables that has a rival's name.
fn paper_row(system: &MeasuredSystem) -> Option<&'static PaperRow> {
    ROWS.iter().find(|row| row.name.eq_ignore_ascii_case(&system.summary.name))
}

/// A rival's name as the paper writes it.
fn title(system: &MeasuredSystem) -> &str {
    paper_row(system).map_or(system.summary.name.as_str(), |row| row.name)
}

/// The totals that the paper's table gives for a rival.
fn published(system: &MeasuredSystem, table: PaperTable) -> String {
    let totals = paper_row(system).and_then(|row| row.totals(table));
    totals.map_or_else(|| "-".to_owned(), |totals| totals.to_string())
}

#[cfg(test)]
mod tests {
    use orco_benchmark::{Draw, Summary, summarise};
    use serde_json::{Value, json};

    use super::*;
    use crate::results::Results;
    use crate::results_pages::ResultsPages;
    use crate::seeds::SeedSummary;

    /// A rival that gets these accuracies on learned classes, one in each draw.
    fn summary(name: &str, incs: &[f64]) -> Summary {
        let row = |session, inc| SessionAccuracy { session, base: 60.0, inc, hm: inc, top1: 55.5, area: None };
        let draws: Vec<_> = incs.iter().map(|inc| Draw::of_rows(vec![row(0, None), row(1, Some(*inc))])).collect();
        summarise(name, &draws)
    }

    /// A file as the trainer writes it, as far as it is read here.
    fn file(results: &Results, backbone: Value, run: Option<Value>) -> Value {
        let mut json = serde_json::to_value(results).unwrap();
        json["recipe"] = json!({
            "name": results.subject,
            "seed": 1,
            "split": { "base_classes": 60, "sessions": 8, "ways": 5, "set_aside_per_class": 0, "measure_on": "test" },
            "backbone": backbone,
            "pretrain": { "epochs": 4, "batch": 128, "learning_rate": 0.1 },
        });
        if let Some(run) = run {
            json["run"] = run;
        }
        json
    }

    fn cifar() -> Value {
        let mut results = Results::new("cifar100-rivals", "CIFAR-100 test images", 2);
        results.systems = vec![
            summary("baseline", &[10.0, 12.0]).into(),
            summary("fact", &[20.0, 22.0]).into(),
            summary("lcwof", &[10.0]).into(),
        ];
        let command = "cargo xtask train-lab rival all";
        let lengths = ["CEC 20 epochs", "LIMIT 20 epochs"];
        let run = json!({
            "command": command, "image_size": 32, "base_images": 30_000, "steps": 936, "lengths": lengths,
        });
        file(&results, json!({ "architecture": "resnet18", "width": 16 }), Some(run))
    }

    fn mini() -> Value {
        let mut results = Results::new("miniimagenet-rivals-given", "mini-ImageNet test images", 2);
        let each = vec![summary("lcwof", &[10.0, 30.0]), summary("lcwof", &[40.0, 40.0])];
        results.systems = vec![MeasuredSystem::of_trainings(&SeedSummary::of(&each), each)];
        results.training_seeds = vec![1, 2];
        let weights = "models/miniimagenet-edge/backbone.onnx";
        let backbone = json!({ "architecture": "resnet18", "width": 24, "stem": "imagenet", "weights": weights });
        file(&results, backbone, None)
    }

    /// The page of the paper's tables beside these files.
    fn page(files: &[(&str, Value)]) -> Result<String, ResultsPagesError> {
        let folder = tempfile::tempdir().unwrap();
        for (name, json) in files {
            fs::write(folder.path().join(name), json.to_string()).unwrap();
        }
        Ok(ResultsPages { bundles: Vec::new(), rivals: read(folder.path())? }.beside_the_paper())
    }

    #[test]
    fn each_benchmark_has_the_rivals_that_were_measured_on_it() {
        let text = page(&[("a.json", mini()), ("b.json", cifar()), ("notes.md", json!("no results"))]).unwrap();
        let (cifar, rest) = text.split_once("\n## mini-ImageNet\n").unwrap();
        let (mini, cub) = rest.split_once("\n## CUB200\n").unwrap();
        for line in [
            "#### cifar100-rivals\n\nBackbone: `resnet18` of width 16, images of 32 x 32, from scratch. Budget \
             of the base training: 4 epochs in batches of 128 images, which are 936 steps on 30000 base images. Beyond \
             it: CEC 20 epochs; LIMIT 20 epochs. Training seed: 1. Deviations are over draws of the shots. Printed \
             by\n\n    cargo xtask train-lab rival all\n\n\
             | rival | published | aHM | last HM | aACC | draws |\n|---|---|---|---|---|---|\n",
            "| baseline | - | 11.00 ± 1.41 | 11.00 ± 1.41 | 55.50 ± 0.00 | 2 |\n",
            "| FACT | 34.91 / 33.61 / 62.55 | 21.00 ± 1.41 | 21.00 ± 1.41 | 55.50 ± 0.00 | 2 |\n",
            "| LCwoF | - | 10.00 | 10.00 | 55.50 | 1 |\n",
            "| rival | classes | 0 | 1 |\n|---|---|---|---|\n| baseline | base | 60.00 | 60.00 |\n",
            "| FACT | learned | - | 21.00 |\n| FACT | all | 55.50 | 55.50 |\n",
            "| OrCo, published | base | 80.08 | 67.37 |",
            "| OrCo, published | learned | - | 77.60 |",
        ] {
            assert!(cifar.contains(line), "{line}: {cifar}");
        }
        assert!(cifar.contains("CEC, C-FSCIL and LIMIT then train the backbone further by episodes;"), "{cifar}");
        for line in [
            "#### miniimagenet-rivals-given\n\nBackbone: `resnet18` of width 24 with the stem for ImageNet, from the \
             weights of `models/miniimagenet-edge/backbone.onnx`. Budget of the base training: 4 epochs in batches \
             of 128 images. Training seeds: 1, 2. The first deviation is over draws of the shots, the second over \
             training seeds.\n\n\
             | rival |",
            "| LCwoF | 37.50 / 35.02 / 46.80 | 30.00 ± 10.00 ± 14.14 | 30.00 ± 10.00 ± 14.14 | 55.50 ± 0.00 ± 0.00 \
             | 2 |\n",
            "| LCwoF | learned | - | 30.00 |\n",
        ] {
            assert!(mini.contains(line), "{line}: {mini}");
        }
        assert!(!mini.contains("OrCo, published |") && !cub.contains("### Rivals"), "{mini}{cub}");
    }

    #[test]
    fn without_files_the_page_is_as_before() {
        let none = ResultsPages { bundles: Vec::new(), rivals: Vec::new() }.beside_the_paper();
        assert_eq!(page(&[]).unwrap(), none);
        assert!(!none.contains("### Rivals") && read(Path::new("not there")).unwrap().is_empty());
    }

    #[test]
    fn a_file_that_has_no_place_on_the_page_is_named() {
        let refused = |json| page(&[("own.json", json)]).unwrap_err().to_string();
        assert!(refused(json!({ "systems": [] })).contains("own.json holds no results of rivals"));
        let mut held_out = cifar();
        held_out["recipe"]["split"]["measure_on"] = json!("holdout");
        assert!(refused(held_out).contains("own.json was measured on none of the paper's benchmarks"));
    }
}
