//! `orco bench`: a row for every bundle and engine, and sentences where one cannot be measured.

use crate::support::{Device, shipped, text, workspace};

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
