//! `orco doctor`: what it finds, and that it fails where something must be mended.

#![cfg(unix)]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use orco_trials::skipped;
use orco_trials::tmpfs::TmpfsMount;
use serde_json::Value;

use crate::support::{Device, shots, text};

/// Runs the doctor; whether it found nothing to mend, and what it found.
fn examined(device: &Device, arguments: &[&str]) -> (bool, Value) {
    // Any free port but 8080, which somebody may have.
    let command = [&["doctor", "--listen", "127.0.0.1:0", "--json", "-"], arguments].concat();
    let output = device.command(&command).output().unwrap();
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", text(&output.stderr));
    (output.status.success(), serde_json::from_slice(&output.stdout).unwrap())
}

/// How much must be mended, but for ONNX Runtime: it may be broken on a developer's machine, all else is the test's
/// own.
fn wrongs(found: &(bool, Value)) -> usize {
    let findings = found.1["findings"].as_array().unwrap().iter();
    findings.filter(|finding| finding["level"] == "wrong" && finding["subject"] != "ONNX Runtime").count()
}

/// Asserts that something is found about a subject.
fn assert_finds(found: &(bool, Value), subject: &str, level: &str, said: &str) {
    let findings = found.1["findings"].as_array().unwrap();
    let fits = |finding: &&Value| {
        finding["subject"] == subject
            && finding["level"] == level
            && finding["text"].as_str().is_some_and(|text| text.contains(said))
    };
    assert!(findings.iter().any(|finding| fits(&finding)), "no {level} {subject} \"{said}\" in {:#}", found.1);
    assert!(level != "wrong" || !found.0, "it did not fail");
}

#[test]
fn a_sound_device_has_nothing_to_mend() {
    let device = Device::new();
    let found = examined(&device, &["--engine", "rten"]);
    assert_eq!(wrongs(&found), 0, "{:#}", found.1);
    assert_finds(&found, "state", "good", "made with the first change");
    // A folder that holds no state yet, as a service's before it was taught.
    fs::create_dir(device.state()).unwrap();
    fs::set_permissions(device.state(), Permissions::from_mode(0o700)).unwrap();
    assert_finds(&examined(&device, &["--engine", "rten"]), "knowledge", "good", "nothing was saved yet");
    device.learn(&[("mug", &shots("learn", "mug"))]);
    let found = examined(&device, &["--engine", "rten"]);
    assert_eq!(wrongs(&found), 0, "{:#}", found.1);
    for (subject, said) in [
        ("bundle", "cifar100-edge"),
        ("knowledge", "learned classes: 1; both copies can be read"),
        ("state", "this user's alone"),
        ("lock", "free"),
        ("rten", "runs the backbone"),
        ("port", "is free"),
    ] {
        assert_finds(&found, subject, "good", said);
    }
    // People read the same.
    let output = device.command(&["doctor", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert!(text(&output.stdout).lines().any(|line| line.starts_with("ok     bundle        cifar100-edge")));
}

#[test]
fn what_is_broken_is_named_with_what_to_do() {
    let device = Device::with_own_bundle();
    device.learn(&[("mug", &shots("learn", "mug"))]);
    let slot = device.state().join("slot-a");
    let whole = fs::read(&slot).unwrap();
    fs::write(&slot, &whole[..whole.len() / 2]).unwrap();
    assert_finds(&examined(&device, &[]), "knowledge", "wrong", "slot-a is left out");
    fs::write(&slot, &whole).unwrap();

    for (name, subject, said) in
        [("background", "empty place", "show it again"), ("regions", "regions", "draw them again")]
    {
        let path = device.state().join(name);
        fs::write(&path, b"no such file\n").unwrap();
        assert_finds(&examined(&device, &[]), subject, "wrong", said);
        fs::remove_file(path).unwrap();
    }

    fs::set_permissions(device.state(), Permissions::from_mode(0o777)).unwrap();
    assert_finds(&examined(&device, &[]), "state", "wrong", "chmod 700");
    fs::set_permissions(device.state(), Permissions::from_mode(0o700)).unwrap();

    let labels = device.bundle.join("labels.txt");
    let before = fs::read(&labels).unwrap();
    fs::write(&labels, b"other\n").unwrap();
    assert_finds(&examined(&device, &[]), "bundle", "wrong", "labels.txt");
    fs::write(&labels, before).unwrap();

    let library = device.folder.path().join("libonnxruntime.so");
    fs::write(&library, b"no library").unwrap();
    let doctor = |arguments: &[&str]| {
        let command = [&["doctor", "--json", "-"], arguments].concat();
        let output = device.command(&command).env("ORT_DYLIB_PATH", &library).output().unwrap();
        (output.status.success(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    assert_finds(&doctor(&[]), "ONNX Runtime", "wrong", "it is no shared library");
    // Advice that was followed is not given again.
    assert_finds(&doctor(&["--engine", "rten"]), "ONNX Runtime", "note", "does without it");
}

#[test]
#[cfg(target_os = "linux")]
fn a_state_that_cannot_be_made_is_named_and_nothing_is_left_where_it_can() {
    let device = Device::new();
    let found = examined(&device, &["--state", "/proc/orco/state"]);
    assert_finds(&found, "state", "wrong", "cannot be made");
    assert_finds(&found, "disk", "note", "does not tell how much room is left");
    let nothing = device.folder.path().join("nothing");
    fs::create_dir(&nothing).unwrap();
    let state = nothing.join("state");
    assert_finds(&examined(&device, &["--state", state.to_str().unwrap()]), "state", "good", "made with the first");
    assert_eq!(fs::read_dir(&nothing).unwrap().count(), 0);
    // The same for a state whose path begins where the program runs.
    for (runs_in, level, said) in [("/proc", "wrong", "cannot be made"), ("/tmp", "good", "made with the first")] {
        let command = ["doctor", "--listen", "127.0.0.1:0", "--json", "-", "--state", "orco-state-of-no-device"];
        let output = device.command(&command).current_dir(runs_in).output().unwrap();
        let found = (output.status.success(), serde_json::from_slice::<Value>(&output.stdout).unwrap());
        assert_finds(&found, "state", level, said);
        assert!(found.1.to_string().contains("\"disk\""), "how much room is left: {:#}", found.1);
    }
    // Nothing is made behind a link to a disk that is not mounted.
    let link = device.folder.path().join("link");
    std::os::unix::fs::symlink("/no/disk/state", &link).unwrap();
    for (option, subject) in [("--state", "state"), ("--sightings", "sightings")] {
        let found = examined(&device, &[option, link.to_str().unwrap()]);
        let once = format!("{} is a link that leads nowhere", link.display());
        assert_finds(&found, subject, "wrong", &once);
        let mut findings = found.1["findings"].as_array().unwrap().iter();
        let begins = |finding: &Value| finding["text"].as_str().is_some_and(|text| text.starts_with(&once));
        assert!(findings.any(begins), "the link is named twice: {:#}", found.1);
        assert!(found.1.to_string().contains("\"disk\""), "how much room is left: {:#}", found.1);
    }
    // Nor are a token and sightings made where nobody can make anything.
    for (option, subject) in [("--token-file", "token"), ("--sightings", "sightings")] {
        assert_finds(&examined(&device, &[option, "/proc/orco"]), subject, "wrong", "/proc/orco cannot be made");
    }
}

#[test]
fn a_service_for_phones_has_nothing_to_mend_before_it_runs_and_while_it_does() {
    let device = Device::new();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let doctor = || {
        let arguments = ["doctor", "--phone", "--listen", &address, "--engine", "rten", "--json", "-"];
        let output = device.command(&arguments).output().unwrap();
        (output.status.success(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let found = doctor();
    assert_eq!(wrongs(&found), 0, "{:#}", found.1);
    assert_finds(&found, "token", "note", "state.phone/token is made when the service starts");
    assert_finds(&found, "certificate", "note", "state.phone/certificate.pem is made when the service starts");
    assert_finds(&found, "port", "good", "is free");

    let mut command = device.command(&["--engine", "rten", "serve", "--phone", "--listen", &address]);
    let mut service = command.stdout(Stdio::piped()).spawn().unwrap();
    let invited = BufReader::new(service.stdout.take().unwrap()).lines().any(|line| line.unwrap().contains("#token="));
    let found = doctor();
    service.kill().unwrap();
    service.wait().unwrap();
    assert!(invited);
    assert_eq!(wrongs(&found), 0, "{:#}", found.1);
    assert_finds(&found, "token", "good", "its owner's alone");
    assert_finds(&found, "certificate", "good", "valid until");
    assert_finds(&found, "port", "good", "a service answers on");
}

#[test]
fn port_token_and_certificate_are_checked() {
    let device = Device::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    // Whoever connects is let go at once: no service of ours.
    let address = taken.local_addr().unwrap().to_string();
    std::thread::spawn(move || taken.incoming().for_each(drop));
    let doctor = |arguments: &[&str]| {
        let output = device.command(&[&["doctor", "--json", "-"], arguments].concat()).output().unwrap();
        (output.status.success(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    assert_finds(&doctor(&["--listen", &address]), "port", "wrong", "is taken by another program");
    let open = doctor(&["--listen", "0.0.0.0:0"]);
    assert_finds(&open, "token", "wrong", "--token-file FILE");
    assert_finds(&open, "certificate", "note", "others on the network can read the token");

    let token = device.folder.path().join("token");
    let named = ["--token-file", token.to_str().unwrap()];
    assert_finds(&examined(&device, &named), "token", "note", "is made when the service starts");
    fs::write(&token, "0".repeat(64)).unwrap();
    fs::set_permissions(&token, Permissions::from_mode(0o644)).unwrap();
    assert_finds(&examined(&device, &named), "token", "wrong", "chmod 600");
    fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    assert_finds(&examined(&device, &named), "token", "good", "its owner's alone");
    assert_finds(&examined(&device, &["--token-file", "/nowhere/token"]), "token", "wrong", "no folder /nowhere");

    let now = time::OffsetDateTime::now_utc();
    let day = time::Duration::DAY;
    for (from, to, level, said) in [
        (now - 2 * day, now - day, "wrong", "ended on"),
        (now + day, now + 2 * day, "wrong", "is the clock right?"),
        (now - day, now + 2 * day, "note", "take a new one soon"),
        (now - day, now + 400 * day, "good", "valid until"),
    ] {
        let (certificate, key) = (device.folder.path().join("cert.pem"), device.folder.path().join("key.pem"));
        let pair = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        (parameters.not_before, parameters.not_after) = (from, to);
        fs::write(&certificate, parameters.self_signed(&pair).unwrap().pem()).unwrap();
        fs::write(&key, pair.serialize_pem()).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let tls = ["--certificate", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
        assert_finds(&examined(&device, &tls), "certificate", level, said);
        fs::write(&key, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
        assert_finds(&examined(&device, &tls), "certificate", "wrong", "certificate and its key cannot be used");
        assert_finds(&examined(&device, &tls[..2]), "certificate", "wrong", "without its key");
    }
}

/// Settings with which the service does not start, or sees and reports nothing.
#[test]
fn what_the_settings_of_the_service_name_is_checked() {
    let device = Device::new();
    let path = |name: &str| device.folder.path().join(name).to_str().unwrap().to_owned();
    let rule = "[[rule]]\nlabel = \"mug\"\ncommand = [\"/bin/true\"]\n";
    fs::write(path("good.toml"), rule).unwrap();
    fs::write(path("bad.toml"), format!("{rule}after = 1\n")).unwrap();
    for (name, program) in [("missing.toml", path("missing")), ("plain.toml", path("good.toml"))] {
        fs::write(path(name), rule.replace("/bin/true", &program)).unwrap();
    }
    fs::write(path("line.toml"), "[[rule]]\nlabel = \"mug\"\ngpio = { chip = \"/dev/gpio-0\", line = 1 }\n").unwrap();
    for folder in ["foreign", "fresh"] {
        fs::create_dir(path(folder)).unwrap();
    }
    fs::write(path("foreign/holiday.jpg"), "a user's").unwrap();
    let camera = |name: &str| format!("folder:{}", path(name));
    for (arguments, subject, level, said) in [
        (["--rules", &path("bad.toml")], "rules", "wrong", "unknown field `after`"),
        (["--rules", &path("nowhere")], "rules", "wrong", "cannot read"),
        (["--rules", &path("good.toml")], "rules", "good", "1 rule"),
        (["--rules", &path("missing.toml")], "rules", "wrong", "no program that this user may start"),
        (["--rules", &path("plain.toml")], "rules", "wrong", "no program that this user may start"),
        (["--rules", &path("line.toml")], "rules", "wrong", "gpio"),
        (["--sightings", &path("foreign")], "sightings", "wrong", "it holds other files"),
        (["--sightings", &path("good.toml")], "sightings", "wrong", "it is a file"),
        (["--sightings", &path("fresh")], "sightings", "good", "are kept in"),
        (["--sightings", &path("nowhere")], "sightings", "note", "is made when the service starts"),
        (["--region", "a=0,0,1,0.5;a=0,0.5,1,0.5"], "regions", "wrong", "two regions have one name"),
        (["--region", "a=0,0,1,0.5;b=0,0.5,1,0.5"], "regions", "good", "2 regions"),
        (["--camera", "/dev/video-nowhere"], "camera", "wrong", "/dev/video-nowhere is not there"),
        (["--camera", "v4l2:/dev/null"], "camera", "good", "is there"),
        (["--camera", &camera("nowhere")], "camera", "wrong", "make the folder"),
        (["--camera", &camera("good.toml")], "camera", "wrong", "is no folder"),
        (["--camera", &camera("fresh")], "camera", "good", "is there"),
        (["--camera", "http://door3/stream"], "camera", "note", "not tried"),
        (["--rules", &path("good.toml")], "camera", "note", "none: no rule acts"),
        (["--sightings", &path("fresh")], "camera", "note", "nothing is seen"),
    ] {
        assert_finds(&examined(&device, &arguments), subject, level, said);
    }
    assert_eq!(fs::read_dir(path("fresh")).unwrap().count(), 0, "nothing is left there");
    assert!(!fs::exists(path("nowhere")).unwrap());
}

#[test]
#[cfg(feature = "mqtt")]
fn a_broker_is_there_if_its_port_answers() {
    let device = Device::new();
    let broker = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mqtt://{}", broker.local_addr().unwrap());
    let arguments = ["--mqtt-broker", &url, "--mqtt-id", "door3"];
    assert_finds(&examined(&device, &arguments), "MQTT", "good", "answers, and is told as \"door3\"; its port alone");
    drop(broker);
    assert_finds(&examined(&device, &arguments), "MQTT", "wrong", "does not answer");
}

#[test]
#[cfg(feature = "hub")]
fn an_address_that_no_hub_can_have_is_refused_by_those_that_use_it_alone() {
    let mut device = Device::new();
    let file = device.folder.path().join("orco.toml").to_str().unwrap().to_owned();
    fs::write(&file, "hub = \"hub:8090\"\n").unwrap();
    device.options = vec!["--config".to_owned(), file.clone()];
    let why = "hub = \"hub:8090\": expected http:// or https:// and a host";
    assert_finds(&examined(&device, &[]), "settings", "wrong", why);
    device.refused(&["sync"], why);
    // Who names another one on the command line is asked for the next thing.
    device.refused(&["sync", "--hub", "http://127.0.0.1:1"], "this device is not enrolled");
    let found = device.json(&["config"]);
    let hub = &found["settings"]["hub"];
    assert_eq!((hub["value"].as_str(), hub["from"].as_str()), (Some("hub:8090"), Some(file.as_str())));
    let picture = shots("try", "mug").join("1.jpg");
    for arguments in [&["list"][..], &["classify", "--engine", "rten", picture.to_str().unwrap()]] {
        device.json(arguments);
    }
    // As some browsers show it.
    fs::write(&file, "hub = \"http://127.0.0.1:1/#\"\n").unwrap();
    device.refused(&["sync"], "without ? or #");
    fs::write(&file, "hub = \"http://127.0.0.1:80900\"\n").unwrap();
    device.refused(&["sync"], "the address has no port from 1 to 65535 after its colon");
}

/// Else nobody sees that a device reports no more, unless somebody looks at the hub.
#[test]
#[cfg(feature = "hub")]
fn a_hub_that_cannot_be_reached_is_found() {
    let device = Device::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_finds(&examined(&device, &["--hub", &url]), "hub", "wrong", "the hub cannot be reached");
    let missing = device.folder.path().join("hub.pem").to_str().unwrap().to_owned();
    let arguments = ["--hub", &url, "--hub-ca-file", &missing];
    assert_finds(&examined(&device, &arguments), "hub", "wrong", "hub.pem cannot be read");
}

#[test]
fn a_disk_without_files_to_come_or_that_is_read_only_is_not_blamed_on_rights() {
    let Some(mounted) = TmpfsMount::new("size=64m,nr_inodes=8") else {
        return skipped("disks without files to come (mounting needs root)");
    };
    let device = Device::new();
    let state = mounted.path().join("state");
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
    let doctor = || examined(&device, &["--state", state.to_str().unwrap()]);
    assert_finds(&doctor(), "disk", "wrong", "more files");
    let count = (0..8).take_while(|number| fs::write(mounted.path().join(number.to_string()), b"").is_ok()).count();
    assert!(count < 8, "there are inodes left");
    assert_finds(&doctor(), "state", "wrong", "cannot be written: No space left on device");
    mounted.remount("ro");
    assert_finds(&doctor(), "state", "wrong", "cannot be written: Read-only file system");
    assert_finds(&doctor(), "disk", "wrong", "is read-only");
}

#[test]
fn a_state_whose_disk_takes_an_empty_file_alone_cannot_be_written() {
    let Some(mounted) = TmpfsMount::new("size=1m") else {
        return skipped("a state on a full disk (mounting needs root)");
    };
    let state = mounted.path().join("state");
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
    mounted.fill();
    let found = examined(&Device::new(), &["--state", state.to_str().unwrap()]);
    assert_finds(&found, "state", "wrong", "cannot be written: No space left on device");
}

#[test]
fn sightings_on_a_full_disk_are_found() {
    let Some(mounted) = TmpfsMount::new("size=1m") else {
        return skipped("sightings on a full disk (mounting needs root)");
    };
    let sightings = mounted.path().join("sightings");
    fs::create_dir(&sightings).unwrap();
    mounted.fill();
    let found = examined(&Device::new(), &["--sightings", sightings.to_str().unwrap()]);
    assert_finds(&found, "sightings", "wrong", "is full; make room");
}

#[test]
fn a_service_for_ipv6_alone_is_found() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        return skipped("a service for IPv6 alone (this machine has none)");
    };
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let request = BufReader::new(&stream).lines().map_while(Result::ok);
            request.take_while(|line| !line.is_empty()).for_each(drop);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let device = Device::new();
    let listen = format!("[::]:{port}");
    let output = device.command(&["doctor", "--listen", &listen, "--json", "-"]).output().unwrap();
    let found = (output.status.success(), serde_json::from_slice(&output.stdout).unwrap());
    assert_finds(&found, "port", "good", "a service answers on");
}
