//! What a package is made of, as CycloneDX: crates by cargo-cyclonedx, then what Cargo does not know.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::build_date::{self, BuildDate};
use crate::environment::workspace;
use crate::library::ONNX_RUNTIME_VERSION;
use crate::metadata::Metadata;
use crate::process::must_run;
use crate::tool::CARGO_CYCLONEDX;

/// Manifest of the bundle in the package.
const BUNDLE: &str = "models/everyday/manifest.toml";
/// Name of the files, before `.json`; git ignores them.
const NAME: &str = "orco.cdx";

/// Writes the bill of materials of the package of a folder, built for a target, with what else is beside its crates.
///
/// # Errors
/// If cargo-cyclonedx cannot be had or fails, or a file cannot be written.
pub fn write(
    metadata: &Metadata,
    package: &Path,
    triple: &str,
    date: &BuildDate,
    beside: Vec<Value>,
    file: &Path,
) -> Result<(), Box<dyn Error>> {
    let manifest = package.join("Cargo.toml");
    let mut command = Command::new(CARGO_CYCLONEDX.locate()?);
    command.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5", "--no-build-deps"]);
    command.args(["--override-filename", NAME, "--target", triple, "--manifest-path"]).arg(&manifest);
    // Without a time it makes up a serial number.
    command.env(build_date::VARIABLE, date.seconds().to_string());
    must_run(command.current_dir(workspace()))?;
    let name = format!("{NAME}.json");
    let text = fs::read_to_string(manifest.with_file_name(&name))?;
    // It writes one beside every member of the workspace.
    for member in metadata.packages() {
        let manifest = member["manifest_path"].as_str().ok_or("a package has no manifest")?;
        let _ = fs::remove_file(Path::new(manifest).with_file_name(&name));
    }
    Ok(fs::write(file, completed(&text, &workspace().to_string_lossy(), beside)?)?)
}

/// The bill with what else is in the package, and without the folder of this checkout.
fn completed(text: &str, checkout: &str, beside: Vec<Value>) -> Result<String, Box<dyn Error>> {
    let mut bill: Value = serde_json::from_str(&text.replace(checkout, ""))?;
    let components = bill["components"].as_array_mut().ok_or("cargo-cyclonedx lists no components")?;
    components.extend(beside);
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

/// ONNX Runtime.
pub fn onnx_runtime() -> Value {
    json!({
        "type": "library", "bom-ref": "onnxruntime", "name": "onnxruntime", "version": ONNX_RUNTIME_VERSION,
        "purl": format!("pkg:pypi/onnxruntime@{ONNX_RUNTIME_VERSION}"), "scope": "optional",
        "licenses": [{ "license": { "id": "MIT" } }],
    })
}

/// The bundle in the Debian package. What it is, its files' digests say: only a bundle that is signed for a fleet has a
/// number of its own (`release`).
///
/// # Errors
/// If its manifest cannot be read.
pub fn model() -> Result<Value, Box<dyn Error>> {
    model_of(&fs::read_to_string(workspace().join(BUNDLE))?)
}

fn model_of(manifest: &str) -> Result<Value, Box<dyn Error>> {
    let manifest: toml::Table = toml::from_str(manifest)?;
    let name = manifest.get("name").and_then(|name| name.as_str()).ok_or("the bundle has no name")?;
    let files = manifest.get("files").and_then(|files| files.as_table()).ok_or("the bundle lists no files")?;
    let file = |(name, digest): (&String, &toml::Value)| json!({ "type": "file", "name": name, "hashes": [{ "alg": "SHA-256", "content": digest.as_str() }] });
    let packed = files.iter().filter(|(name, _)| *name != "benchmark.postcard").map(file);
    let mut model = json!({
        "type": "machine-learning-model", "bom-ref": name, "name": name, "scope": "optional",
        "licenses": [{ "license": { "id": "Apache-2.0" } }], "components": packed.collect::<Vec<_>>(),
    });
    if let Some(release) = manifest.get("release").and_then(|release| release.as_integer()) {
        model["version"] = release.to_string().into();
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_holds_what_cargo_does_not_know_and_no_folder() {
        let text = r#"{"components": [{"purl": "pkg:cargo/orco@0.1.0?download_url=file:///home/me/orco/runtime"}]}"#;
        let bill = completed(text, "/home/me/orco", vec![onnx_runtime(), model().unwrap()]).unwrap();
        assert!(bill.contains("onnxruntime") && bill.contains("everyday") && !bill.contains("/home/me"), "{bill}");
        assert!(completed("{}", "/x", Vec::new()).is_err());
    }

    #[test]
    fn a_model_is_told_by_its_files_and_has_the_version_of_its_release_alone() {
        let files = "[files]\n\"a.onnx\" = \"0f\"\n\"benchmark.postcard\" = \"1e\"\n";
        let model = model_of(&format!("name = \"mine\"\n{files}")).unwrap();
        assert_eq!((&model["name"], &model["version"]), (&json!("mine"), &Value::Null));
        let hashes = json!([{ "alg": "SHA-256", "content": "0f" }]);
        assert_eq!(model["components"], json!([{ "type": "file", "name": "a.onnx", "hashes": hashes }]));
        assert_eq!(model_of(&format!("name = \"mine\"\nrelease = 7\n{files}")).unwrap()["version"], "7");
        assert!(model_of("name = \"mine\"").is_err());
    }
}
