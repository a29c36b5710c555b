//! What the program refuses before it trains, and what it warns of.

use std::fs;
use std::path::Path;
use std::process::Command;

use orco_trainer::config::Recipe;
use orco_trainer::run::Run;
use orco_trials::succeeds;

use super::{arguments, data, program, recipe, synthetic, words};
use crate::support::{error_text, failure};

/// The sentence with which the program refuses.
fn refused(command: &mut Command) -> String {
    failure(&command.output().unwrap())
}

#[test]
fn a_number_of_threads_out_of_range_is_refused() {
    for threads in ["0", "-1", "2000"] {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run").display().to_string();
        let threads = format!("--threads={threads}");
        let arguments = ["pretrain", "recipe.toml", "--run", &run, &threads].map(str::to_owned);
        let output = program(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(error_text(&output).contains("is not in 1..=1024"), "{}", error_text(&output));
    }
}

#[test]
fn a_folder_without_a_run_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let output = program(&["resume".to_owned(), folder.path().display().to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error_text(&output).contains("holds no run that could be resumed"), "{}", error_text(&output));
}

#[test]
fn a_second_process_is_kept_out_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let (path, run) = (synthetic(folder.path()), folder.path().join("run"));
    let held = Run::open(&run, &Recipe::read(&path).unwrap()).unwrap();
    let arguments = words(&[&"pretrain", &path, &"--run", &run, &"--device", &"cpu", &"--until", &"0"]);
    let said = refused(&mut program(&arguments));
    assert!(said.contains("another orco-train works on this run"), "{said}");
    assert!(!run.join("run.json").exists(), "it wrote into the other's folder");
    drop(held);
    succeeds(&mut program(&arguments));
}

#[cfg(unix)]
#[test]
fn a_run_goes_on_with_its_own_data_only() {
    let folder = recipe(2, 1);
    let (run, other) = (folder.path().join("run"), folder.path().join("other"));
    let mut arguments = arguments(folder.path(), "run");
    arguments.extend(words(&[&"--until", &"0"]));
    succeeds(&mut program(&arguments));
    fs::create_dir(&other).unwrap();
    for name in ["train.bin", "test.bin"] {
        std::os::unix::fs::symlink(data().join(name), other.join(name)).unwrap();
    }
    let names = fs::read_to_string(data().join("fine_label_names.txt")).unwrap();
    fs::write(other.join("fine_label_names.txt"), names.replace("class7\n", "lion\n")).unwrap();
    let index = arguments.iter().position(|argument| argument == "--data").unwrap() + 1;
    let own = std::mem::replace(&mut arguments[index], other.display().to_string());
    let before = fs::read(run.join("run.json")).unwrap();
    let said = refused(&mut program(&arguments));
    assert!(said.contains("holds a run that was trained on other classes; name the same data"), "{said}");
    assert_eq!(fs::read(run.join("run.json")).unwrap(), before);
    // A run from before digests were kept is taken at its word, and has them from then on.
    fs::remove_file(run.join("trained-on.json")).unwrap();
    arguments[index] = own;
    succeeds(&mut program(&arguments));
    assert!(run.join("trained-on.json").exists());
}

#[test]
fn what_cannot_end_well_is_said_before_training() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let (path, run, output) = (synthetic(root), root.join("run"), root.join("bundle"));
    let command = |output: &Path| {
        let arguments = words(&[&"run", &path, &"--run", &run, &"--output", &output, &"--device", &"cpu"]);
        program(&arguments)
    };
    let said = refused(command(&output).env("ORT_DYLIB_PATH", "/nowhere/libonnxruntime.so"));
    assert!(said.contains("the ONNX engine could not be started"), "{said}");

    let notes = root.join("notes");
    fs::create_dir(&notes).unwrap();
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/cifar100-edge/manifest.toml"),
        notes.join("manifest.toml"),
    )
    .unwrap();
    fs::write(notes.join("thesis.tex"), "years").unwrap();
    let said = refused(&mut command(&notes));
    assert!(said.contains("holds \"thesis.tex\", which is no part of a bundle"), "{said}");
    assert!(notes.join("thesis.tex").exists());

    let said = refused(&mut command(&run.join("bundle")));
    assert!(said.contains("must not lie within each other"), "{said}");
    fs::write(root.join("file"), "").unwrap();
    let said = refused(&mut command(&root.join("file/bundle")));
    assert!(said.contains("file/bundle"), "{said}");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("batch = 64\nlearning_rate = 0.25", "batch = 751\nlearning_rate = 0.25")).unwrap();
    let said = refused(&mut command(&output));
    assert!(said.ends_with("phase 2: the 750 base images do not fill one batch of 751; lower align.batch"), "{said}");
    fs::write(&path, text.replace("epochs = 45\nbatch = 64", "epochs = 45\nbatch = 751")).unwrap();
    let said = refused(&mut command(&output));
    let expected = "phase 1: the 750 base images do not fill one batch of 751; lower pretrain.batch";
    assert!(said.ends_with(expected), "{said}");
    assert!(!run.exists() && !output.exists(), "a refused run leaves no folder");
}

#[test]
fn a_backbone_that_is_refused_claims_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (path, run, model) = (synthetic(folder.path()), folder.path().join("run"), folder.path().join("model.onnx"));
    fs::write(&model, "no model").unwrap();
    let arguments = words(&[&"align", &path, &"--run", &run, &"--backbone", &model, &"--device", &"cpu"]);
    let said = refused(&mut program(&arguments));
    assert!(
        said.contains("model.onnx is no ONNX model, or not all of one; fetch it again, or write one with"),
        "{said}"
    );
    assert!(!run.exists(), "a refused run leaves no folder");
    let said = error_text(&program(&arguments).output().unwrap());
    assert!(!said.contains("training and"), "it is told before images are read: {said}");

    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("[backbone]", "[backbone]\nweights = \"missing.pth\"")).unwrap();
    let arguments = words(&[&"pretrain", &path, &"--run", &run, &"--device", &"cpu"]);
    let said = error_text(&program(&arguments).output().unwrap());
    assert!(said.contains("cannot read the weights missing.pth") && !said.contains("training and"), "{said}");
    assert!(!run.exists(), "a refused run leaves no folder");
}

#[test]
fn other_threads_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let (path, run) = (synthetic(folder.path()), folder.path().join("run"));
    let with = |threads: &str| {
        let until = words(&[&"--device", &"cpu", &"--until", &"0", &"--threads", &threads]);
        error_text(&succeeds(&mut program(&[words(&[&"pretrain", &path, &"--run", &run]), until].concat())))
    };
    assert!(!with("1").contains("last digits"));
    let said = with("2");
    assert!(said.contains("this run was begun with 1 thread; with 2 its losses differ in the last digits"), "{said}");
    assert!(!said.contains("--threads counts"), "{said}");
    assert!(!with("2").contains("last digits"));
}
