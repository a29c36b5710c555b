//! `orco-train keygen` and `orco-train sign`, on a copy of the shipped bundle.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use orco_runtime::bundle::{Bundle, OpenError};
use orco_runtime::signature::PublicKey;

fn copied_bundle(folder: &Path) -> PathBuf {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/cifar100-edge");
    let copy = folder.join("bundle");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(shipped).unwrap() {
        let path = entry.unwrap().path();
        // Its report is no part of it.
        if path.is_file() {
            fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
        }
    }
    copy
}

fn program(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orco-train")).args(arguments).output().unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = program(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

fn refused(arguments: &[&str], expected: &str) {
    let output = program(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: ") && said.contains(expected), "{said}");
}

#[test]
fn a_bundle_is_signed_in_place_and_its_release_rises() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = copied_bundle(folder.path());
    let key = folder.path().join("orco.key");
    let [bundle_path, key_path] = [&bundle, &key].map(|path| path.to_str().unwrap());
    succeeds(&["keygen", key_path]);
    refused(&["keygen", key_path], &format!("cannot write the key: {key_path} exists already"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let public = PublicKey::read(folder.path().join("orco.key.pub")).unwrap();
    assert!(matches!(Bundle::open_trusted(&bundle, Some(&public)), Err(OpenError::Signature { .. })));

    let before = fs::read(bundle.join("manifest.toml")).unwrap();
    succeeds(&["sign", bundle_path, "--key", key_path]);
    assert_eq!(fs::read(bundle.join("manifest.toml")).unwrap(), before, "without a release the manifest stays");
    let opened = Bundle::open_trusted(&bundle, Some(&public)).unwrap();
    assert_eq!(opened.manifest.release, 0);

    succeeds(&["sign", bundle_path, "--key", key_path, "--release", "2"]);
    let manifest = Bundle::open_trusted(&bundle, Some(&public)).unwrap().manifest;
    assert_eq!(manifest.release, 2);
    assert_eq!(orco_runtime::manifest::Manifest { release: 0, ..manifest }, opened.manifest, "nothing else changed");
    let signature = fs::read_to_string(bundle.join("manifest.toml.minisig")).unwrap();
    assert!(signature.contains("trusted comment: orco bundle cifar100-edge release 2\n"), "{signature}");
    let warned = succeeds(&["sign", bundle_path, "--key", key_path, "--release", "1"]);
    assert!(warned.contains("release 1 is below 2"), "{warned}");

    // A damaged bundle is not signed, not even where opening does not look.
    let benchmark = bundle.join("benchmark.postcard");
    let mut bytes = fs::read(&benchmark).unwrap();
    bytes[5000] ^= 1;
    fs::write(&benchmark, bytes).unwrap();
    refused(&["sign", bundle_path, "--key", key_path], "benchmark.postcard is damaged");
    refused(
        &["sign", bundle_path, "--key", bundle.join("labels.txt").to_str().unwrap()],
        "cannot be used as a secret key: it is damaged, or no key of minisign's",
    );
    refused(&["sign", "/nowhere", "--key", key_path], "cannot read /nowhere/manifest.toml");
}

/// A limit on the size of files stands for a disk that is full.
#[cfg(unix)]
#[test]
fn a_manifest_that_cannot_be_written_keeps_its_signature() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = copied_bundle(folder.path());
    let key = folder.path().join("orco.key");
    let [bundle_path, key_path] = [&bundle, &key].map(|path| path.to_str().unwrap());
    succeeds(&["keygen", key_path]);
    succeeds(&["sign", bundle_path, "--key", key_path]);
    let files = || ["manifest.toml", "manifest.toml.minisig"].map(|name| fs::read(bundle.join(name)).unwrap());
    let before = files();
    let limited = Command::new("sh")
        .args(["-c", "ulimit -f 2; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_orco-train")])
        .args(["sign", bundle_path, "--key", key_path, "--release", "2"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&limited.stderr);
    assert_eq!(limited.status.code(), Some(1), "{said}");
    assert!(said.contains("manifest.toml: File too large"), "{said}");
    assert_eq!(files(), before);
    let names = fs::read_dir(&bundle).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with('.')).count(), 0, "something was left behind");
}
