//! The file of settings: its precedence, and what is refused.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{assert_refused, shots, text, workspace};

/// What the package sets: the rest of its file is commented out.
const PACKAGED: [(&str, &str); 3] = [
    ("bundle", "/usr/share/orco/models/everyday"),
    ("state", "/var/lib/orco/state"),
    ("token-file", "/var/lib/orco/token"),
];

/// The program with a file of settings, and nothing else that says anything.
fn orco(file: Option<&Path>, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco"));
    command.args(arguments).env_remove("RUST_LOG");
    let ours = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ORCO_"));
    for (name, _) in ours {
        command.env_remove(name);
    }
    // A machine may have a file of its own.
    let nothing = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support/nothing.toml");
    command.env("ORCO_CONFIG", file.unwrap_or(&nothing));
    command
}

fn settings(command: &mut Command) -> Value {
    let output = command.args(["config", "--json", "-"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn file(content: &str) -> (TempDir, std::path::PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("orco.toml");
    fs::write(&path, content).unwrap();
    (folder, path)
}

fn defaults() -> String {
    let output = orco(None, &["config", "--defaults"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn precedence_is_command_line_environment_file_default() {
    let (_folder, path) =
        file("engine = \"rten\"\nhistory = 7\nwait = 0.5\nlisten = \"127.0.0.1:1\"\nhost-name = [\"a\", \"b\"]\n");
    let at =
        |found: &Value, key: &str| (found["settings"][key]["value"].clone(), found["settings"][key]["from"].clone());
    let shown = path.to_str().unwrap();
    let found = settings(&mut orco(Some(&path), &[]));
    assert_eq!(found["file"], shown);
    for (key, value) in [
        ("engine", Value::from("rten")),
        ("history", 7.into()),
        ("wait", 0.5.into()),
        ("listen", "127.0.0.1:1".into()),
        ("host-name", vec!["a", "b"].into()),
    ] {
        assert_eq!(at(&found, key), (value, shown.into()), "{key}");
    }
    assert_eq!(at(&found, "bundle"), ("models/everyday".into(), "default".into()));
    let found = settings(orco(Some(&path), &["--history", "9"]).env("ORCO_HISTORY", "8").env("ORCO_LISTEN", "[::1]:2"));
    assert_eq!(at(&found, "history"), (9.into(), "command line".into()));
    assert_eq!(at(&found, "listen"), ("[::1]:2".into(), "ORCO_LISTEN".into()));
    // An empty variable says nothing.
    let found = settings(orco(Some(&path), &[]).env("ORCO_HISTORY", ""));
    assert_eq!(at(&found, "history"), (7.into(), shown.into()));
}

#[test]
fn commands_take_their_settings_from_the_file() {
    let (folder, path) = file("");
    let state = folder.path().join("state");
    let bundle = workspace().join("models/cifar100-edge");
    fs::write(&path, format!("bundle = {bundle:?}\nstate = {state:?}\nthreads = 1\nengine = \"rten\"\n")).unwrap();
    let output = orco(Some(&path), &["info", "--json", "-"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((info["bundle"].as_str(), info["state"].as_str()), (Some("cifar100-edge"), state.to_str()));
    assert_eq!(info["engine_reason"], "it was asked for");
    // Those of one verb, too.
    fs::write(&path, "listen = \"0.0.0.0:0\"\n").unwrap();
    let served =
        orco(Some(&path), &["serve", "--bundle", bundle.to_str().unwrap(), "--state", state.to_str().unwrap()]);
    // An empty variable does not stand in their way.
    assert_refused(
        &{ served }.env("ORCO_LISTEN", "").output().unwrap(),
        "0.0.0.0:0 can be reached from other machines",
    );
    fs::write(&path, "certificate = \"cert.pem\"\n").unwrap();
    assert_refused(&orco(Some(&path), &["serve"]).output().unwrap(), "--key FILE");
}

#[test]
fn settings_of_the_service_change_no_option_of_their_name_in_other_verbs() {
    let (folder, path) = file(
        "region = [\"shelf=0,0,1,0.5\"]\nlisten = \"127.0.0.1:1\"\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n\
         sign = \"secret.key\"\n",
    );
    let result = |file: Option<&Path>, state: &str, arguments: &[&str]| {
        let mut command = orco(file, arguments);
        command.args(["--engine", "rten", "--json", "-", "--bundle"]).arg(workspace().join("models/cifar100-edge"));
        let output = command.arg("--state").arg(folder.path().join(state)).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        let mut result: Value = serde_json::from_slice(&output.stdout).unwrap();
        result["seconds"].take();
        result
    };
    let (duck, picture) = (shots("learn", "rubber-duck"), shots("try", "rubber-duck").join("1.jpg"));
    for arguments in [["learn", duck.to_str().unwrap()], ["classify", picture.to_str().unwrap()]] {
        let [with_file, without] =
            [(Some(&*path), "one"), (None, "other")].map(|(file, state)| result(file, state, &arguments));
        assert_eq!(with_file, without, "{arguments:?}");
    }

    let hub = |file: Option<&Path>, arguments: &[&str]| {
        let mut command = orco(file, &["hub", "run", "--listen", "127.0.0.1:0", "--hub-folder"]);
        command.arg(folder.path().join("hub")).args(arguments).stdout(Stdio::piped());
        command
    };
    let mut running = hub(Some(&path), &[]).spawn().unwrap();
    let said = BufReader::new(running.stdout.take().unwrap()).lines().next();
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(said.as_ref().is_some_and(|line| line.as_ref().unwrap().contains("http://127.0.0.1:")), "{said:?}");
    for alone in ["--certificate", "--key"] {
        assert_eq!(hub(Some(&path), &[alone, "x.pem"]).output().unwrap().status.code(), Some(2), "{alone}");
    }
}

#[test]
fn what_is_not_understood_is_refused_with_what_to_do() {
    for (content, expected) in [
        ("engin = \"rten\"", "\"engin\" is not known; did you mean \"engine\"?"),
        ("token_file = \"x\"", "did you mean \"token-file\"?"),
        ("zzzz = 1", "\"zzzz\" is not known; `orco config --defaults` shows all"),
        // "forgetting-budget" is the nearest, and not meant.
        ("port = 80", "\"port\" is not known; `orco config --defaults` shows all"),
        ("config = \"x\"", "\"config\" is not known"),
        ("bundle = \"\"", "bundle = \"\": it is empty: give a value, or take the line away"),
        ("state = \"~/state\"", "state = \"~/state\": only a shell expands ~: give the whole path"),
        ("state = \"~\"", "state = \"~\": only a shell expands ~"),
        ("host-name = [\"door\", \"a b\"]", "expected the name of a host alone"),
        ("listen = \"door3:8080\"", "such as 127.0.0.1:8080"),
        ("engine = \"torch\"", "engine = \"torch\": expected auto or onnxruntime or rten"),
        ("wait = \"long\"", "expected a number of seconds"),
        ("threads = 0", "expected a number from 1"),
        ("listen = 8080", "listen = 8080: "),
        ("history = -1", "history = -1: expected a whole number"),
        ("inbox = 1.5", "inbox = 1.5: expected a whole number"),
        ("sightings = false", "sightings = false: expected a text or a number, not true or false"),
        ("share = [true]", "share = [true]: expected a text or a number, not true or false"),
        ("[serve]\nlisten = \"127.0.0.1:1\"", "\"serve\" is not known"),
        ("bundle = [\"a\", \"b\"]", "expected a text or a number"),
        ("\n\nengine = rten", "line 3: "),
        ("engine = \"rten\"\nengine = \"rten\"", "line 2: "),
    ] {
        let (_folder, path) = file(content);
        let output = orco(Some(&path), &["list"]).output().unwrap();
        assert_refused(&output, expected);
        assert_refused(&output, path.to_str().unwrap());
    }
    // The log of a service has its errors.
    for content in ["camera = \"rtps://me:geheim@door/1\"", "camera = [\"rtsp://me:geheim@door/1\"]"] {
        let (_folder, path) = file(content);
        let output = orco(Some(&path), &["serve"]).output().unwrap();
        assert_refused(&output, "camera: ");
        assert!(!text(&output.stderr).contains("geheim"), "{}", text(&output.stderr));
    }
    let (folder, path) = file("");
    // As Windows writes "ü", and where it writes UTF-16.
    for bytes in [&b"mqtt-name = \"T\xfcr\"\n"[..], b"\xff\xfea\0=\x001\0"] {
        fs::write(&path, bytes).unwrap();
        assert_refused(&orco(Some(&path), &["list"]).output().unwrap(), "no text in UTF-8: save them in that encoding");
    }
    assert_refused(&orco(Some(folder.path()), &["list"]).output().unwrap(), "it is a folder");
    assert_refused(&orco(Some(&folder.path().join("none")), &["list"]).output().unwrap(), "cannot read the settings");
}

#[test]
fn every_default_is_what_the_commented_file_says() {
    let commented = defaults();
    let none = settings(&mut orco(None, &[]));
    let mut keys = 0;
    // With its comments taken away, the file says what counts without it.
    let mut uncommented = String::new();
    for line in commented.lines().filter(|line| line.starts_with('#') && line.contains(" = ")) {
        let line = line.trim_start_matches('#');
        let Some((key, _)) = line.split_once(" = ").filter(|(key, _)| !key.contains(' ')) else { continue };
        let setting = &none["settings"][key];
        assert!(!setting.is_null(), "{key} is no setting");
        keys += 1;
        if !setting["value"].is_null() {
            uncommented += line;
            uncommented.push('\n');
        }
    }
    assert_eq!(keys, none["settings"].as_object().unwrap().len());
    let (_folder, path) = file(&uncommented);
    let read = settings(&mut orco(Some(&path), &[]));
    for (key, setting) in none["settings"].as_object().unwrap() {
        assert_eq!(read["settings"][key]["value"], setting["value"], "{key}");
    }
}

/// After an option was added: `ORCO_WRITE_SETTINGS=1 cargo test -p orco --test it config::`.
#[test]
fn the_shipped_file_is_the_commented_one_with_what_the_package_sets() {
    let mut expected = defaults();
    for (key, value) in PACKAGED {
        let line = expected.lines().find(|line| line.starts_with(&format!("#{key} = "))).unwrap().to_owned();
        expected = expected.replace(&line, &format!("{key} = \"{value}\""));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/orco.toml");
    if std::env::var_os("ORCO_WRITE_SETTINGS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let shipped = fs::read_to_string(&path).unwrap();
    assert!(
        shipped == expected,
        "write it anew: ORCO_WRITE_SETTINGS=1 cargo test -p orco --test it config::\n{expected}"
    );
    let read = settings(&mut orco(Some(&path), &[]));
    for (key, value) in PACKAGED {
        assert_eq!(read["settings"][key]["value"], value);
    }
}

#[test]
fn a_hub_in_the_file_is_one_that_sync_asks() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("orco.toml");
    let state = folder.path().join("state");
    let sync = |file: &Path| {
        let output = orco(Some(file), &["sync", "--state", state.to_str().unwrap()]).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    fs::write(&file, "").unwrap();
    let (code, said) = sync(&file);
    assert!(code == Some(1) && said.contains("name the fleet's hub with --hub URL"), "{said}");
    fs::write(&file, "hub = \"http://127.0.0.1:1\"\n").unwrap();
    let (code, said) = sync(&file);
    assert!(code == Some(1) && !said.contains("--hub URL"), "{said}");
}

#[test]
fn a_switch_is_on_or_off_and_nothing_else() {
    let switch = |text: &str| {
        let found = settings(orco(None, &[]).env("ORCO_KEEP_SHOTS", text));
        found["settings"]["keep-shots"]["value"].clone()
    };
    for (text, value) in [("on", true), ("1", true), ("YES", true), ("off", false), ("0", false), ("", false)] {
        assert_eq!(switch(text), value, "{text:?}");
    }
    // The verb itself reads them alike: what stops it is a bundle that is not there.
    for variable in ["ORCO_MQTT_PICTURES", "ORCO_PHONE", "ORCO_NO_THUMBNAILS"] {
        let served = orco(None, &["serve", "--bundle", "/nowhere"]).env(variable, "1").output().unwrap();
        assert_eq!(served.status.code(), Some(1), "{variable}: {}", text(&served.stderr));
    }
    let maybe = orco(None, &["learn", "mug=nowhere"]).env("ORCO_KEEP_SHOTS", "maybe").output().unwrap();
    assert_eq!(
        (maybe.status.code(), text(&maybe.stderr).contains("maybe")),
        (Some(2), true),
        "{}",
        text(&maybe.stderr)
    );
    let shown = orco(None, &["config"]).env("ORCO_KEEP_SHOTS", "maybe").output().unwrap();
    assert_eq!((shown.status.code(), text(&shown.stderr)), (Some(2), text(&maybe.stderr)));
}
