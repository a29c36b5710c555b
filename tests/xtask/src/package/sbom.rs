//! What a package is made of, as CycloneDX: crates by cargo-cyclonedx, then what Cargo does not know.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::build_date::{self, BuildDate};
use crate::environment::workspace;
use crate::library::ONNX_RUNTIME_VERSION;
use crate::process::run;
use crate::tool::CARGO_CYCLONEDX;

/// Name of the files, before `.json`; git ignores them.
const NAME: &str = "orco.cdx";

/// Writes the bill of materials of the program for a target, with ONNX Runtime and the bundle.
///
/// # Errors
/// If cargo-cyclonedx cannot be had or fails, or a file cannot be written.
pub fn write(metadata: &Value, triple: &str, date: &BuildDate, file: &Path) -> Result<(), Box<dyn Error>> {
    let app = workspace().join("runtime/app/Cargo.toml");
    let mut command = Command::new(CARGO_CYCLONEDX.locate()?);
    command.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5", "--no-build-deps"]);
    command.args(["--override-filename", NAME, "--target", triple, "--manifest-path"]).arg(&app);
    // Without a time it makes up a serial number.
    command.env(build_date::VARIABLE, date.seconds().to_string());
    run(command.current_dir(workspace()))?;
    let name = format!("{NAME}.json");
    let text = fs::read_to_string(app.with_file_name(&name))?;
    // It writes one beside every member of the workspace.
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        if Path::new(manifest).starts_with(workspace()) {
            let _ = fs::remove_file(Path::new(manifest).with_file_name(&name));
        }
    }
    Ok(fs::write(file, completed(&text, &workspace().to_string_lossy())?)?)
}

/// The bill with what else is in the package, and without the folder of this checkout.
fn completed(text: &str, checkout: &str) -> Result<String, Box<dyn Error>> {
    let mut bill: Value = serde_json::from_str(&text.replace(checkout, ""))?;
    let components = bill["components"].as_array_mut().ok_or("cargo-cyclonedx lists no components")?;
    components.push(json!({
        "type": "library", "bom-ref": "onnxruntime", "name": "onnxruntime", "version": ONNX_RUNTIME_VERSION,
        "purl": format!("pkg:pypi/onnxruntime@{ONNX_RUNTIME_VERSION}"), "scope": "optional",
        "licenses": [{ "license": { "id": "MIT" } }],
    }));
    components.push(json!({
        "type": "machine-learning-model", "bom-ref": "everyday", "name": "everyday",
        "version": env!("CARGO_PKG_VERSION"), "scope": "optional", "licenses": [{ "license": { "id": "Apache-2.0" } }],
    }));
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_holds_what_cargo_does_not_know_and_no_folder() {
        let text = r#"{"components": [{"purl": "pkg:cargo/orco@0.1.0?download_url=file:///home/me/orco/runtime"}]}"#;
        let bill = completed(text, "/home/me/orco").unwrap();
        assert!(bill.contains("onnxruntime") && bill.contains("everyday") && !bill.contains("/home/me"), "{bill}");
        assert!(completed("{}", "/x").is_err());
    }
}
