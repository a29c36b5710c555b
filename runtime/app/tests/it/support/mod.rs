//! What the tests share: devices, the service, a broker, and system calls followed through ptrace.

pub mod bench;
#[cfg(target_os = "linux")]
pub mod broker;
#[cfg(target_os = "linux")]
pub mod calls;
#[path = "../../../../lab/tests/it/support.rs"]
pub mod changed_bundle;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod fault;
#[cfg(all(target_os = "linux", feature = "mqtt"))]
pub mod reporting;
pub mod service;
#[cfg(target_os = "linux")]
pub mod trace;
#[cfg(unix)]
pub mod user;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use orco_core::config::MethodConfig;
use orco_runtime::bundle::Bundle;
use orco_runtime::manifest::{LABELS, LEARNER, MANIFEST, hexadecimal};
use orco_runtime::signature::{GeneratedKey, SecretKey};
use orco_runtime::store::Store;
use orco_state::bank::Bank;
use orco_state::codec::{self, FileKind};
use orco_state::head::Head;
use orco_state::history::SavedState;
pub use orco_trials::folder::{copy_all, copy_folder};
use orco_trials::skipped;
use serde_json::Value;
use tempfile::TempDir;

/// The shipped bundle.
pub fn shipped() -> PathBuf {
    workspace().join("models/cifar100-edge")
}

/// Sample pictures of a class, `part` being `learn` or `try`.
pub fn shots(part: &str, class: &str) -> PathBuf {
    workspace().join("examples/shots").join(part).join(class)
}

/// The repository.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A class and its folder, as `orco learn` takes them.
pub fn argument(label: &str, folder: &Path) -> String {
    format!("{label}={}", folder.display())
}

/// A copy of the shipped bundle in `folder`.
pub fn copied_bundle(folder: &Path) -> PathBuf {
    let copy = folder.join("bundle");
    // Without the folder of its report.
    copy_folder(&shipped(), &copy);
    copy
}

/// The shipped bundle with a session that takes no time: one epoch, one exemplar of each base class, a narrow head. The
/// state stays large enough that writing it takes a while.
pub fn fast_bundle(folder: &Path) -> Bundle {
    fast_bundle_of(folder, |bank, class| bank.classes().iter().position(|of| *of == class).unwrap())
}

/// Another one like it, as after a training.
pub fn other_bundle(folder: &Path) -> Bundle {
    fast_bundle_of(folder, |bank, class| bank.classes().iter().rposition(|of| *of == class).unwrap())
}

fn fast_bundle_of(folder: &Path, chosen: impl Fn(&Bank, u32) -> usize) -> Bundle {
    let folder = copied_bundle(folder);
    let shipped = Bundle::open(&folder).unwrap();
    let mut base_model = shipped.base_model.clone();
    let stored = shipped.base_model.config.clone();
    base_model.config = MethodConfig {
        views: stored.views,
        precision: stored.precision,
        epochs: 1,
        warmup_epochs: 0,
        ..MethodConfig::combined()
    };
    let shape = base_model.head.shape();
    let old =
        std::mem::replace(&mut base_model.head, Head::zeros(orco_core::projection::HeadShape { hidden: 64, ..shape }));
    let head = &mut base_model.head;
    head.w1.copy_from_slice(&old.w1[..64 * shape.inputs]);
    for (to, from) in head.w2.chunks_exact_mut(64).zip(old.w2.chunks_exact(shape.hidden)) {
        to.copy_from_slice(&from[..64]);
    }
    let bank = &shipped.base_model.exemplars;
    let mut few = Bank::new(bank.inputs(), bank.views(), bank.precision());
    for class in 0..base_model.classes.len() as u32 {
        let chosen = chosen(bank, class);
        few.push_from(bank, chosen, class);
    }
    base_model.exemplars = few;
    let learner = codec::encode(FileKind::Learner, &base_model);
    let mut manifest = shipped.manifest.clone();
    manifest.learn = base_model.config.clone();
    manifest.files.insert(LEARNER.into(), hexadecimal(&codec::digest(&learner)));
    fs::write(folder.join(MANIFEST), toml::to_string(&manifest).unwrap()).unwrap();
    fs::write(folder.join(LEARNER), learner).unwrap();
    Bundle::open(&folder).unwrap()
}

/// A copy of the shipped bundle that is called "earlier", as if another training had made it: it knows an umbrella, and
/// no apple.
pub fn earlier_bundle(folder: &Path) -> PathBuf {
    let folder = copied_bundle(folder);
    let shipped = Bundle::open(&folder).unwrap();
    let mut base_model = shipped.base_model.clone();
    let mut labels = fs::read_to_string(folder.join(LABELS)).unwrap();
    for (label, other) in [("apple", "arbour"), ("dinosaur", "umbrella")] {
        base_model.classes.iter_mut().find(|class| class.label == label).unwrap().label = other.into();
        labels = labels.replace(&format!("{label}\n"), &format!("{other}\n"));
    }
    let mut manifest = shipped.manifest.clone();
    manifest.name = "earlier".into();
    fs::write(folder.join(MANIFEST), toml::to_string(&manifest).unwrap()).unwrap();
    changed_bundle::replace(&folder, LEARNER, &codec::encode(FileKind::Learner, &base_model));
    changed_bundle::replace(&folder, LABELS, labels.as_bytes());
    folder
}

/// A key pair of minisign in files, made for one test.
pub struct Key {
    pub secret: PathBuf,
    pub public: PathBuf,
    pub key: SecretKey,
}

/// Makes a key pair, `folder/name` and `folder/name.pub`.
pub fn key(folder: &Path, name: &str) -> Key {
    let GeneratedKey { secret: key, secret_text, public_text, .. } = SecretKey::generate().unwrap();
    let (secret, public) = (folder.join(name), folder.join(format!("{name}.pub")));
    fs::write(&secret, secret_text).unwrap();
    fs::write(&public, public_text).unwrap();
    Key { secret, public, key }
}

/// The program, whatever the environment of the tests says to it.
pub fn orco(bundle: &Path, state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco"));
    command.arg("--bundle").arg(bundle).arg("--state").arg(state).args(arguments).env_remove("RUST_LOG");
    let ours = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ORCO_"));
    // All but the one that says where ONNX Runtime may lie.
    for (name, _) in ours.filter(|(name, _)| name != "ORCO_CACHE") {
        command.env_remove(name);
    }
    // Nor does a file of settings that the machine may have.
    command.env("ORCO_CONFIG", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/nothing.toml"));
    command
}

/// Every kind of change of a device that knows "mug" and has renamed it from "jug", has the pack `pack`, and the label
/// of a class that each of them gives or takes.
pub fn changes(pack: &Path) -> Vec<Vec<String>> {
    let cactus = argument("cactus", &shots("learn", "cactus"));
    let more = argument("mug", &shots("try", "mug"));
    let lists: [&[&str]; 7] = [
        &["learn", &cactus],
        &["add", &more],
        &["rename", "mug", "beaker"],
        &["forget", "mug"],
        &["forget", "mug", "--purge"],
        &["undo"],
        &["import", pack.to_str().unwrap(), "--as", "other"],
    ];
    lists.iter().map(|list| list.iter().map(|&argument| argument.to_owned()).collect()).collect()
}

/// A state folder for [`changes`], and a pack of its class.
pub fn changed_state(bundle: &Path, folder: &Path) -> (PathBuf, PathBuf) {
    let (state, pack) = (folder.join("pristine"), folder.join("mug.orcopack"));
    let learn = argument("jug", &shots("learn", "mug"));
    let thumbnails = shots("learn", "mug");
    let export = ["export", "mug", "-o", pack.to_str().unwrap(), "--thumbnails", thumbnails.to_str().unwrap()];
    for arguments in [&["learn", &learn][..], &["rename", "jug", "mug"], &export] {
        let done = orco(bundle, &state, arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
    }
    (state, pack)
}

/// All files in a folder and in those below it; none where it is not there.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Makes a pipe with a name.
pub fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A device with a state folder of its own.
pub struct Device {
    pub folder: TempDir,
    pub bundle: PathBuf,
    /// Options that every call gets.
    pub options: Vec<String>,
}

impl Device {
    pub fn new() -> Self {
        Self::on(shipped())
    }

    pub fn on(bundle: PathBuf) -> Self {
        Self { folder: TempDir::new().unwrap(), bundle, options: Vec::new() }
    }

    /// A device on a copy of the shipped bundle that the test may damage.
    pub fn with_own_bundle() -> Self {
        let folder = TempDir::new().unwrap();
        Self { bundle: copied_bundle(folder.path()), folder, options: Vec::new() }
    }

    /// A device on [`earlier_bundle`].
    pub fn with_earlier_bundle() -> Self {
        let folder = TempDir::new().unwrap();
        Self { bundle: earlier_bundle(folder.path()), folder, options: Vec::new() }
    }

    /// A device on a copy of the shipped bundle whose benchmark is short, so that its demonstration takes little time.
    pub fn with_short_benchmark() -> Self {
        let device = Self::with_own_bundle();
        changed_bundle::shorten(&device.bundle);
        device
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Runs a command that must be refused with one sentence that has `expected` in it, what is saved unchanged.
    pub fn refused_keeping(&self, arguments: &[&str], expected: &str) {
        let before = self.state_bytes();
        assert_refused(&self.command(arguments).output().unwrap(), expected);
        assert_eq!(before, self.state_bytes(), "{arguments:?} changed the state");
    }

    /// All files of the state folder, and of those below it, with what is in them.
    pub fn state_files(&self) -> BTreeMap<String, Vec<u8>> {
        let paths = files_below(&self.state()).into_iter().filter(|path| !path.ends_with(".lock"));
        let name = |path: &Path| path.strip_prefix(self.state()).unwrap().to_str().unwrap().to_owned();
        paths.map(|path| (name(&path), fs::read(path).unwrap())).collect()
    }

    /// Both slots, with what was appended to them.
    pub fn state_bytes(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.state_files();
        files.retain(|name, _| name.starts_with("slot-"));
        files
    }

    /// What is saved, read without the program.
    pub fn saved(&self) -> SavedState {
        Store::new(self.state()).load(&Bundle::open(&self.bundle).unwrap()).unwrap().saved
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let options = self.options.iter().map(String::as_str);
        orco(&self.bundle, &self.state(), &options.chain(arguments.iter().copied()).collect::<Vec<_>>())
    }

    /// Runs a command that must succeed and returns its JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).args(["--json", "-"]).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
    }

    /// Learns classes from folders in one session.
    pub fn learn(&self, classes: &[(&str, &Path)]) -> Value {
        let pairs: Vec<String> = classes.iter().map(|(label, path)| argument(label, path)).collect();
        let arguments: Vec<&str> = ["learn", "--verbose"].into_iter().chain(pairs.iter().map(String::as_str)).collect();
        self.json(&arguments)
    }

    /// Writes a class into a pack and returns the pack's path.
    pub fn export(&self, label: &str, more: &[&str]) -> PathBuf {
        let path = self.folder.path().join(format!("{label}.orcopack"));
        let arguments = [&["export", label, "--force", "-o", path.to_str().unwrap()], more].concat();
        self.json(&arguments);
        path
    }

    /// Runs a command that must be refused with one sentence that has `expected` in it, the state unchanged.
    pub fn refused(&self, arguments: &[&str], expected: &str) {
        let before = self.state_files();
        assert_refused(&self.command(arguments).output().unwrap(), expected);
        assert_eq!(before, self.state_files(), "{arguments:?} changed the state");
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts that the program refused with one sentence that has `expected` in it.
pub fn assert_refused(output: &Output, expected: &str) {
    let said = text(&output.stderr);
    assert!(!output.status.success(), "was not refused: {}", text(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(errors.len() == 1 && errors[0].contains(expected), "no single \"{expected}\" in: {said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// Signs a bundle's manifest.
pub fn sign(bundle: &Path, key: &SecretKey) {
    let text = fs::read_to_string(bundle.join("manifest.toml")).unwrap();
    let comment = orco_runtime::manifest::Manifest::parse(&text).unwrap().comment();
    fs::write(bundle.join("manifest.toml.minisig"), key.sign(text.as_bytes(), &comment).unwrap()).unwrap();
}

/// Runs the tool `minisign`, which must succeed; whether it is at hand.
pub fn minisign(arguments: &[&str]) -> bool {
    let Ok(output) = Command::new("minisign").args(arguments).output() else {
        skipped("comparing with the tool minisign, which is not installed");
        return false;
    };
    assert!(output.status.success(), "minisign {arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    true
}
