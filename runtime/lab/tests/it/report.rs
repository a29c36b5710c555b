//! The shipped reports: their pages show the numbers of their JSON, and those are what measuring gives. The shipped
//! cards say the same.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use orco_benchmark::benchmark::Benchmark;
use orco_benchmark::spread::Spread;
use orco_benchmark::{AccuracyEstimateError, AccuracyEstimateErrors};
use orco_lab::phase3_ablations::Phase3Ablations;
use orco_lab::published::{PaperReading, PaperTable, ROWS};
use orco_lab::question::Question;
use orco_lab::report::{BundleReport, figures, prepare};
use orco_lab::results::Results;
use orco_lab::results_pages::ResultsPages;
use orco_lab::{Measurement, System};
use orco_runtime::bundle::Bundle;
use orco_runtime::threads::Threads;
use serde_json::Value;

use crate::shipped::models;

/// Folders of all shipped reports.
fn shipped() -> Vec<PathBuf> {
    let bundles = fs::read_dir(models()).unwrap().map(|entry| entry.unwrap().path());
    let reports: Vec<PathBuf> = bundles.map(|bundle| bundle.join("report")).filter(|report| report.is_dir()).collect();
    assert!(!reports.is_empty(), "no bundle in {} has a report", models().display());
    reports
}

/// Every number of a page: where it stands in the JSON, and as it is written.
fn numbers(page: &str) -> Vec<(&str, &str)> {
    let marked = page.split("<span data-json=\"").skip(1);
    marked
        .map(|rest| {
            let (pointer, rest) = rest.split_once("\">").expect("the mark is closed");
            (pointer, rest.split_once("</span>").expect("the number ends").0)
        })
        .collect()
}

#[test]
fn pages_show_the_numbers_of_their_json() {
    for report in shipped() {
        let page = fs::read_to_string(report.join("index.html")).unwrap();
        let json: Value = serde_json::from_str(&fs::read_to_string(report.join("report.json")).unwrap()).unwrap();
        let numbers = numbers(&page);
        let systems = json["systems"].as_array().unwrap();
        assert!(numbers.len() > 12 * systems.len(), "{} shows {} numbers", report.display(), numbers.len());
        for (pointer, shown) in numbers {
            let value =
                json.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {pointer}"));
            let expected = format!("{value:.2}");
            let expected = if expected == "-0.00" { "0.00" } else { &expected };
            assert_eq!(expected, shown, "{}: {pointer}", report.display());
        }
        for system in systems {
            assert!(page.contains(system["name"].as_str().unwrap()));
        }
    }
}

#[test]
fn cards_say_what_their_tables_and_reports_say() {
    for report in shipped() {
        let bundle = report.parent().unwrap();
        let card = fs::read_to_string(bundle.join("README.md")).unwrap();
        let metric = |name: &str| {
            let (_, rest) = card.split_once(&format!("name: {name}, value: ")).expect("the front matter has it");
            rest.split_once('}').expect("the entry ends").0
        };
        let rows = |start: &'static str| card.lines().filter_map(move |line| line.strip_prefix(start));
        let ours: Vec<&str> = rows("| device | ").next().expect("a row of ours").split(" | ").collect();
        let (_, last) = card.split_once("| session (device)").expect("a table of sessions");
        let last = last.lines().take_while(|line| !line.is_empty()).last().expect("a last session");
        let last_hm = last.trim_matches(['|', ' ']).split(" | ").nth(3).expect("the session's HM");
        let means = ["aHM", "aACC", "HM of the last session"].map(metric);
        assert_eq!(means, [mean(ours[0]), mean(ours[1]), last_hm], "{}", bundle.display());
        let json: BundleReport =
            serde_json::from_str(&fs::read_to_string(report.join("report.json")).unwrap()).unwrap();
        if card.contains(&format!("means of {} draws", json.results.draws)) {
            // The device, and the same with both other balances.
            for start in ["| device | ", "| device, keep-base | ", "| device, favour-new | "] {
                let name = start.trim_matches(['|', ' ']);
                let row = rows(start).next().unwrap_or_else(|| panic!("{}: no row of {name}", bundle.display()));
                let row: Vec<&str> = row.split(" | ").map(mean).take(2).collect();
                let measured = json.results.summary(name).expect("it is measured");
                let measured = [measured.ahm, measured.aacc].map(|value| format!("{value:.2}"));
                assert_eq!(row, measured, "{}: {name}", bundle.display());
            }
        }
    }
}

/// An ablation of the default answer begins with what a device does, which reports measure too: measurements that an
/// older program kept would differ.
#[test]
fn ablations_of_the_answer_begin_with_the_numbers_of_the_report() {
    let mut compared = 0;
    for report in shipped() {
        let Ok(text) = fs::read_to_string(report.join("ablations/answer.json")) else { continue };
        let ablated: Results = serde_json::from_str(&text).unwrap();
        let measured = BundleReport::read(&report).unwrap().results;
        assert_eq!((ablated.draws, ablated.seed), (measured.draws, measured.seed), "{}", report.display());
        let [default, device] =
            [(&ablated, "default"), (&measured, System::DEVICE.name())].map(|(of, name)| of.summary(name).unwrap());
        for (metric, Spread { mean, .. }) in default.totals() {
            let other = device.total(metric).unwrap().mean;
            assert!((mean - other).abs() < 0.01, "{}: {}, {mean} and {other}", report.display(), metric.name());
        }
        compared += 1;
    }
    assert!(compared > 0);
}

/// Those of large features take long, and are left to the long trials.
#[test]
fn cards_say_what_the_fields_fixed_draw_gives() {
    const LARGE: usize = 128;
    let mut told = 0;
    for report in shipped() {
        let folder = report.parent().unwrap();
        let card = fs::read_to_string(folder.join("README.md")).unwrap();
        let Some((_, line)) = card.split_once("On the field's fixed draw alone, device: ") else { continue };
        let line = line.split_once(".\n").expect("the line ends").0;
        let said = line
            .split_once(", ")
            .and_then(|(ahm, aacc)| Some([ahm.strip_prefix("aHM ")?, aacc.strip_prefix("aACC ")?]));
        let said = said.unwrap_or_else(|| panic!("{line}")).map(|value| value.parse::<f64>().unwrap());
        let bundle = Bundle::open(folder).unwrap();
        let benchmark = Benchmark::of(&bundle).unwrap();
        let (base_model, config) = (&bundle.base_model, &bundle.base_model.config);
        if base_model.head.inputs > LARGE && !orco_trials::heavy() {
            continue;
        }
        let measurement = Measurement { base_model, benchmark: &benchmark, system: System::DEVICE, config, seed: 1 };
        let measured = measurement.run(1, &|| ControlFlow::Continue(())).unwrap();
        // Another processor may choose a neighbouring border.
        let apart = [measured.ahm - said[0], measured.aacc - said[1]].map(f64::abs);
        assert!(
            apart.iter().all(|apart| *apart < 0.15),
            "{}: {said:?}, but {}, {}",
            folder.display(),
            measured.ahm,
            measured.aacc
        );
        told += 1;
    }
    assert!(told > 0);
}

/// The mean of "mean ± deviation".
fn mean(cell: &str) -> &str {
    cell.split_once(" ± ").map_or(cell, |(mean, _)| mean)
}

#[test]
fn the_csv_holds_the_numbers_of_the_json() {
    for report in shipped() {
        let csv = fs::read_to_string(report.join("numbers.csv")).unwrap();
        let json: BundleReport =
            serde_json::from_str(&fs::read_to_string(report.join("report.json")).unwrap()).unwrap();
        for summary in json.results.summaries() {
            for (metric, Spread { mean, deviation }) in summary.totals() {
                let (name, deviation) = (metric.csv_name(), deviation.expect("several draws"));
                let start = format!("{},{},,{name},", summary.name, summary.draws);
                let quoted = format!("\"{}\",{},,{name},", summary.name, summary.draws);
                let rest = csv.lines().find_map(|line| line.strip_prefix(&start).or(line.strip_prefix(&quoted)));
                let rest = rest.unwrap_or_else(|| panic!("{}: no line \"{start}\"", report.display()));
                let found: Vec<f64> = rest.split(',').map(|number| number.parse().unwrap()).collect();
                assert!((found[0] - mean).abs() < 1e-9 && (found[1] - deviation).abs() < 1e-9, "{start}{rest}");
            }
        }
    }
}

#[test]
fn a_benchmark_of_the_paper_stands_beside_its_table() {
    let mut tables = Vec::new();
    for report in shipped() {
        let json: BundleReport = serde_json::from_slice(&fs::read(report.join("report.json")).unwrap()).unwrap();
        let page = fs::read_to_string(report.join("index.html")).unwrap();
        let Some(table) = json.paper else {
            assert!(!page.contains("Beside the paper"), "{}", report.display());
            continue;
        };
        for row in &ROWS {
            let theirs = row.totals(table).map(|totals| totals.to_string());
            let cells = format!("<tr><th>{}</th><td><i>{}</i></td>", row.name, theirs.as_deref().unwrap_or("–"));
            assert!(page.contains(&cells) && page.contains(row.remark), "{}: {cells}", report.display());
        }
        tables.push(table);
    }
    assert!(tables.contains(&PaperTable::Cifar100) && tables.contains(&PaperTable::MiniImagenet), "{tables:?}");
}

#[test]
fn the_book_has_the_numbers_of_the_reports() {
    let folder = models().join("../docs/src/results");
    let pages = ResultsPages::read(&models()).unwrap().with_rivals(&models().join("../docs/rivals")).unwrap().pages();
    assert!(pages.len() > shipped().len());
    for (name, text) in pages {
        let committed = fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert!(committed == text, "docs/src/results/{name} is out of date: run `cargo xtask book`");
    }
}

#[test]
fn pages_need_nothing_else_and_are_small() {
    for report in shipped() {
        let page = fs::read_to_string(report.join("index.html")).unwrap();
        let addresses =
            ["src=\"", "href=\"", "url("].map(|start| page.split(start).skip(1).collect::<Vec<_>>()).concat();
        assert!(addresses.iter().all(|rest| rest.starts_with("data:")), "{} asks for a file", report.display());
        assert!(!page.contains("<script") && page.matches("<svg").count() >= 5);
        let size = |folder: &Path| -> u64 {
            let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
            files.filter(|facts| facts.is_file()).map(|facts| facts.len()).sum()
        };
        let all = size(&report) + size(&report.join("pictures"));
        assert!(all < 3_000_000, "{} has {all} bytes", report.display());
    }
}

#[test]
fn a_folder_with_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("index.html");
    fs::write(&theirs, "mine").unwrap();
    let said = prepare(folder.path()).unwrap_err().to_string();
    assert!(said.contains("holds something that is no report"), "{said}");
    assert_eq!(
        (fs::read_to_string(&theirs).unwrap(), fs::read_dir(folder.path()).unwrap().count()),
        ("mine".into(), 1)
    );
    #[cfg(unix)]
    {
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let error = prepare(&link).unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(why, "it is a link that leads nowhere");
    }
    let made = folder.path().join("a/report");
    prepare(&made).unwrap();
    // Stopped before anything was measured, it is asked for again.
    prepare(&made).unwrap();
    // Or while the first file was written.
    fs::write(made.join(".orco-lab"), "").unwrap();
    fs::write(made.join(".report.json.orco-partial"), "{\"half").unwrap();
    prepare(&made).unwrap();
    fs::copy(models().join("cifar100-micro/report/report.json"), made.join("report.json")).unwrap();
    prepare(&made).unwrap();
}

#[test]
fn a_file_of_others_under_the_name_of_the_probe_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (made, theirs) = (folder.path().join("report"), folder.path().join("theirs"));
    let probe = made.join(".orco-lab");
    fs::create_dir(&made).unwrap();
    fs::write(&theirs, "mine").unwrap();
    let assert_refused = || {
        let error = prepare(&made).unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(why, "its .orco-lab is no file of this program; move it away");
    };
    fs::write(&probe, "mine").unwrap();
    assert_refused();
    assert_eq!(fs::read_to_string(&probe).unwrap(), "mine");
    #[cfg(unix)]
    {
        fs::remove_file(&probe).unwrap();
        std::os::unix::fs::symlink(&theirs, &probe).unwrap();
        assert_refused();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "mine");
    }
}

/// A page that is drawn again has the draws of the measurement.
#[test]
fn drawing_again_takes_no_draws() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_orco-lab"));
    let refused = program.arg("report").arg("no bundle").args(["--redraw", "--draws", "10"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("cannot be used with '--draws <DRAWS>'"), "{said}");
}

#[test]
fn a_folder_that_this_program_filled_takes_a_report() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ablations", "scenes", "estimates"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        prepare(folder.path()).unwrap();
    }
    // As the first version wrote it, which had no subject.
    let path = folder.path().join("report.json");
    fs::write(&path, r#"{"bundle":"mine","command":"cargo run --release -p orco-lab -- report mine --draws 3"}"#)
        .unwrap();
    fs::write(folder.path().join("numbers.csv"), "").unwrap();
    assert!(BundleReport::read(folder.path()).is_err());
    prepare(folder.path()).unwrap();
    fs::write(&path, r#"{"command":"orco learn"}"#).unwrap();
    assert!(prepare(folder.path()).is_err());
}

#[test]
fn figures_and_pages_of_results_replace_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let [figures, pages] = ["figures", "pages"].map(|name| folder.path().join(name));
    figures::prepare(&figures).unwrap();
    fs::create_dir(figures.join("pictures")).unwrap();
    let said = figures::prepare(&figures).unwrap_err().to_string();
    assert!(said.contains("has a figures.json or pictures that are none of these figures"), "{said}");
    let write = || {
        let mut program = Command::new(env!("CARGO_BIN_EXE_orco-lab"));
        program.arg("results-pages").arg(models()).arg("--output").arg(&pages).output().unwrap()
    };
    for _ in 0..2 {
        assert!(write().status.success());
    }
    let page = pages.join("paper.md");
    fs::write(&page, "mine").unwrap();
    fs::remove_file(pages.join("bundles.md")).unwrap();
    let refused = write();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("holds something else than a page of results"), "{said}");
    assert_eq!(fs::read_to_string(&page).unwrap(), "mine");
    assert!(!pages.join("bundles.md").exists(), "pages were written before all were checked");
}

#[test]
fn each_bundle_has_a_page_of_its_own_whatever_its_recipe_calls_it() {
    let (folder, micro) = (tempfile::tempdir().unwrap(), models().join("cifar100-micro"));
    let manifest = fs::read_to_string(micro.join("manifest.toml")).unwrap();
    let renamed = manifest.replace("name = \"cifar100-micro\"", "name = \"../paper\"");
    assert_ne!(renamed, manifest);
    for bundle in ["own data", "paper", "seed-2"] {
        let report = folder.path().join(bundle).join("report");
        fs::create_dir_all(&report).unwrap();
        fs::copy(micro.join("report/report.json"), report.join("report.json")).unwrap();
        fs::write(folder.path().join(bundle).join("manifest.toml"), &renamed).unwrap();
    }
    let pages = ResultsPages::read(folder.path()).unwrap().pages();
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["bundles.md", "paper.md", "own data.md", "paper-bundle.md", "seed-2.md"]);
    for link in ["own%20data.md", "paper-bundle.md", "seed-2.md"] {
        assert!(pages[0].1.contains(&format!("| [../paper]({link}) |")), "{}", pages[0].1);
    }
}

#[test]
fn pictures_of_an_earlier_report_go_and_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = folder.path().join("pictures");
    fs::create_dir(&pictures).unwrap();
    for name in ["confusion-99.png", "similarities.svg", "my-notes.png", "features.txt"] {
        fs::write(pictures.join(name), "").unwrap();
    }
    let json = fs::read(models().join("cifar100-micro/report/report.json")).unwrap();
    serde_json::from_slice::<BundleReport>(&json).unwrap().write(folder.path()).unwrap();
    let there = ["confusion-99.png", "similarities.svg", "my-notes.png", "features.txt"]
        .map(|name| pictures.join(name).exists());
    assert_eq!(there, [false, false, true, true]);
    assert!(pictures.join("similarities-0.svg").exists());
}

#[test]
fn a_page_says_how_far_estimates_are_off() {
    let json = fs::read(models().join("cifar100-micro/report/report.json")).unwrap();
    let mut report: BundleReport = serde_json::from_slice(&json).unwrap();
    let errors = |base, learned, overall| AccuracyEstimateError { base, learned, overall };
    let estimate_errors =
        AccuracyEstimateErrors { mean: errors(1.25, -0.37, 0.85), deviation: errors(0.62, 1.12, 0.53) };
    report.results.systems[0].summary.estimate_errors = Some(estimate_errors);
    let page = report.page().unwrap();
    let numbers = numbers(&page);
    for (side, shown) in [("base", "1.25"), ("learned", "-0.37"), ("overall", "0.85")] {
        let pointer = format!("/systems/0/estimate_errors/mean/{side}");
        assert!(numbers.contains(&(pointer.as_str(), shown)), "{side} is not {shown}");
    }
    report.results.systems[0].summary.estimate_errors = None;
    assert!(!report.page().unwrap().contains("/estimate_errors/"));
}

#[test]
fn the_shipped_numbers_are_those_that_measuring_gives() {
    let folder = models().join("cifar100-edge");
    let json: BundleReport =
        serde_json::from_str(&fs::read_to_string(folder.join("report/report.json")).unwrap()).unwrap();
    let bundle = Bundle::open(&folder).unwrap();
    let benchmark = Benchmark::of(&bundle).unwrap();
    let (base_model, config) = (&bundle.base_model, &bundle.base_model.config);
    for system in [System::NCM, System::TEEN] {
        let measurement = Measurement { base_model, benchmark: &benchmark, system, config, seed: json.results.seed };
        let measured = measurement.run(json.results.draws, &|| ControlFlow::Continue(())).unwrap();
        let shipped = json.results.summary(system.name()).unwrap();
        // A picture that lies on a border may fall to either side, on another processor.
        assert!((measured.ahm - shipped.ahm).abs() < 0.05, "{}: {}", system.name(), measured.ahm);
        assert!((measured.aacc - shipped.aacc).abs() < 0.05, "{}: {}", system.name(), measured.aacc);
    }
}

#[test]
fn a_variant_is_measured_once_and_a_stopped_one_goes_on() {
    let bundle = Bundle::open(models().join("cifar100-edge")).unwrap();
    let mut benchmark = Benchmark::of(&bundle).unwrap();
    // Two sessions, and few pictures, say enough.
    benchmark.ways.truncate(2);
    benchmark.labels.truncate(10);
    let few: Vec<usize> = (0..benchmark.measured.len()).step_by(50).collect();
    benchmark.measured = benchmark.measured.only(&few);
    let cache = tempfile::tempdir().unwrap();
    let ablations = Phase3Ablations {
        base_model: &bundle.base_model,
        benchmark: &benchmark,
        content: "",
        cache: cache.path(),
        seed: 1,
    };
    let mut variant = ablations.of(Question::Exemplars, PaperReading::Program).remove(1);
    variant.settings.config.epochs = 1;
    variant.settings.config.warmup_epochs = 0;
    let threads = Threads::new(1).unwrap();
    let measure = |on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync)| ablations.measure(&variant, 2, &threads, on_epoch);
    // Two sessions of the first draw are one epoch each; the second draw is stopped.
    let epochs = std::sync::atomic::AtomicUsize::new(0);
    let stopping = || match epochs.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 | 1 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    assert!(measure(&stopping).is_err());
    let files = || fs::read_dir(cache.path()).unwrap().count();
    assert_eq!(files(), 1, "the first draw is kept");
    let counted = std::sync::atomic::AtomicUsize::new(0);
    let counting = || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    let first = measure(&counting).unwrap();
    assert_eq!(
        (counted.load(std::sync::atomic::Ordering::Relaxed), files()),
        (2, 2),
        "only the second draw is measured"
    );
    let again = measure(&|| panic!("nothing is measured again")).unwrap();
    assert!((first.ahm - again.ahm).abs() < 1e-9 && first.sessions.len() == again.sessions.len());
}
