//! The program as people use it: started, stopped, resumed, on a machine that lacks something.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::library;
use orco_runtime::threads::available_threads;
use orco_trainer::config::Recipe;
use orco_trainer::run::{Run, RunRecord};
use tempfile::TempDir;

use crate::support::error_text;

/// A folder in CIFAR-100's binary layout: noise around one colour per class. Kept between runs of the tests.
fn data() -> &'static Path {
    static DATA: OnceLock<PathBuf> = OnceLock::new();
    DATA.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cifar100-noise");
        fs::create_dir_all(&folder).unwrap();
        // Another process of these tests may be about to write the same.
        let lock = fs::File::create(folder.join("lock")).unwrap();
        lock.lock().unwrap();
        for (name, records) in [("train.bin", 50_000u32), ("test.bin", 10_000)] {
            let path = folder.join(name);
            if fs::metadata(&path).is_ok_and(|there| there.len() == u64::from(records) * 3074) {
                continue;
            }
            let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
            let mut noise = 1u32;
            for index in 0..records {
                let class = (index % 100) as u8;
                let mut record = vec![0, class];
                record.extend((0..3072u32).map(|position| {
                    noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (noise >> 26) as u8 + class + (position / 1024) as u8 * (class % 7) * 5
                }));
                file.write_all(&record).unwrap();
            }
        }
        let names: Vec<String> = (0..100).map(|class| format!("class{class}")).collect();
        fs::write(folder.join("fine_label_names.txt"), names.join("\n")).unwrap();
        folder
    })
}

/// A folder with a recipe of a very small network on 8 images of each class.
fn recipe(epochs: usize, views: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = include_str!("../../recipes/cifar100-edge-holdout.toml");
    let mut recipe: toml::Table = text.parse().unwrap();
    let mut set = |table: &str, field: &str, value: toml::Value| {
        recipe[table].as_table_mut().unwrap().insert(field.into(), value);
    };
    set("split", "holdout_per_class", 492.into());
    set("backbone", "width", 2.into());
    set("head", "hidden", 128.into());
    set("targets", "steps", 40.into());
    set("align", "epochs", 1.into());
    set("align", "batch", 64.into());
    set("export", "candidates_per_class", 8.into());
    // Several steps an epoch, so that a stop falls within one.
    set("pretrain", "batch", 64.into());
    set("pretrain", "learning_rate", 0.1.into());
    set("pretrain", "epochs", (epochs as i64).into());
    set("pretrain", "views", (views as i64).into());
    set("pretrain", "warmup_epochs", i64::from(epochs > 1).into());
    set("pretrain", "precision", "f32".into());
    fs::write(folder.path().join("recipe.toml"), recipe.to_string()).unwrap();
    folder
}

/// The command line that pretrains the recipe of `folder` into its folder `run`.
fn arguments(folder: &Path, run: &str) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let (recipe, run) = (path(&folder.join("recipe.toml")), path(&folder.join(run)));
    let common = ["--run", &run, "--data", &path(data()), "--threads", "1", "--device", "cpu"].map(str::to_owned);
    ["pretrain".to_owned(), recipe].into_iter().chain(common).collect()
}

/// A recipe of a very small network on few synthetic objects, which needs no data, and the command line that pretrains
/// it.
#[cfg(unix)]
fn synthetic_arguments(folder: &Path, run: &str) -> Vec<String> {
    crate::support::recipe(folder, &[]);
    let (recipe, run) = (folder.join("recipe.toml"), folder.join(run));
    words(&[&"pretrain", &recipe, &"--run", &run, &"--threads", &"1", &"--device", &"cpu"])
}

fn program(arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco-train"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", error_text(&output));
    output
}

fn epochs(run: &Path) -> usize {
    fs::read_to_string(run.join("metrics.jsonl")).unwrap_or_default().lines().count()
}

/// Waits as long as the program runs.
fn wait_for(what: &str, child: &mut Child, mut holds: impl FnMut() -> bool) {
    while !holds() {
        assert!(child.try_wait().unwrap().is_none(), "the program ended before {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(unix)]
fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
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

/// libtorch forgets its CUDA half for good if it is asked for anything of CUDA's before that is loaded.
#[test]
fn the_cuda_half_of_libtorch_is_taken_in() {
    let Some(torch) = std::env::var_os("ORCO_CUDA_TORCH") else {
        orco_trials::skipped("loading CUDA (ORCO_CUDA_TORCH names no PyTorch 2.11 with CUDA)");
        return;
    };
    let libraries = Path::new(&torch).join("lib");
    assert!(libraries.join("libtorch_cuda.so").is_file(), "{} holds no libtorch_cuda.so", libraries.display());
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_orco-train"));
    let output = doctor.arg("doctor").env("LD_LIBRARY_PATH", &libraries).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find(|line| line.starts_with("CUDA")).unwrap();
    assert!(line.contains("is loaded, but") || line.contains("device(s)"), "{said}");
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

/// A limit on the size of files stands for a disk that is full: writes fail half-way.
#[cfg(unix)]
#[test]
fn a_full_disk_keeps_the_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let arguments = synthetic_arguments(folder.path(), "run");
    succeeds(program(&arguments).args(["--until", "1"]));
    let checkpoint = run.join("pretrain.safetensors");
    let before = fs::read(&checkpoint).unwrap();
    assert!(before.len() > 100_000, "{}", before.len());
    let limited = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 60; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_orco-train")])
        .args(&arguments)
        .output()
        .unwrap();
    let said = error_text(&limited);
    assert_eq!(limited.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("error: phase 1: cannot save the checkpoint; the one before it is kept: "), "{said}");
    assert!(last.contains("pretrain.safetensors") && last.contains("File too large"), "{said}");
    assert!(fs::read(&checkpoint).unwrap() == before, "the checkpoint was harmed");
    let is_partial = |name: std::ffi::OsString| name.to_string_lossy().ends_with("partial");
    let mut names = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.any(is_partial), "a half-written file takes room");
    succeeds(&mut program(&arguments));
    assert_eq!(epochs(&run), 2);
}

/// A small file system of its own, which only a user with the right to mount can make.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_really_full_keeps_the_last_checkpoint() {
    let alone = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_orco-train")]);
        command
    };
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    fs::create_dir(&run).unwrap();
    if !alone("mount -t tmpfs tmpfs /mnt").output().is_ok_and(|output| output.status.success()) {
        orco_trials::skipped("this user may not mount a file system");
        return;
    }
    // Room for one checkpoint and half of the next.
    let script = "mount -t tmpfs -o size=\"$1\" tmpfs \"$2\"; shift; run=$1; shift; \"$0\" \"$@\" --until 1 || exit 9; \
        cp \"$run/pretrain.safetensors\" \"$run.before\"; \"$0\" \"$@\"; code=$?; \
        cmp \"$run/pretrain.safetensors\" \"$run.before\" || exit 8; exit $code";
    let size = {
        succeeds(program(&synthetic_arguments(folder.path(), "other")).args(["--until", "1"]));
        let bytes = fs::metadata(folder.path().join("other/pretrain.safetensors")).unwrap().len();
        (bytes + bytes / 2).to_string()
    };
    let output = alone(script).arg(size).arg(&run).args(synthetic_arguments(folder.path(), "run")).output().unwrap();
    let said = error_text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("error: phase 1: cannot save the checkpoint; the one before it is kept: "), "{said}");
    assert!(last.contains("No space left on device"), "{said}");
}

/// A limit on the address space stands for a machine with too little memory.
#[cfg(target_os = "linux")]
#[test]
fn too_little_memory_is_one_sentence() {
    let folder = recipe(1, 1);
    let path = folder.path().join("recipe.toml");
    let text = fs::read_to_string(&path).unwrap();
    let mut table: toml::Table = text.parse().unwrap();
    table["split"].as_table_mut().unwrap().insert("holdout_per_class".into(), 480.into());
    table["backbone"].as_table_mut().unwrap().insert("width".into(), 128.into());
    table["pretrain"].as_table_mut().unwrap().insert("batch".into(), 800.into());
    table["pretrain"].as_table_mut().unwrap().insert("views".into(), 8.into());
    fs::write(&path, table.to_string()).unwrap();
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 4000000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_orco-train")])
        .args(arguments(folder.path(), "run"))
        .output()
        .unwrap();
    let said = error_text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("error: phase 1: out of memory: libtorch could not get "), "{said}");
    assert!(last.ends_with(" more; lower pretrain.batch or pretrain.views"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// The program with a recipe of synthetic data, some of its values changed, under a limit on the address space.
#[cfg(target_os = "linux")]
fn limited(changes: &[(&str, &str, i64)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    crate::support::synthetic(folder.path(), changes);
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 4000000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_orco-train")])
        .args(["pretrain", "recipe.toml", "--run", "run", "--device", "cpu"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", error_text(&output));
    output
}

#[cfg(target_os = "linux")]
#[test]
fn too_little_memory_outside_the_phases_is_one_sentence_too() {
    let said = error_text(&limited(&[("backbone", "width", 1024)]));
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("error: out of memory: libtorch could not get "), "{said}");
    assert!(last.contains("; lower backbone.width, head.hidden"), "{said}");
    let said = error_text(&limited(&[("data", "image_size", 1024), ("data", "train_per_class", 400)]));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("error: ") && said.contains(" images of 1024 x 1024 pixels take "), "{said}");
    assert!(said.contains("lower data.image_size"), "{said}");
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
fn a_device_that_is_not_there_is_one_sentence() {
    if orco_trainer::platform::device::cuda_devices().is_ok() {
        orco_trials::skipped("this machine has a CUDA device");
        return;
    }
    let folder = recipe(1, 1);
    let mut arguments = arguments(folder.path(), "run");
    *arguments.last_mut().unwrap() = "cuda".into();
    let output = program(&arguments).output().unwrap();
    let said = error_text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("error: no CUDA device can be used: libtorch_cuda.so was found neither"), "{said}");
    assert!(!folder.path().join("run").exists(), "a refused run leaves no folder");
}

#[test]
fn a_folder_without_a_run_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let output = program(&["resume".to_owned(), folder.path().display().to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error_text(&output).contains("holds no run that could be resumed"), "{}", error_text(&output));
}

#[test]
fn the_doctor_reports() {
    let output = succeeds(&mut program(&["doctor".to_owned()]));
    let report = String::from_utf8(output.stdout).unwrap();
    for subject in ["libtorch", "CUDA", "threads", "precision", "ONNX Runtime", "memory", "disk"] {
        assert!(report.lines().any(|line| line.starts_with(subject)), "{subject} in {report}");
    }
}

/// ONNX Runtime, which the doctor starts, would begin a database below the cache folder.
#[test]
fn onnx_runtime_leaves_nothing_in_the_users_folders() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(&["doctor".to_owned()]);
    command.env_remove("ORT_DISABLE_TELEMETRY");
    for name in ["HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "TMPDIR"] {
        command.env(name, folder.path());
    }
    // It is found through these folders, too.
    command.envs(library::locate().map(|path| ("ORT_DYLIB_PATH", path)));
    let said = String::from_utf8_lossy(&succeeds(&mut command).stdout).into_owned();
    assert!(library::locate().is_none() || said.contains("telemetry off"), "{said}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A recipe on rendered images that is read at once.
fn synthetic(folder: &Path) -> PathBuf {
    let text = include_str!("../../recipes/synthetic-tiny.toml");
    let path = folder.join("synthetic.toml");
    fs::write(&path, text.replace("train_per_class = 90", "train_per_class = 25")).unwrap();
    path
}

/// The sentence with which the program refuses.
fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = error_text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("error: "), "{said}");
    last
}

fn words(words: &[&dyn AsRef<std::ffi::OsStr>]) -> Vec<String> {
    words.iter().map(|word| word.as_ref().to_str().unwrap().to_owned()).collect()
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
    assert!(!run.exists() && !output.exists(), "a refused run leaves no folder");
}

#[test]
fn a_backbone_that_is_refused_claims_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (path, run, model) = (synthetic(folder.path()), folder.path().join("run"), folder.path().join("model.onnx"));
    fs::write(&model, "no model").unwrap();
    let arguments = words(&[&"align", &path, &"--run", &run, &"--backbone", &model, &"--device", &"cpu"]);
    let said = refused(&mut program(&arguments));
    assert!(said.contains("model.onnx is no ONNX model"), "{said}");
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
    assert!(said.contains("this run was begun with 1 threads; with 2 its losses differ in the last digits"), "{said}");
    assert!(!said.contains("--threads counts"), "{said}");
    assert!(!with("2").contains("last digits"));
}
