//! `orco-lab eval`: what the shipped bundle reaches, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use orco_benchmark::benchmark::Benchmark;
use orco_lab::System;
use orco_lab::estimates::EstimateRow;
use orco_lab::results::Results;
use orco_lab::results_pages::ResultsPages;
use orco_runtime::bundle::Bundle;
use orco_runtime::manifest::hexadecimal;
use orco_state::codec::{self, FileKind};
use orco_trials::{heavy, skipped};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shipped::{copy, models};
use crate::support::{replace, shorten};

/// The program on a bundle, with a folder for its results.
struct Eval {
    folder: TempDir,
    bundle: PathBuf,
}

impl Eval {
    fn new() -> Self {
        Self::on(models().join("cifar100-edge"))
    }

    fn on(bundle: PathBuf) -> Self {
        Self { folder: TempDir::new().unwrap(), bundle }
    }

    /// On a copy of a shipped bundle, to be changed.
    fn on_copy_of(name: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let bundle = folder.path().join("bundle");
        copy(name, &bundle);
        Self { folder, bundle }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orco-lab"));
        command.arg("eval").arg(&self.bundle).args(arguments).env_remove("RUST_LOG").env_remove("ORCO_PUBLIC_KEY");
        command
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(&[arguments, &["--json", "-"]].concat()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn refused(&self, arguments: &[&str], reason: &str) {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.code() == Some(1) && said(&output).contains(reason), "{arguments:?}: {}", said(&output));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the shipped bundle must reach: aHM at least 50, aACC at least 59 and at least that of the nearest class mean,
/// no rival above its aHM by more than a deviation.
#[test]
fn the_bundle_reaches_what_it_must_on_the_benchmark_file() {
    let eval = Eval::new();
    let draws = if heavy() { "3" } else { "2" };
    let csv = eval.folder.path().join("numbers.csv");
    let named = "device,imprint,ncm,teen,ncm + border,lda + border";
    let result = eval.json(&["--draws", draws, "--systems", named, "--csv", csv.to_str().unwrap()]);
    assert_eq!((result["draws"].to_string().as_str(), result["subject"].as_str()), (draws, Some("cifar100-edge")));
    let systems = result["systems"].as_array().unwrap();
    let of = |name: &str| systems.iter().find(|system| system["name"] == name).unwrap();
    let ahm = |name: &str| of(name)["ahm"].as_f64().unwrap();
    let aacc = |name: &str| of(name)["aacc"].as_f64().unwrap();
    assert!(ahm("device") >= 50.0 && aacc("device") >= 59.0, "aHM {}, aACC {}", ahm("device"), aacc("device"));
    assert!(aacc("device") >= aacc("ncm"), "aACC {} and {} of ncm", aacc("device"), aacc("ncm"));
    assert!(ahm("device") >= ahm("ncm") + 10.0, "aHM {} and {} of ncm", ahm("device"), ahm("ncm"));
    for rival in ["imprint", "ncm", "teen", "ncm + border", "lda + border"] {
        let spread = of(rival)["ahm_deviation"].as_f64().unwrap();
        assert!(ahm("device") >= ahm(rival) - spread, "aHM {} and {} of {rival}", ahm("device"), ahm(rival));
        assert!(of(rival)["area"].as_f64().unwrap() <= of("device")["area"].as_f64().unwrap() + 0.5, "{rival}");
    }
    // Of the three balances, one has the best aACC and another the best aHM.
    let balances = "device,device, keep-base,device, favour-new";
    let balances = eval.json(&["--draws", if heavy() { draws } else { "1" }, "--systems", balances]);
    let figures = |figure: &str| [1, 0, 2].map(|place: usize| balances["systems"][place][figure].as_f64().unwrap());
    let ([keep, balanced, favour], means) = (figures("aacc"), figures("ahm"));
    assert!(keep > balanced && balanced > favour, "aACC {keep}, {balanced}, {favour}");
    assert!(means[0] < means[1] && means[1] < means[2], "aHM {means:?}");
    // Estimates come true. The bundle does not know how much easier its samples are.
    let off = |side: &str| of("device")["estimate_errors"]["mean"][side].as_f64().unwrap().abs();
    let off = ["base", "learned", "overall"].map(off);
    assert!(off[0] < 7.0 && off[1] < 4.0 && off[2] < 6.0, "{off:?} points");
    assert!(of("ncm")["estimate_errors"].is_null(), "a rival estimates nothing");
    let sessions = of("device")["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 9);
    assert!(sessions[0]["inc"].is_null() && sessions[0]["hm"].is_null());
    let mean: f64 = sessions[1..].iter().map(|row| row["hm"].as_f64().unwrap()).sum::<f64>() / 8.0;
    assert!((mean - ahm("device")).abs() < 1e-9, "aHM is not the mean of the sessions'");
    // Of each system alone, the numbers are the same. The draws work side by side, unless the machine has no threads.
    #[cfg(target_os = "linux")]
    {
        // The short trial takes a system that learns in less time; other tests measure the device twice, on smaller
        // bundles.
        let names = if heavy() { ["device", "ncm"] } else { ["imprint", "ncm"] };
        let alone = &mut eval.command(&["--draws", draws, "--systems", &names.join(","), "--json", "-"]);
        let output = orco_trials::threads::without_threads(alone).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let alone: Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected: Vec<&Value> = names.into_iter().map(of).collect();
        assert_eq!(alone["systems"].as_array().unwrap().iter().collect::<Vec<_>>(), expected, "not reproducible");
    }
    let csv = std::fs::read_to_string(csv).unwrap();
    let device = &result["systems"][0];
    let line = format!("device,{draws},,ahm,{},{}", device["ahm"], device["ahm_deviation"]);
    assert!(csv.lines().any(|found| found == line), "no \"{line}\" in {csv}");
    eval.refused(&["--preset", "closed-form", "--targets-alone"], "--targets-alone needs settings that align the head");
    eval.refused(&["--preset", "fast"], "there is no preset \"fast\"");
    let unknown = eval.command(&["--systems", "device,knn"]).output().unwrap();
    assert!(
        unknown.status.code() == Some(2) && said(&unknown).contains("known are device; device, keep-base; "),
        "{}",
        said(&unknown)
    );
}

/// Answers with class means and by targets alone, after phase 3 of preset `edge`.
#[test]
fn a_head_that_is_aligned_for_long_reaches_what_it_must_with_and_without_means() {
    if !heavy() {
        skipped("the preset edge on the benchmark file (heavy: `cargo xtask test full`)");
        return;
    }
    let eval = Eval::new();
    let edge = eval.json(&["--draws", "3", "--preset", "edge", "--systems", "device"]);
    let paper = eval.json(&["--draws", "3", "--preset", "edge", "--targets-alone", "--systems", "device,imprint"]);
    assert_eq!((edge["class_means"].as_f64(), paper["class_means"].as_f64()), (Some(1.0), Some(0.0)));
    let [edge, device] = [&edge, &paper].map(|measured| &measured["systems"][0]);
    let with_means = edge["ahm"].as_f64().unwrap();
    assert!(with_means >= 47.0, "aHM {with_means}");
    assert!((47.0..with_means).contains(&device["ahm"].as_f64().unwrap()), "aHM {} by targets alone", device["ahm"]);
    // Imprinting answers by targets, too: before anything is learned both are the same.
    let imprint = paper["systems"].as_array().unwrap().iter().find(|system| system["name"] == "imprint").unwrap();
    assert_eq!(device["sessions"][0], imprint["sessions"][0]);
}

/// Preset `edge`: at most a fifth of the arithmetic of `published`, and an aHM at most 0.3 below.
#[test]
fn the_edge_preset_takes_a_fifth_of_the_arithmetic_and_loses_nothing() {
    if !heavy() {
        skipped("measuring the presets (heavy: `cargo xtask test full`)");
        return;
    }
    let result = Eval::new().json(&["--presets", "--draws", "2"]);
    let figure = |name: &str, figure: &str| {
        let presets = result["systems"].as_array().unwrap();
        presets.iter().find(|preset| preset["name"] == name).unwrap()[figure].as_f64().unwrap()
    };
    let share = figure("edge", "operations") / figure("published", "operations");
    assert!(share <= 0.2001, "{share} of the arithmetic");
    assert!(
        figure("edge", "ahm") >= figure("published", "ahm") - 0.3,
        "{} and {}",
        figure("edge", "ahm"),
        figure("published", "ahm")
    );
}

#[test]
fn images_give_what_the_benchmark_file_gives() {
    let Some(data) = std::env::var_os("ORCO_CIFAR100") else {
        skipped("measuring on images (ORCO_CIFAR100 does not name the folder with CIFAR-100's binary files)");
        return;
    };
    let eval = Eval::new();
    let from_images = eval.json(&["--draws", "3", "--data", data.to_str().unwrap()]);
    let from_file = eval.json(&["--draws", "3"]);
    let systems = |result: &Value| result["systems"].as_array().unwrap().clone();
    assert_eq!(systems(&from_images).len(), System::COMPARED.len());
    for (images, file) in systems(&from_images).iter().zip(&systems(&from_file)) {
        for figure in ["ahm", "aacc"] {
            let (images, file) = (images[figure].as_f64().unwrap(), file[figure].as_f64().unwrap());
            assert!((images - file).abs() < 0.5, "{figure}: {images} from images, {file} from the file");
        }
    }
}

#[test]
fn wrong_data_is_refused() {
    let eval = Eval::new();
    let data = eval.folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let on_images = ["--data", data.to_str().unwrap()];
    eval.refused(&on_images, "train.bin");
    fs::write(data.join("train.bin"), [0; 3074]).unwrap();
    eval.refused(&on_images, "has 3074 bytes, but CIFAR-100's binary version has 153700000");
}

/// Each class of the example has eight pictures: five are candidate shots, and the other three are measured on.
#[test]
fn new_classes_may_be_folders_of_pictures() {
    let eval = Eval::new();
    let pictures = models().join("../examples/shots/try");
    let on_pictures = ["--pictures", pictures.to_str().unwrap(), "--systems", "device,ncm", "--draws", "3"];
    let result = eval.json(&[&on_pictures[..], &["--ways", "4"]].concat());
    assert_eq!(result["draws"], 1, "a draw takes all five candidates");
    let sessions = |system: usize| result["systems"][system]["sessions"].as_array().unwrap().clone();
    let own = sessions(0);
    assert_eq!(own.len(), 3, "base classes, four new ones, and the last two");
    let right = own[1]["inc"].as_f64().unwrap() * 12.0 / 100.0;
    assert!((right - right.round()).abs() < 1e-6, "three pictures of four classes were measured on");
    let base = |sessions: &[Value]| sessions[0]["base"].as_f64().unwrap();
    let of_file = eval.json(&["--systems", "device", "--draws", "1"]);
    let expected = of_file["systems"][0]["sessions"][0]["base"].as_f64().unwrap();
    assert!((base(&own) - expected).abs() < 1e-9, "base classes are measured on the bundle's own benchmark");
}

#[test]
fn who_measures_own_pictures_reads_how_many_there_are_and_what_is_passed_over() {
    let eval = Eval::new();
    let root = eval.folder.path().join("pictures");
    let cups = root.join("cups");
    fs::create_dir_all(cups.join("more")).unwrap();
    let picture = models().join("../examples/shots/try/mug/1.jpg");
    for number in 1..=8 {
        fs::copy(&picture, cups.join(format!("{number}.jpg"))).unwrap();
    }
    fs::copy(&picture, root.join("loose.jpg")).unwrap();
    fs::write(cups.join("9.heic"), b"\0\0\0\x24ftypheic\0\0\0\0mif1").unwrap();
    let output = eval.command(&["--pictures", root.to_str().unwrap(), "--systems", "ncm"]).output().unwrap();
    let (text, warned) = (String::from_utf8_lossy(&output.stdout), said(&output));
    assert!(text.contains("new classes: 1 folder, measured on 3 pictures that are no shots"), "{text}{warned}");
    assert!(text.contains("an estimate error is what a device expects less what is measured"), "{text}");
    let warnings = [
        "holds 1 picture beside 1 folder: the pictures are passed over",
        "9.heic is passed over",
        "cups holds 8 pictures beside 1 folder: the folders are passed over",
        "6.jpg is measured on and is the same picture as",
        "of which shots are drawn (3 such pairs): results are too good",
    ];
    warnings.iter().for_each(|warning| assert!(warned.contains(warning), "{warning}: {warned}"));
}

#[test]
fn pictures_that_cannot_be_measured_on_are_refused() {
    let eval = Eval::new();
    let root = eval.folder.path().join("pictures");
    let on_pictures = ["--pictures", root.to_str().unwrap()];
    fs::create_dir(&root).unwrap();
    eval.refused(&on_pictures, "has no folders: put the pictures of each new class into one of its own");
    let cups = root.join("cups");
    fs::create_dir(&cups).unwrap();
    eval.refused(&on_pictures, "cups");
    fs::create_dir(cups.join("inner")).unwrap();
    eval.refused(&on_pictures, "cups holds no pictures, but 1 folder: name the folder that has one folder of pictures");
    fs::remove_dir(cups.join("inner")).unwrap();
    let picture = models().join("../examples/shots/try/mug/1.jpg");
    for number in 1..=8 {
        fs::copy(&picture, cups.join(format!("{number}.jpg"))).unwrap();
    }
    let with_eight = [&on_pictures[..], &["--shots", "8"]].concat();
    eval.refused(&with_eight, "has 8 pictures: with 8 shots it needs 9 at least");
    // A candidate shot and two that are measured on; all are named.
    let broken = ["2.jpg", "7.jpg", "8.jpg"];
    broken.iter().for_each(|broken| fs::write(cups.join(broken), b"no picture").unwrap());
    broken.iter().for_each(|broken| eval.refused(&on_pictures, broken));
    fs::create_dir(root.join("a=b")).unwrap();
    eval.refused(&on_pictures, "a=b cannot name a class; give it another name");
    fs::remove_dir(root.join("a=b")).unwrap();
    let known = Bundle::open(&eval.bundle).unwrap().base_model.classes[0].label.clone();
    fs::rename(&cups, root.join(&known)).unwrap();
    eval.refused(&on_pictures, &format!("the bundle has a class \"{known}\" already"));
    for class in 0..100 {
        fs::create_dir(root.join(class.to_string())).unwrap();
    }
    eval.refused(&on_pictures, "has 101 classes, but the bundle has room for 40 more");
}

/// Else a number would be taken for what it was not measured by.
#[test]
fn an_option_that_would_change_nothing_is_refused() {
    let eval = Eval::new();
    for (arguments, missing) in [
        (["--engine", "rten"], "--data <DIR>"),
        (["--ways", "3"], "--pictures <DIR>"),
        (["--false-alarms", "0.2"], "--unknown"),
    ] {
        let output = eval.command(&arguments).output().unwrap();
        assert!(output.status.code() == Some(2) && said(&output).contains(missing), "{}", said(&output));
    }
}

#[test]
fn a_damaged_or_unsigned_bundle_is_refused() {
    let eval = Eval::on_copy_of("cifar100-edge");
    let key = eval.folder.path().join("key.pub");
    let public = orco_runtime::signature::SecretKey::generate().unwrap().public_text;
    fs::write(&key, public).unwrap();
    eval.refused(&["--public-key", key.to_str().unwrap()], "it is not signed, but a public key is configured");
    let benchmark = eval.bundle.join("benchmark.postcard");
    let bytes = fs::read(&benchmark).unwrap();
    fs::write(&benchmark, &bytes[..1000]).unwrap();
    eval.refused(&[], "benchmark.postcard is damaged");
}

#[test]
fn a_bundle_without_samples_is_told_from_settings_without_statistics() {
    let eval = Eval::on_copy_of("cifar100-micro");
    eval.refused(&["--unknown", "--preset", "edge"], "these settings answer without the bundle's statistics");
    let mut statistics = Bundle::open(&eval.bundle).unwrap().base_model.statistics.unwrap();
    statistics.set_aside = statistics.set_aside.empty_like();
    replace(&eval.bundle, "statistics.postcard", &statistics.encode());
    eval.refused(&["--unknown"], "the bundle has no samples set aside");
}

#[test]
fn draws_that_are_the_same_are_measured_once() {
    let eval = Eval::on_copy_of("cifar100-micro");
    let mut benchmark = Benchmark::of(&Bundle::open(&eval.bundle).unwrap()).unwrap();
    let kept: Vec<usize> =
        benchmark.candidates.by_class().into_values().flat_map(|of| of.into_iter().take(5)).collect();
    benchmark.candidate_sources = kept.iter().map(|&candidate| benchmark.candidate_sources[candidate]).collect();
    benchmark.candidates = benchmark.candidates.only(&kept);
    replace(&eval.bundle, "benchmark.postcard", &codec::encode(FileKind::Benchmark, &benchmark));
    let measured = eval.json(&["--draws", "3", "--systems", "ncm"]);
    assert_eq!((&measured["draws"], &measured["systems"][0]["draws"]), (&1.into(), &1.into()));
    assert!(measured["systems"][0]["ahm_deviation"].is_null());
    let command = measured["command"].as_str().unwrap();
    assert!(command.starts_with("cargo run --release -p orco-lab -- eval "), "{command}");
    assert!(command.ends_with(" --draws 3 --systems ncm --json -"), "{command}");
    // What measured, and what was measured.
    let program = measured["program"].as_str().unwrap();
    assert!(program.starts_with(env!("CARGO_PKG_VERSION")), "{program}");
    let manifest = codec::digest(&fs::read(eval.bundle.join("manifest.toml")).unwrap());
    assert_eq!(measured["manifests"], json!([hexadecimal(&manifest)]));
    let said = eval.command(&["--draws", "3", "--systems", "ncm"]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains(", 1 draw of 5 shots\n") && said.contains("all draws hold the same shots"), "{said}");
}

#[test]
fn a_result_replaces_results_alone() {
    let eval = Eval::on_copy_of("cifar100-micro");
    shorten(&eval.bundle);
    let photograph = eval.folder.path().join("photograph.jpg");
    fs::write(&photograph, b"\xff\xd8 a photograph").unwrap();
    let manifest = eval.bundle.join("manifest.toml");
    for option in ["--csv", "--json"] {
        eval.refused(&[option, photograph.to_str().unwrap()], "it holds something else than a result");
        eval.refused(&[option, eval.bundle.join("new").to_str().unwrap()], "it lies in the folder of the bundle");
        eval.refused(&[option, manifest.to_str().unwrap()], "cannot write");
    }
    assert_eq!(fs::read(&photograph).unwrap(), b"\xff\xd8 a photograph");
    let both = eval.folder.path().join("both");
    let both = both.to_str().unwrap();
    eval.refused(&["--csv", both, "--json", both], "--csv and --json name the same file");
    let spelled_otherwise = eval.bundle.join("..").join("both");
    eval.refused(
        &["--csv", both, "--json", spelled_otherwise.to_str().unwrap()],
        "--csv and --json name the same file",
    );
    eval.refused(&["--csv", "-"], "--csv writes a file, not standard output");
    assert!(!Path::new("-").exists() && !Path::new(both).exists());
    let report = eval.folder.path().join("report.json");
    fs::write(&report, b"{}").unwrap();
    eval.refused(&["--json", report.to_str().unwrap()], "it holds something else than a result");
    fs::write(&report, b"").unwrap();
    let write = || {
        let output = eval.command(&["--json", report.to_str().unwrap()]).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        fs::read(&report).unwrap()
    };
    // What a link leads to is written, so it is one file with it.
    #[cfg(unix)]
    {
        let link = eval.folder.path().join("link");
        std::os::unix::fs::symlink(&report, &link).unwrap();
        eval.refused(
            &["--csv", link.to_str().unwrap(), "--json", report.to_str().unwrap()],
            "--csv and --json name the same file",
        );
    }
    let first = write();
    let results: Results = serde_json::from_slice(&first).unwrap();
    let names: Vec<&str> = results.systems.iter().map(|system| &*system.summary.name).collect();
    assert_eq!(names, System::COMPARED.map(System::name), "where none is named");
    assert!(write() == first);
}

#[test]
fn estimates_are_kept_beside_a_bundles_report_and_stand_on_a_page() {
    let eval = Eval::on_copy_of("cifar100-micro");
    shorten(&eval.bundle);
    let report = eval.bundle.join("report");
    let estimates = report.join("estimates");
    fs::create_dir_all(&estimates).unwrap();
    let [json, file] = [report.join("report.json"), estimates.join("benchmark.json")];
    fs::copy(models().join("cifar100-micro/report/report.json"), &json).unwrap();
    eval.refused(&["--unknown", "--json", json.to_str().unwrap()], "it lies in the folder of the bundle");
    let page = || ResultsPages::read(eval.folder.path()).unwrap().pages().swap_remove(0).1;
    assert!(!page().contains("## Estimates and sets of labels"));
    let output = eval.command(&["--unknown", "--json", file.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains(EstimateRow::LEARNED_ONLY_HEADING), "{printed}");
    let results: Results = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let rows = results.unknown.unwrap().estimate_errors;
    assert!(rows.len() == 2 && rows.iter().all(|row| row.learned_only.is_some()), "{rows:?}");
    let covered = (rows[0].base_covered + rows[1].base_covered) / 2.0;
    let row = format!("\n| cifar100-micro | {} | {covered:.2} | ", results.source);
    assert!(page().contains("## Estimates and sets of labels") && page().contains(&row), "{row}: {}", page());
    fs::write(&file, "{}").unwrap();
    let refused = ResultsPages::read(eval.folder.path()).err().unwrap().to_string();
    assert!(refused.contains("benchmark.json holds no estimates of this version"), "{refused}");
}

/// Of a pipe nothing is read, which would wait for a writer for ever.
#[cfg(unix)]
#[test]
fn results_go_into_pipes() {
    let eval = Eval::new();
    let pipe = eval.folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut program = eval.command(&["--systems", "ncm", "--json"]);
    let mut program = program.arg(&pipe).stdout(Stdio::null()).spawn().unwrap();
    let (sender, read) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(fs::read_to_string(pipe)));
    let json = read.recv_timeout(std::time::Duration::from_secs(60));
    if json.is_err() {
        program.kill().unwrap();
    }
    assert!(program.wait().unwrap().success(), "nothing was written");
    assert!(orco_lab::results::are_results(json.unwrap().unwrap().as_bytes()));
}

/// A device's program carries no rival.
#[test]
fn the_device_program_does_not_link_the_laboratory() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--locked", "--package", "orco", "--edges", "normal", "--prefix", "none"]);
    let output = tree.current_dir(models().join("..")).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let tree = String::from_utf8(output.stdout).unwrap();
    assert!(tree.lines().any(|line| line.starts_with("orco-benchmark ")), "{tree}");
    assert!(!tree.lines().any(|line| line.starts_with("orco-lab ")), "{tree}");
}
