//! The Debian package: built by cargo-deb from `[package.metadata.deb]` in runtime/app, after what Cargo does not build
//! - ONNX Runtime, the licences of everything inside - was put beside the program.

pub mod trial;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cache::Cache;
use crate::cross::{Cross, TRIPLE};
use crate::environment::cargo;
use crate::environment::workspace;
use crate::library::{ONNX_RUNTIME, ONNX_RUNTIME_LICENCES};
use crate::process::{output, run};

/// The release that the package was tried with.
const CARGO_DEB: &str = "3.8.0";

/// What is packed.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Build profile of the program
    #[arg(long, default_value = "release")]
    pub profile: String,
    /// Target triple
    ///
    /// aarch64-unknown-linux-gnu is built in a Debian that this makes in the cache, which needs root and mmdebstrap.
    /// For others, this machine must have compiler and linker, and ORT_DYLIB_PATH name an ONNX Runtime.
    #[arg(long)]
    pub target: Option<String>,
    /// Version of the package, where it is not that of the program
    #[arg(long)]
    pub deb_version: Option<String>,
    /// Compress less, in less time
    #[arg(long)]
    pub fast: bool,
}

/// Builds the package and returns its path.
///
/// # Errors
/// If a program cannot be started or fails, or a file cannot be written.
pub fn build(arguments: &Arguments) -> Result<PathBuf, Box<dyn Error>> {
    let metadata = output(cargo().args(["metadata", "--format-version", "1", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let of_metadata = metadata["target_directory"].as_str().ok_or("cargo metadata names no target folder")?;
    let is_cross = arguments.target.as_deref() == Some(TRIPLE) && cfg!(not(target_arch = "aarch64"));
    let cross = is_cross.then(Cross::set_up).transpose()?;
    let target = cross.as_ref().map_or(Path::new(of_metadata), Cross::target);
    let triple = arguments.target.iter().flat_map(|triple| ["--target", triple.as_str()]);
    let profile = ["--profile", &arguments.profile];
    let mut command = match &cross {
        Some(cross) => cross.command(&[], &["cargo"]),
        None => cargo(),
    };
    command.args(["build", "--locked", "--package", "orco"]).args(profile).args(triple.clone());
    run(command.current_dir(workspace()))?;

    let built = arguments.target.as_ref().map_or(target.to_owned(), |triple| target.join(triple));
    let built = built.join(folder_of(&arguments.profile));
    let stage = built.join("package");
    if stage.exists() {
        fs::remove_dir_all(&stage)?;
    }
    let licences = stage.join("licences");
    fs::create_dir_all(&licences)?;
    let onnx_runtime = match &cross {
        Some(cross) => cross.onnx_runtime().to_owned(),
        None if arguments.target.is_some() && std::env::var_os("ORT_DYLIB_PATH").is_none() => {
            return Err(
                "name the target's libonnxruntime.so in ORT_DYLIB_PATH: the one in the cache is this machine's".into(),
            );
        }
        None => ONNX_RUNTIME.locate()?,
    };
    fs::copy(onnx_runtime, stage.join("libonnxruntime.so"))?;
    let of_onnx_runtime = ONNX_RUNTIME_LICENCES.locate()?;
    for (name, kept) in [("LICENSE", "onnxruntime"), ("ThirdPartyNotices.txt", "onnxruntime-third-party")] {
        fs::copy(of_onnx_runtime.join(name), licences.join(kept))?;
    }
    let of_crates = licences_of_crates(&metadata, triple.clone())?;
    fs::write(licences.join("crates"), of_crates)?;

    let packages = target.join("debian");
    fs::create_dir_all(&packages)?;
    let cargo_deb = std::path::absolute(cargo_deb()?)?;
    let mut command = match &cross {
        // There it finds out what the program is linked to.
        Some(cross) => {
            let folder = cargo_deb.parent().unwrap_or(Path::new("/"));
            cross.command(&[folder], &[cargo_deb.to_str().ok_or("cargo-deb's path is no text")?])
        }
        None => Command::new(cargo_deb),
    };
    command.args(["--package", "orco", "--no-build", "--no-dbgsym", "--output"]).arg(&packages).args(profile);
    command.args(triple).args(arguments.deb_version.iter().flat_map(|version| ["--deb-version", version.as_str()]));
    command.args(arguments.fast.then_some("--fast"));
    let packed = output(command.current_dir(workspace()))?;
    let path = packed.lines().last().filter(|path| path.ends_with(".deb")).ok_or("cargo-deb named no package")?;
    Ok(path.into())
}

/// Cargo's folder for what it builds with a profile.
pub fn folder_of(profile: &str) -> &str {
    if profile == "dev" { "debug" } else { profile }
}

/// cargo-deb: `ORCO_CARGO_DEB`, else the one in the cache, into which Cargo builds it if it is not there.
fn cargo_deb() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(own) = std::env::var_os("ORCO_CARGO_DEB").filter(|own| !own.is_empty()) {
        return Ok(own.into());
    }
    let folder = Cache::of_user()?.path(&format!("cargo-deb-{CARGO_DEB}"));
    let program = folder.join("bin/cargo-deb");
    if !program.is_file() {
        let mut command = cargo();
        // xz is called as a program: Debian always has it.
        command.args(["install", "cargo-deb", "--locked", "--no-default-features", "--version", CARGO_DEB, "--root"]);
        run(command.arg(&folder))?;
    }
    Ok(program)
}

/// The licences of all crates that are in the program, each text once, under the crates that it goes for.
fn licences_of_crates<'a>(metadata: &Value, triple: impl Iterator<Item = &'a str>) -> Result<String, Box<dyn Error>> {
    let mut command = cargo();
    command.args(["tree", "--locked", "--package", "orco", "--edges", "normal", "--prefix", "none"]).args(triple);
    let tree = output(command.args(["--format", "{p}"]).current_dir(workspace()))?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let mut inside: Vec<&str> = tree.lines().collect();
    inside.sort_unstable();
    inside.dedup();
    for line in inside {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next(), words.next().and_then(|version| version.strip_prefix('v')));
        let same = |package: &&Value| package["name"].as_str() == name && package["version"].as_str() == version;
        // Licences of our own are in files of their own.
        let Some(package) = packages.iter().find(same).filter(|package| !package["source"].is_null()) else { continue };
        let licence = package["license"].as_str().unwrap_or("see its text");
        let title = format!("{} {}: {licence}", name.unwrap_or_default(), version.unwrap_or_default());
        let manifest = Path::new(package["manifest_path"].as_str().ok_or("a package has no manifest")?);
        let files = licence_files(manifest.parent().unwrap_or(manifest))?;
        if files.is_empty() {
            texts.entry(String::new()).or_default().push(title.clone());
        }
        for text in files {
            texts.entry(text).or_default().push(title.clone());
        }
    }
    let rule = "-".repeat(100);
    let one =
        |(text, titles): (String, Vec<String>)| format!("{}\n\n{}\n\n{rule}\n", titles.join("\n"), text.trim_end());
    Ok(texts.into_iter().map(one).collect())
}

fn licence_files(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file()
            && ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
                .iter()
                .any(|word| name.starts_with(word))
    };
    let text = |path: PathBuf| Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned());
    paths.into_iter().filter(is_licence).map(text).collect()
}
