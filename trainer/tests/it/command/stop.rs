//! Runs that are stopped, and go on in the same numbers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use orco_runtime::bundle::Bundle;
use orco_runtime::threads::available_threads;
use orco_trainer::run::RunRecord;
use orco_trials::succeeds;

use super::{arguments, data, program, recipe, synthetic, words};
use crate::support::{epochs, error_text, send};

/// Waits as long as the program runs.
fn wait_for(what: &str, child: &mut Child, mut holds: impl FnMut() -> bool) {
    while !holds() {
        assert!(child.try_wait().unwrap().is_none(), "the program ended before {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Steps of the epoch that the checkpoint stands in.
#[cfg(unix)]
fn steps(run: &Path) -> i64 {
    let tensors = tch::Tensor::read_safetensors(run.join("pretrain.safetensors")).unwrap();
    tensors.iter().find(|(name, _)| name == "steps").map_or(0, |(_, steps)| steps.int64_value(&[]))
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_the_step_and_resume_continues_exactly() {
    let folder = recipe(6, 1);
    let (straight, stopped) = (folder.path().join("straight"), folder.path().join("stopped"));
    // Not the recipe's seed.
    let arguments = |run| [arguments(folder.path(), run), vec!["--seed".to_owned(), "5".to_owned()]].concat();
    let output = succeeds(&mut program(&arguments("straight")));
    assert!(!error_text(&output).contains("--threads counts"), "{}", error_text(&output));

    // Stopped three times, each time wherever it is then.
    let mut within = Vec::new();
    let resume = ["resume".to_owned(), "stopped".to_owned()];
    for stop in 0..3 {
        let done = epochs(&stopped);
        let mut first = program(&arguments("stopped"));
        let mut again = program(&resume);
        let mut child = if stop == 0 { &mut first } else { again.current_dir(folder.path()) }.spawn().unwrap();
        wait_for("an epoch", &mut child, || epochs(&stopped) > done);
        std::thread::sleep(Duration::from_millis(7 * stop));
        send("-INT", &child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", error_text(&output));
        let said = error_text(&output);
        assert!(said.contains("stopped by Ctrl-C or SIGTERM; phase 1 is saved up to its last step"), "{said}");
        assert!((1..6).contains(&epochs(&stopped)), "{} epochs", epochs(&stopped));
        within.push(steps(&stopped));
    }
    assert!(within.iter().any(|&steps| steps > 0), "never stopped within an epoch: {within:?}");
    succeeds(program(&resume).current_dir(folder.path()));
    let read = |run: &Path| fs::read(run.join("pretrain.safetensors")).unwrap();
    assert!(read(&straight) == read(&stopped), "the resumed run differs");
    let losses = |run: &Path| -> Vec<f64> {
        let text = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.map(|line| line["loss"].as_f64().unwrap()).collect()
    };
    assert_eq!(losses(&straight), losses(&stopped));

    let record = RunRecord::read(&stopped).unwrap();
    assert_eq!((record.seed, record.device.as_str(), record.threads), (5, "cpu", 1));
    assert_eq!(record.hardware.cores, available_threads(), "those of the machine, not of the run");
    assert_eq!(record.request["pretrain"]["common"]["images"]["data"].as_str(), data().to_str());
    let files = |run: &Path| {
        let names = fs::read_dir(run).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("events.out.tfevents.")).count()
    };
    assert_eq!((files(&straight), files(&stopped)), (1, 4));
}

/// A run's folder holds all that it needs: moved away, and begun anew in another process there, it ends in the same
/// numbers.
#[test]
fn a_run_goes_on_wherever_its_folder_is_carried() {
    let root = tempfile::tempdir().unwrap();
    let path = synthetic(root.path());
    let small =
        fs::read_to_string(&path).unwrap().replace("width = 8", "width = 2").replace("epochs = 45", "epochs = 2");
    fs::write(&path, small).unwrap();
    let pretrained =
        |run: &Path| program(&words(&[&"pretrain", &path, &"--run", &run, &"--device", &"cpu", &"--threads", &"1"]));
    let (straight, begun) = (root.path().join("straight"), root.path().join("begun"));
    succeeds(&mut pretrained(&straight));
    succeeds(pretrained(&begun).args(["--until", "1"]));
    // As on another machine: neither the recipe nor the folder is where the run began.
    let elsewhere = root.path().join("else/where");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::rename(&begun, elsewhere.join("carried")).unwrap();
    fs::remove_file(&path).unwrap();
    succeeds(program(&words(&[&"resume", &"carried"])).current_dir(&elsewhere));
    let read = |run: &Path| fs::read(run.join("pretrain.safetensors")).unwrap();
    assert!(read(&straight) == read(&elsewhere.join("carried")), "the carried run differs");
    assert!(!begun.exists(), "the run went on where it had been");
    assert_eq!(epochs(&elsewhere.join("carried")), 2);
}

/// The backbone of a run may be named from the folder where it begins, and is found from any other.
#[test]
fn a_run_on_an_imported_backbone_is_resumed() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path();
    let short = [("targets", "steps", 40), ("align", "epochs", 1), ("align", "batch", 32), ("export", "draws", 1)];
    crate::support::recipe(folder, &short);
    let run = |arguments: &[&str]| {
        let common = ["--device", "cpu", "--threads", "1"];
        let mut command = program(&[arguments, &common].concat().into_iter().map(str::to_owned).collect::<Vec<_>>());
        succeeds(command.current_dir(folder))
    };
    run(&["run", "recipe.toml", "--run", "first", "--output", "bundle"]);
    let model = folder.join("model.onnx");
    fs::copy(folder.join("bundle/backbone.onnx"), &model).unwrap();
    run(&["run", "recipe.toml", "--backbone", "model.onnx", "--run", "run", "--output", "imported"]);
    let provenance = |bundle: &str| Bundle::open(folder.join(bundle)).unwrap().manifest.provenance;
    // The recipe has a phase 1, which was left out.
    assert_eq!(["bundle", "imported"].map(|bundle| provenance(bundle).pretrain_epochs), [2, 0]);
    // Weights are named in the recipe itself.
    let mut recipe: toml::Table = fs::read_to_string(folder.join("recipe.toml")).unwrap().parse().unwrap();
    recipe.remove("pretrain");
    recipe["backbone"].as_table_mut().unwrap().insert("weights".into(), "model.onnx".into());
    fs::write(folder.join("weights.toml"), recipe.to_string()).unwrap();
    run(&["align", "weights.toml", "--run", "run-with-weights"]);
    let elsewhere = folder.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let resume =
        |name: &str| program(&words(&[&"resume", &folder.join(name)])).current_dir(&elsewhere).output().unwrap();
    for name in ["run", "run-with-weights"] {
        let output = resume(name);
        assert!(output.status.success(), "{name}: {}", error_text(&output));
    }

    // Another model in its place, here by a text that says nothing (`doc_string` of ONNX), is none to go on with.
    let mut bytes = fs::read(&model).unwrap();
    bytes.extend([0x32, 1, b'x']);
    fs::write(&model, bytes).unwrap();
    let said = error_text(&resume("run"));
    assert!(said.contains("holds a run that was trained on another content of backbone.onnx"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_stop_in_the_export_leaves_no_bundle() {
    let folder = recipe(1, 1);
    let mut arguments = arguments(folder.path(), "run");
    let output = folder.path().join("bundle");
    arguments[0] = "run".into();
    arguments.extend(["--output".into(), output.display().to_string()]);
    let mut child = program(&arguments).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("computing the benchmark's features")), "the export begins");
    send("-TERM", &child);
    let rest: Vec<String> = said.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    let last = rest.last().unwrap();
    assert!(last.starts_with("stopped by Ctrl-C or SIGTERM; the phases that were finished are saved"), "{last}");
    assert!(!output.exists());
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_ends_at_once() {
    // Long steps, so that the one that the first Ctrl-C meets is rarely over before the second.
    let folder = recipe(50, 30);
    let path = folder.path().join("recipe.toml");
    let mut table: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
    table["pretrain"].as_table_mut().unwrap().insert("batch".into(), 200.into());
    fs::write(&path, table.to_string()).unwrap();
    let run = folder.path().join("run");
    // As often as it takes to meet a step with both signals.
    let mut said = (0..40).map(|_| {
        let _ = fs::remove_dir_all(&run);
        let mut child = program(&arguments(folder.path(), "run")).spawn().unwrap();
        wait_for("the run's start", &mut child, || run.join("run.json").exists());
        std::thread::sleep(Duration::from_millis(300));
        send("-INT", &child);
        // Two signals at once would arrive as one.
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut said: Vec<String> = Vec::new();
        while !said.last().is_some_and(|line| line.contains("once more stops at once")) {
            said.push(lines.next().unwrap_or_else(|| panic!("the first Ctrl-C was not heard: {said:?}")));
        }
        send("-INT", &child);
        said.extend(lines);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
        said.join("\n")
    });
    assert!(said.any(|said| said.contains("stopped at once")), "every step was over too soon");
}
