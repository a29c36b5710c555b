//! Where a public key is configured, only the bundle that was signed runs, and none older than one used before.

use std::fs;
use std::path::Path;

use orco_runtime::signature::SecretKey;
use tempfile::TempDir;

use crate::support::service::Service;
use crate::support::{self, Device, argument, copied_bundle, key, minisign, shots, sign};

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Gives the bundle's manifest a release number, unsigned.
fn release(bundle: &Path, number: u32) {
    let manifest = bundle.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("release = "));
    let name = "name = \"cifar100-edge\"";
    let lines: Vec<String> = lines.map(|line| line.replace(name, &format!("{name}\nrelease = {number}"))).collect();
    fs::write(manifest, lines.join("\n") + "\n").unwrap();
}

#[test]
fn only_what_was_signed_with_the_configured_key_is_opened() {
    let mut trial = orco_trials::trial!(8, "refusals");
    let folder = TempDir::new().unwrap();
    let (ours, theirs) = (key(folder.path(), "ours"), key(folder.path(), "theirs"));
    let bundle = copied_bundle(folder.path());
    let mut device = Device::on(bundle.clone());
    assert_eq!(device.json(&["info"])["signature_checked"], false);
    device.options = vec!["--public-key".into(), path(&ours.public).into()];
    let not_signed = "manifest.toml is not trusted: it is not signed, but a public key is configured";
    for verb in [&["info"][..], &["list"], &["demo"], &["classify", "x.jpg"], &["forget", "x"]] {
        device.refused(verb, not_signed);
        trial.count(1);
    }
    let mug = argument("mug", &shots("learn", "mug"));
    device.refused(&["learn", &mug], not_signed);

    sign(&bundle, &theirs.key);
    device.refused(&["info"], "it is signed with another key than the configured one");
    sign(&bundle, &ours.key);
    assert_eq!(device.json(&["info"])["signature_checked"], true);
    device.json(&["learn", &mug]);

    let manifest = bundle.join("manifest.toml");
    let good = fs::read_to_string(&manifest).unwrap();
    let signature = fs::read_to_string(bundle.join("manifest.toml.minisig")).unwrap();
    // A changed file is noticed by its digest, a digest changed with it by the signature.
    let labels = bundle.join("labels.txt");
    let listed = fs::read_to_string(&labels).unwrap();
    let digest = |text: &str| orco_runtime::manifest::hexadecimal(&orco_state::codec::digest(text.as_bytes()));
    let renamed = listed.replace("apple", "bomb");
    fs::write(&labels, &renamed).unwrap();
    device.refused(&["list"], "labels.txt is damaged");
    fs::write(&manifest, good.replace(&digest(&listed), &digest(&renamed))).unwrap();
    device.refused(&["list"], "it was altered after signing");
    fs::write(&labels, &listed).unwrap();
    // Nothing of a manifest is believed before its signature, not even that it is one.
    fs::write(&manifest, "format = = 1").unwrap();
    device.refused(&["list"], "it was altered after signing");
    fs::write(&manifest, &good).unwrap();
    for damaged in ["", "no signature", &signature[..signature.len() / 2], &signature.replace("release 0", "release 9")]
    {
        fs::write(bundle.join("manifest.toml.minisig"), damaged).unwrap();
        device.refused(&["list"], "manifest.toml is not trusted: its signature");
        trial.count(1);
    }
    for garbage in [vec![0xff; 99], vec![b'x'; 1 << 16]] {
        fs::write(bundle.join("manifest.toml.minisig"), garbage).unwrap();
        device.refused(&["list"], "manifest.toml is not trusted: its signature is not one of minisign's");
        trial.count(1);
    }
    // A signature that was made for another bundle's name does not do, even over this manifest.
    fs::write(bundle.join("manifest.toml.minisig"), ours.key.sign(good.as_bytes(), "timestamp:1").unwrap()).unwrap();
    device.refused(&["list"], "says \"timestamp:1\" instead of \"orco bundle cifar100-edge release 0\"");
    fs::write(bundle.join("manifest.toml.minisig"), &signature).unwrap();
    assert_eq!(device.json(&["info"])["learned_classes"], 1);

    device.options[1] = "/nowhere/key.pub".into();
    device.refused(&["list"], "cannot read the key /nowhere/key.pub");
    device.options[1] = path(&labels).into();
    device.refused(&["list"], "labels.txt cannot be used as a public key: it is damaged, or no key");
    device.options[1] = path(&ours.secret).into();
    device.refused(&["list"], "cannot be used as a public key: it is a secret key");
    // By the environment, too.
    device.options.clear();
    let output = device.command(&["list"]).env("ORCO_PUBLIC_KEY", &theirs.public).output().unwrap();
    assert!(!output.status.success());
    assert!(support::text(&output.stderr).contains("it is signed with another key"));
}

#[test]
fn an_older_release_than_one_used_before_is_refused() {
    let folder = TempDir::new().unwrap();
    let ours = key(folder.path(), "ours");
    let bundle = copied_bundle(folder.path());
    let mut device = Device::on(bundle.clone());
    device.options = vec!["--public-key".into(), path(&ours.public).into()];
    let install = |number: u32| {
        release(&bundle, number);
        sign(&bundle, &ours.key);
    };
    sign(&bundle, &ours.key);
    let mug = argument("mug", &shots("learn", "mug"));
    device.json(&["learn", &mug]);
    let remembered = |device: &Device| device.state_files().remove("releases.toml");
    assert!(remembered(&device).is_none(), "release 0 is not worth remembering");
    // Reading verbs compare only.
    install(3);
    assert_eq!(device.json(&["info"])["release"], 3);
    assert!(remembered(&device).is_none(), "a reading verb wrote");
    device.json(&["rename", "mug", "beaker"]);
    let three = remembered(&device).unwrap();
    device.json(&["list"]);
    device.json(&["rename", "beaker", "mug"]);
    assert_eq!(remembered(&device).unwrap(), three);
    install(2);
    device.refused(&["list"], "the bundle cifar100-edge is release 2, but this device has used release 3");
    // An unsigned claim of a higher one is neither believed nor remembered.
    release(&bundle, 9);
    device.refused(&["list"], "it was altered after signing");
    device.refused(&["rename", "mug", "beaker"], "it was altered after signing");
    // Nor where no key is configured, whatever the verb.
    release(&bundle, u32::MAX);
    let options = std::mem::take(&mut device.options);
    device.json(&["list"]);
    device.json(&["rename", "mug", "beaker"]);
    assert_eq!(remembered(&device).unwrap(), three);
    device.options = options;
    install(4);
    device.json(&["rename", "beaker", "mug"]);
    install(3);
    device.refused(&["rename", "mug", "beaker"], "this device has used release 4");
    device.refused(&["list"], "this device has used release 4");
    // A service that starts, or a backup that is made, with a release has used it.
    install(5);
    drop(Service::of(device.command(&["--engine", "rten", "serve", "--listen", "127.0.0.1:0"])));
    install(4);
    device.refused(&["list"], "this device has used release 5");
    install(6);
    device.json(&["backup", path(&folder.path().join("six"))]);
    install(5);
    device.refused(&["list"], "this device has used release 6");
    install(4);
    // A device that never saw release 4 takes it.
    let mut other = Device::on(bundle.clone());
    other.options = device.options.clone();
    other.json(&["list"]);
}

#[test]
fn the_tool_minisign_signs_for_the_device_and_checks_what_is_signed_here() {
    let folder = TempDir::new().unwrap();
    let ours = key(folder.path(), "ours");
    let bundle = copied_bundle(folder.path());
    let (manifest, signature) = (bundle.join("manifest.toml"), bundle.join("manifest.toml.minisig"));
    sign(&bundle, &ours.key);
    if !minisign(&["-V", "-p", path(&ours.public), "-m", path(&manifest)]) {
        return;
    }
    fs::remove_file(&signature).unwrap();
    let comment = "orco bundle cifar100-edge release 0";
    minisign(&["-S", "-s", path(&ours.secret), "-m", path(&manifest), "-t", comment]);
    let mut device = Device::on(bundle.clone());
    device.options = vec!["--public-key".into(), path(&ours.public).into()];
    assert_eq!(device.json(&["info"])["signature_checked"], true);
    // A key of the tool's own.
    let (secret, public) = (folder.path().join("tool.key"), folder.path().join("tool.pub"));
    minisign(&["-G", "-W", "-p", path(&public), "-s", path(&secret)]);
    minisign(&["-S", "-s", path(&secret), "-m", path(&manifest), "-t", comment]);
    device.options[1] = path(&public).into();
    assert_eq!(device.json(&["info"])["signature_checked"], true);
    // And with that key it can be signed here.
    sign(&bundle, &SecretKey::read(&secret).unwrap());
    assert_eq!(device.json(&["info"])["signature_checked"], true);
    minisign(&["-V", "-p", path(&public), "-m", path(&manifest)]);
}

#[test]
fn a_backup_is_signed_and_takes_the_releases_that_were_used_with_it() {
    let folder = TempDir::new().unwrap();
    let (ours, theirs) = (key(folder.path(), "ours"), key(folder.path(), "theirs"));
    let bundle = copied_bundle(folder.path());
    let trusting = || {
        let mut device = Device::on(bundle.clone());
        device.options = vec!["--public-key".into(), path(&ours.public).into()];
        device
    };
    let install = |number: u32| {
        release(&bundle, number);
        sign(&bundle, &ours.key);
    };
    install(2);
    let device = trusting();
    device.json(&["learn", &argument("mug", &shots("learn", "mug"))]);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [unsigned, signed, by_another_key] = ["unsigned", "signed", "by_another_key"].map(file);
    assert_eq!(device.json(&["backup", &unsigned])["signed"], false);
    assert_eq!(device.json(&["backup", &signed, "--sign", path(&ours.secret)])["signed"], true);
    let by_environment =
        device.command(&["backup", &by_another_key]).env("ORCO_SECRET_KEY", &theirs.secret).output().unwrap();
    assert!(by_environment.status.success());
    device.refused(&["backup", &file("none"), "--sign", "/nowhere/key"], "cannot read the key /nowhere/key");
    assert!(!folder.path().join("none").exists());

    let refused = |file: &str, expected: &str| {
        let other = trusting();
        other.refused(&["restore", file], expected);
        assert!(!other.state().exists(), "what was refused left a folder");
    };
    refused(
        &unsigned,
        "it is not signed, but a public key is configured; nothing was changed: `orco backup --sign KEY`",
    );
    refused(&by_another_key, "it is signed with another key than the configured one");
    let mut altered = fs::read(&signed).unwrap();
    let middle = altered.len() / 2;
    altered[middle] ^= 1;
    fs::write(file("altered"), &altered).unwrap();
    refused(&file("altered"), "its checksum does not match");

    // A restored device has used what the one that was backed up had.
    let other = trusting();
    other.json(&["restore", &signed]);
    assert_eq!(other.saved(), device.saved());
    install(1);
    for verb in [&["list"][..], &["rename", "mug", "beaker"], &["restore", &signed, "--force"]] {
        other.refused(verb, "is release 1, but this device has used release 2");
    }
    // One that has used nothing yet refuses an older release, too, by what the backup says.
    refused(&signed, "is release 1, but this device has used release 2; older releases are refused");
    // The floor is that of whoever has the higher one.
    install(5);
    let newer = trusting();
    newer.json(&["learn", &argument("cactus", &shots("learn", "cactus"))]);
    newer.json(&["restore", &signed, "--force"]);
    install(4);
    newer.refused(&["list"], "this device has used release 5");

    // Without a key a backup is one as any other, signed or not; what it says was used is remembered all the same. So
    // one that was not signed can be signed elsewhere.
    install(2);
    let workshop = Device::on(bundle.clone());
    workshop.json(&["restore", &unsigned]);
    let again = file("again");
    workshop.json(&["backup", &again, "--sign", path(&ours.secret)]);
    let last = trusting();
    last.json(&["restore", &again]);
    assert_eq!(last.saved(), device.saved());
    install(1);
    last.refused(&["list"], "this device has used release 2");
}
