//! `orco bench`: a row for every bundle and engine, and sentences where one cannot be measured.

use crate::support::{Device, key, shipped, sign, text, workspace};

#[test]
fn every_bundle_and_engine_has_its_row() {
    let device = Device::new();
    let small = workspace().join("models/cifar100-small");
    let bundles = [shipped(), small].map(|path| path.to_str().unwrap().to_owned());
    let found = device.json(&["bench", &bundles[0], &bundles[1], "--frames", "5", "--engine", "rten"]);
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{found:#}");
    for (row, bundle) in rows.iter().zip(["cifar100-edge", "cifar100-small"]) {
        assert_eq!((row["bundle"].as_str(), row["engine"].as_str()), (Some(bundle), Some("rten")));
        let figures = &row["figures"];
        for name in ["p50", "p95", "engine_p50", "rate", "learned"] {
            assert!(figures[name].as_f64().unwrap() > 0.0, "{name}: {row}");
        }
        assert!(figures["p50"].as_f64() <= figures["p95"].as_f64(), "{row}");
        for name in ["around_p50", "around_live_p50", "around_place_p50"] {
            assert!(figures[name].is_f64(), "{name}: {row}");
        }
        assert!(row["start_seconds"].as_f64().unwrap() > 0.0);
        assert!(cfg!(not(target_os = "linux")) || figures["memory"].as_u64().unwrap() > 1 << 20, "{row}");
    }
    assert!(device.state_files().is_empty(), "the device's own state was touched");
}

#[test]
fn what_cannot_be_measured_is_said_and_the_rest_is_measured() {
    let device = Device::new();
    let bundle = shipped();
    let arguments = ["bench", "/nowhere/bundle", bundle.to_str().unwrap(), "--frames", "1", "--engine", "rten"];
    let output = device.command(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("error: bundle with rten: "), "{}", text(&output.stderr));
    assert!(text(&output.stdout).lines().any(|line| line.starts_with("cifar100-edge ")), "{}", text(&output.stdout));
    // Without a bundle named, those beside the device's are measured; without ONNX Runtime, rten alone.
    for wrong in [["--frames", "0"], ["--size", "640"]] {
        assert_eq!(device.command(&["bench", wrong[0], wrong[1]]).output().unwrap().status.code(), Some(2));
    }
}

#[test]
fn frames_too_small_for_a_place_are_measured_without_one() {
    let device = Device::new();
    let bundle = shipped();
    let bundle = bundle.to_str().unwrap();
    let found = device.json(&["bench", bundle, "--frames", "1", "--size", "16x16", "--engine", "rten"]);
    let figures = &found["rows"][0]["figures"];
    assert!(figures["around_live_p50"].is_f64() && figures["around_place_p50"].is_null(), "{found:#}");
}

#[test]
fn only_signed_bundles_are_measured_where_a_key_is_configured() {
    let mut device = Device::with_own_bundle();
    let ours = key(device.folder.path(), "ours");
    device.options = vec!["--public-key".into(), ours.public.to_str().unwrap().into()];
    let bundle = device.bundle.to_str().unwrap();
    let arguments = ["bench", bundle, "--frames", "1", "--engine", "rten"];
    let output = device.command(&arguments).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(said.contains("error: bundle with rten: ") && said.contains("it is not signed"), "{said}");
    sign(&device.bundle, &ours.key);
    let found = device.json(&arguments);
    assert!(found["rows"][0]["figures"]["p50"].as_f64().unwrap() > 0.0, "{found:#}");
}

#[test]
fn the_bundle_in_this_folder_is_found_with_those_beside_it() {
    let device = Device::with_own_bundle();
    let here = Device { bundle: ".".into(), folder: tempfile::TempDir::new().unwrap(), options: Vec::new() };
    let mut command = here.command(&["bench", "--frames", "1", "--engine", "rten", "--json", "-"]);
    let output = command.current_dir(&device.bundle).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(1), "{found:#}");
    assert_eq!(found["rows"][0]["bundle"], "bundle");
}
