//! `orco hub` and `orco sync`: two devices share a class by way of a hub that is killed in between.

#![cfg(feature = "hub")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{argument, assert_refused, orco, shipped, shots, text};

/// A hub that is a process of its own; it is killed when dropped.
struct RunningHub {
    process: Child,
    url: String,
}

impl RunningHub {
    fn start(folder: &Path) -> Self {
        Self::of(hub(folder, &["run", "--listen", "127.0.0.1:0"]))
    }

    fn of(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(process.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        let url = line.split([' ', ';']).find(|word| word.starts_with("http://")).unwrap().to_owned();
        Self { process, url }
    }
}

impl Drop for RunningHub {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn hub(folder: &Path, arguments: &[&str]) -> Command {
    let folder = folder.join("hub");
    let arguments = [&["hub", "--hub-folder", folder.to_str().unwrap()], arguments].concat();
    orco(&shipped(), &folder.join("unused"), &arguments)
}

/// The JSON of a command that must succeed.
fn json(mut command: Command) -> Value {
    let output = command.args(["--json", "-"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn sync(folder: &Path, device: &str, hub: &RunningHub, more: &[&str]) -> Value {
    let arguments = [&["sync", "--hub", &hub.url], more].concat();
    json(orco(&shipped(), &folder.join(device), &arguments))
}

/// A code with which a device enrols.
fn new_code(folder: &Path) -> String {
    json(hub(folder, &["code"]))["code"].as_str().unwrap().to_owned()
}

/// Enrols devices under the names of their folders.
fn enrol(folder: &Path, devices: &[&str], hub: &RunningHub) {
    for device in devices {
        sync(folder, device, hub, &["--code", &new_code(folder), "--name", device]);
    }
}

#[test]
fn a_code_counts_for_an_hour_to_a_year() {
    let folder = TempDir::new().unwrap();
    for hours in ["0", "8785"] {
        let refused = hub(folder.path(), &["code", "--hours", hours]).output().unwrap();
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains("1..=8784"), "{hours}: {said}");
    }
    json(hub(folder.path(), &["code", "--hours", "8784"]));
}

#[test]
fn help_of_a_hubs_command_is_about_the_hub() {
    let folder = TempDir::new().unwrap();
    let help = text(&hub(folder.path(), &["list", "--help"]).output().unwrap().stdout);
    assert!(help.contains("--hub-folder") && help.contains("--json"), "{help}");
    for option in ["--answers", "--backbone", "--engine", "--history", "--threads", "--verbose"] {
        assert!(!help.contains(option), "{option}: {help}");
    }
    json(hub(folder.path(), &["code", "--engine", "rten", "--hours", "1"]));
}

/// As where the variable that names the hub's folder is not set: devices would be refused without a hint.
#[test]
fn a_code_that_begins_a_hub_says_so() {
    let folder = TempDir::new().unwrap();
    let warned = || text(&hub(folder.path(), &["code"]).output().unwrap().stderr);
    let first = warned();
    assert!(first.contains("warning: this begins a new hub in ") && first.contains("--hub-folder"), "{first}");
    assert_eq!(warned(), "");
}

#[test]
fn the_doctor_tells_whether_the_hub_answers_and_the_device_is_enrolled() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let running = RunningHub::start(folder);
    let doctor = |arguments: &[&str]| {
        let arguments = [&["doctor", "--listen", "127.0.0.1:0"], arguments].concat();
        text(&orco(&shipped(), &folder.join("door"), &arguments).output().unwrap().stdout)
    };
    let named = ["--hub", &running.url];
    assert!(!doctor(&[]).contains(" hub "), "who has no hub reads nothing of one");
    let said = doctor(&named);
    assert!(said.contains("note   hub           it answers, but this device is not enrolled"), "{said}");
    enrol(folder, &["door"], &running);
    let said = doctor(&named);
    assert!(said.contains("ok     hub           it answers"), "{said}");
    let said = doctor(&[]);
    assert!(said.contains("note   hub           none is named"), "{said}");
}

#[test]
fn a_socks_proxy_is_passed_over_without_words_for_programmers() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let running = RunningHub::start(folder);
    let code = new_code(folder);
    let mut command = orco(&shipped(), &folder.join("door"), &["sync", "--hub", &running.url, "--code", &code]);
    let output = command.env("ALL_PROXY", "socks5://127.0.0.1:1").output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && !said.contains("socks"), "{said}");
}

#[test]
fn a_label_with_a_comma_is_one_label() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let running = RunningHub::start(folder);
    let code = new_code(folder);
    sync(folder, "giver", &running, &["--code", &code]);
    let classes =
        [("mug", "mug"), ("mug, blue", "cactus")].map(|(label, class)| argument(label, &shots("learn", class)));
    json(orco(&shipped(), &folder.join("giver"), &["learn", &classes[0], &classes[1]]));

    let done = sync(folder, "giver", &running, &["--share", "mug, blue", "--share", "mgu"]);
    assert_eq!(done["pushed"], serde_json::json!(["mug, blue"]));
    let warnings = done["warnings"].as_array().unwrap();
    assert!(warnings.len() == 1 && warnings[0].as_str().unwrap().contains("label mgu was learned"), "{warnings:?}");

    let mut command = orco(&shipped(), &folder.join("giver"), &["sync", "--hub", &running.url]);
    command.env("ORCO_SHARE", "mug, blue\nmug");
    assert_eq!(json(command)["pushed"], serde_json::json!(["mug"]));
}

/// Cron mails what a round says.
#[test]
fn why_a_bundle_is_not_held_is_said_once() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let running = RunningHub::start(folder);
    enrol(folder, &["door"], &running);
    json(orco(&shipped(), &folder.join("door"), &["learn", &argument("mug", &shots("learn", "mug"))]));
    let other = shipped().with_file_name("cifar100-micro");
    json(hub(folder, &["release", other.to_str().unwrap(), "--stage", "all"]));
    let output = orco(&shipped(), &folder.join("door"), &["sync", "--hub", &running.url]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(said.matches("no pictures of the shots were kept").count(), 1, "{said}");
}

/// A channel is what devices and releases name: a misspelt one is a channel, too.
#[test]
fn a_channel_that_leads_nowhere_is_told_of() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let running = RunningHub::start(folder);
    let code = new_code(folder);
    sync(folder, "door", &running, &["--code", &code]);
    let warnings = |done: Value| done["warnings"].as_array().map_or(0, Vec::len);
    let bundle = shipped();
    let release = |channel: &str| json(hub(folder, &["release", bundle.to_str().unwrap(), "--channel", channel]));
    assert_eq!((warnings(release("stable")), warnings(release("stabel"))), (0, 1));
    let device = json(hub(folder, &["list"]))["devices"][0]["id"].as_str().unwrap().to_owned();
    let shortened = hub(folder, &["channel", &device[..8], "stable"]).output().unwrap();
    let said = String::from_utf8_lossy(&shortened.stderr);
    assert!(shortened.status.code() == Some(1) && said.contains("is not the whole identifier of a device"), "{said}");
    let follow = |channel: &str| json(hub(folder, &["channel", &device, channel]));
    assert_eq!((warnings(follow("stabel")), warnings(follow("stbale"))), (0, 1));
    // Two releases of one bundle, under other options: all devices get the newer.
    json(hub(folder, &["release", bundle.to_str().unwrap(), "--stage", "all", "--force"]));
    let listed = text(&hub(folder, &["list"]).output().unwrap().stdout);
    assert!(listed.contains(", last seen now\n"), "{listed}");
    let stages =
        ["  3 cifar100-edge, stable, 100 %", "  2 cifar100-edge, stabel, 5 %", "  1 cifar100-edge, stable, replaced"];
    assert!(stages.iter().all(|stage| listed.contains(&format!("{stage}, released now: held by "))), "{listed}");
    let withdrawn = text(&hub(folder, &["withdraw", "3"]).output().unwrap().stdout);
    assert_eq!(withdrawn, "release 3 is taken back; in its place again: release 1\n");
    let purge = |arguments: &[&str]| hub(folder, &[&["purge"], arguments].concat()).output().unwrap();
    assert_eq!(purge(&[]).status.code(), Some(2), "it says what to purge");
    for expected in ["purged 1 withdrawn release of bundles\n", "purged 0 withdrawn releases of bundles\n"] {
        assert_eq!(text(&purge(&["--bundles"]).stdout), expected);
    }
    let refused = hub(folder, &["withdraw", "9"]).output().unwrap();
    assert_refused(&refused, "there is no release 9; `orco hub list` shows all");
}

#[test]
fn a_device_that_is_restored_learns_again_what_its_channel_holds() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let running = RunningHub::start(folder);
    enrol(folder, &["giver", "taker"], &running);
    json(orco(&shipped(), &folder.join("taker"), &["learn", &argument("cactus", &shots("learn", "cactus"))]));
    let backup = folder.join("taker.orcobackup");
    json(orco(&shipped(), &folder.join("taker"), &["backup", backup.to_str().unwrap()]));
    json(orco(&shipped(), &folder.join("giver"), &["learn", &argument("mug", &shots("learn", "mug"))]));
    sync(folder, "giver", &running, &["--share", "mug"]);
    let pack = json(hub(folder, &["list"]))["packs"][0]["digest"].as_str().unwrap().to_owned();
    json(hub(folder, &["release", &pack, "--stage", "all"]));
    for _ in 0..2 {
        assert_eq!(sync(folder, "taker", &running, &[])["imported"], serde_json::json!(["mug"]));
        assert_eq!(sync(folder, "taker", &running, &[])["imported"], serde_json::json!([]));
        json(orco(&shipped(), &folder.join("taker"), &["restore", "--force", backup.to_str().unwrap()]));
    }
}

/// Else an old pack of the channel would count as the device's own: it would stay, and go to the hub as such.
#[test]
fn what_a_backup_brings_back_of_the_channel_is_the_channels() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let running = RunningHub::start(folder);
    enrol(folder, &["giver", "taker"], &running);
    let release = || {
        sync(folder, "giver", &running, &["--share", "*"]);
        let packs = json(hub(folder, &["list"]))["packs"].as_array().unwrap().clone();
        let pack = packs.iter().max_by_key(|pack| pack["shots"].as_u64()).unwrap()["digest"].as_str().unwrap();
        json(hub(folder, &["release", pack, "--stage", "all"]))["releases"][0].to_string()
    };
    let (giver, taker) = (folder.join("giver"), folder.join("taker"));
    json(orco(&shipped(), &giver, &["learn", &argument("mug", &shots("learn", "mug"))]));
    let first = release();
    sync(folder, "taker", &running, &[]);
    let backup = folder.join("taker.orcobackup");
    json(orco(&shipped(), &taker, &["backup", backup.to_str().unwrap()]));
    json(orco(&shipped(), &giver, &["add", &argument("mug", &shots("try", "mug"))]));
    let second = release();
    let restored = || {
        json(orco(&shipped(), &taker, &["restore", "--force", backup.to_str().unwrap()]));
        sync(folder, "taker", &running, &["--share", "*"])
    };
    sync(folder, "taker", &running, &[]);
    let replaced = restored();
    assert_eq!((&replaced["imported"], &replaced["pushed"]), (&serde_json::json!(["mug"]), &serde_json::json!([])));
    [first, second].iter().for_each(|release| drop(json(hub(folder, &["withdraw", release]))));
    assert_eq!(sync(folder, "taker", &running, &[])["forgotten"], serde_json::json!(["mug"]));
    let withdrawn = restored();
    assert_eq!((&withdrawn["forgotten"], &withdrawn["pushed"]), (&serde_json::json!(["mug"]), &serde_json::json!([])));
}

#[test]
fn a_round_with_another_bundle_than_the_states_is_told_which_to_name() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let running = RunningHub::start(folder);
    let state = folder.join("door");
    json(orco(&shipped(), &state, &["learn", &argument("mug", &shots("learn", "mug"))]));
    let code = new_code(folder);
    sync(folder, "door", &running, &["--code", &code]);
    let everyday = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/everyday");
    let refused = orco(&everyday, &state, &["sync", "--hub", &running.url]).output().unwrap();
    assert_refused(&refused, "give that bundle with --bundle");
}

/// Else what it taught and shared would count as the channel's, and go when its release is taken back.
#[test]
fn a_device_that_is_restored_knows_what_it_pushed_on_another_bundle() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let running = RunningHub::start(folder);
    let state = folder.join("giver");
    let code = new_code(folder);
    sync(folder, "giver", &running, &["--code", &code]);
    for label in ["mug", "cactus"] {
        json(orco(&shipped(), &state, &["learn", &argument(label, &shots("learn", label))]));
    }
    sync(folder, "giver", &running, &["--share", "mug", "--share", "cactus"]);
    json(orco(&shipped(), &state, &["forget", "cactus"]));
    let backup = folder.join("giver.orcobackup");
    let backup = backup.to_str().unwrap();
    json(orco(&shipped(), &state, &["backup", backup]));
    let everyday = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/everyday");
    json(orco(&everyday, &state, &["restore", "--force", "--other-bundle", backup]));
    let progress = std::fs::read_to_string(state.join("fleet/progress.json")).unwrap();
    assert!(progress.contains("\"mug\"") && !progress.contains("\"cactus\""), "{progress}");
}

#[cfg(target_os = "linux")]
#[test]
fn silent_callers_leave_the_hub_files_for_what_it_keeps() {
    use std::net::TcpStream;
    use std::os::unix::process::CommandExt;

    use nix::sys::resource::{Resource, setrlimit};

    const LIMIT: u64 = 48;

    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let mut command = hub(folder, &["run", "--listen", "127.0.0.1:0"]);
    let set = || Ok(setrlimit(Resource::RLIMIT_NOFILE, LIMIT, LIMIT)?);
    // SAFETY: setrlimit(2) is safe between fork and exec, and nothing else is called.
    unsafe { command.pre_exec(set) };
    let running = RunningHub::of(command);
    let code = new_code(folder);
    let address = running.url.trim_start_matches("http://");
    let held: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(address).unwrap()).collect();
    sync(folder, "giver", &running, &["--code", &code]);
    // Accepted after all of them.
    let open = std::fs::read_dir(format!("/proc/{}/fd", running.process.id())).unwrap().count();
    assert!(
        open <= LIMIT as usize - 8,
        "{open} of {LIMIT} files are open: some are to be left for the database and objects"
    );
    json(orco(&shipped(), &folder.join("giver"), &["learn", &argument("mug", &shots("learn", "mug"))]));
    let pushed = sync(folder, "giver", &running, &["--share", "mug"]);
    assert_eq!(pushed["pushed"], serde_json::json!(["mug"]));
    drop(held);
}

#[test]
fn a_class_goes_from_one_device_to_another_by_way_of_a_hub() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    assert_refused(&hub(folder, &["list"]).output().unwrap(), "there is no hub in");
    assert!(!folder.join("hub").exists(), "looking for a hub makes none");
    // As where its disk is not mounted.
    std::fs::create_dir(folder.join("hub")).unwrap();
    assert_refused(&hub(folder, &["list"]).output().unwrap(), "there is no hub in");
    std::fs::remove_dir(folder.join("hub")).unwrap();
    let running = RunningHub::start(folder);
    enrol(folder, &["giver", "taker"], &running);
    let mug = argument("mug", &shots("learn", "mug"));
    json(orco(&shipped(), &folder.join("giver"), &["learn", "--keep-shots", &mug]));
    assert_eq!(sync(folder, "giver", &running, &[])["pushed"], serde_json::json!([]), "nothing leaves by itself");
    let nowhere = folder.join("nothing").display().to_string();
    assert_refused(&hub(folder, &["export", &nowhere]).output().unwrap(), "no device shared pictures");
    let is_kept = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("kept-");
    let mut entries = std::fs::read_dir(folder.join("giver")).unwrap().map(Result::unwrap);
    let kept = entries.find(is_kept).unwrap().path();
    std::fs::write(std::fs::read_dir(kept).unwrap().next().unwrap().unwrap().path(), "no picture").unwrap();
    let arguments = ["sync", "--hub", &running.url, "--share", "mug", "--share-pictures", "--json", "-"];
    let pushed = orco(&shipped(), &folder.join("giver"), &arguments).output().unwrap();
    assert!(text(&pushed.stderr).contains("a picture of \"mug\" is not shared"), "{}", text(&pushed.stderr));
    let pushed: Value = serde_json::from_slice(&pushed.stdout).unwrap();
    assert_eq!(pushed["pushed"], serde_json::json!(["mug"]));
    let brought = &sync(folder, "giver", &running, &["--share", "apple"])["warnings"][0];
    assert!(brought.as_str().unwrap().contains("apple came with the bundle"), "{brought}");
    drop(running);

    let running = RunningHub::start(folder);
    let list = json(hub(folder, &["list"]));
    let pack = list["packs"][0]["digest"].as_str().unwrap();
    let listed = text(&hub(folder, &["list"]).output().unwrap().stdout);
    assert!(listed.contains(" bytes, pushed ") && list["packs"][0]["received"].is_i64(), "{listed}");
    assert_refused(&hub(folder, &["release", pack, "--force"]).output().unwrap(), "are for bundles, not for packs");
    json(hub(folder, &["release", pack, "--stage", "all"]));
    let again = hub(folder, &["release", pack]).output().unwrap();
    assert_eq!(text(&again.stdout), "release 1: 100 % of stable\n", "it is the same, at the stage that it has");
    assert_eq!(sync(folder, "taker", &running, &[])["imported"], serde_json::json!(["mug"]));
    assert_eq!(sync(folder, "taker", &running, &[])["imported"], serde_json::json!([]));
    sync(folder, "giver", &running, &[]);
    let list = json(hub(folder, &["list"]));
    assert_eq!((&list["releases"][0]["held"], &list["releases"][0]["devices"]), (&2.into(), &2.into()));
    for place in ["hub", "hub/new"] {
        let place = folder.join(place).display().to_string();
        assert_refused(&hub(folder, &["export", &place]).output().unwrap(), "it is in the hub's folder");
    }
    let result = folder.join("hub/result");
    let arguments = ["list", "--json", result.to_str().unwrap()];
    assert_refused(&hub(folder, &arguments).output().unwrap(), "it is in the hub's folder");
    assert!(!result.exists());
    let fleet = folder.join("taker/fleet");
    let result = fleet.join("result").display().to_string();
    let arguments = ["list", "--fleet", fleet.to_str().unwrap(), "--json", &result];
    let refused = orco(&shipped(), &folder.join("giver"), &arguments).output().unwrap();
    assert_refused(&refused, "it is in the folder of the device's part in a fleet");
    let bundle = shipped().join("pictures").display().to_string();
    assert_refused(&hub(folder, &["export", &bundle]).output().unwrap(), "it is in the bundle's folder");
    let data = folder.join("data");
    json(hub(folder, &["export", data.to_str().unwrap()]));
    assert_eq!(pushed["pictures"], std::fs::read_dir(data.join("mug")).unwrap().count());
    assert_refused(&hub(folder, &["purge", pack]).output().unwrap(), "take it back first");
    json(hub(folder, &["withdraw", "1"]));
    let model = shipped();
    let two = hub(folder, &["release", model.to_str().unwrap(), model.to_str().unwrap()]).output().unwrap();
    assert_refused(&two, "or the folder of one bundle");
    // Devices with a public key would wait in vain for what was never signed.
    for option in [&["--sign", "KEY"][..], &["--merge"], &["--apart"]] {
        let refused = hub(folder, &[&["release", model.to_str().unwrap()], option].concat()).output().unwrap();
        assert_refused(&refused, "a bundle is signed before it is released");
    }
    json(hub(folder, &["purge", &pack[..8].to_uppercase()]));
    assert_eq!(json(hub(folder, &["list"]))["packs"], serde_json::json!([]));

    // What is purged on a device goes from its part in the fleet, wherever that lies.
    let elsewhere = folder.join("fleet-of-taker");
    std::fs::rename(folder.join("taker/fleet"), &elsewhere).unwrap();
    let names_mug = || {
        let paths = std::fs::read_dir(&elsewhere).unwrap().map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.is_file())
            .any(|path| std::fs::read(path).unwrap().windows(3).any(|part| part == b"mug"))
    };
    assert!(names_mug());
    let arguments = ["forget", "mug", "--purge", "--fleet", elsewhere.to_str().unwrap()];
    json(orco(&shipped(), &folder.join("taker"), &arguments));
    assert!(!names_mug());
}
