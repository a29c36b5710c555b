//! The Debian package: built by cargo-deb from `[package.metadata.deb]` in runtime/app, after what Cargo does not build
//! was put beside the program: manual pages and completions, ONNX Runtime, the licences of everything inside, Debian's
//! changelog. `cargo xtask test reproducible` compares two builds of one commit in different folders; in the program,
//! LLVM once laid out some stack frames in another order (docs/src/journal/2026-11-26-same-package.md).

pub mod build_date;
mod changelog;
pub mod notice;
pub mod program;
pub mod sbom;
pub mod trial;

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::build_date::BuildDate;
use crate::cross::{Cross, TRIPLE};
use crate::environment::{remove_folder, workspace};
use crate::library::{ONNX_RUNTIME, ONNX_RUNTIME_LICENCES};
use crate::metadata::Metadata;
use crate::process::{must_run, output};
use crate::test_packages;
use crate::tool::CARGO_DEB;

/// The program's package, in the workspace.
const PROGRAM: &str = "runtime/app";
/// Where licences of what is no crate are, as its notice says it.
const OTHER_LICENCES: &str =
    "ONNX Runtime's licence and notices are in licences/onnxruntime and licences/onnxruntime-third-party.";
/// The program's version.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

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
    /// Have lintian check the package; as root, it is installed if it is missing
    #[arg(long)]
    pub lint: bool,
}

impl Arguments {
    /// What a release holds: this machine's package, checked.
    pub fn of_release() -> Self {
        Self { profile: "release".to_owned(), target: None, deb_version: None, fast: false, lint: true }
    }
}

/// What [`build`] makes.
#[derive(Debug)]
pub struct Package {
    /// The Debian package.
    pub deb: PathBuf,
    /// Its bill of materials, CycloneDX as JSON.
    pub sbom: PathBuf,
}

/// Builds the package and, beside it, its bill of materials.
///
/// # Errors
/// If a program cannot be started or fails, a file cannot be written, or lintian finds something.
pub fn build(arguments: &Arguments) -> Result<Package, Box<dyn Error>> {
    let metadata = Metadata::read()?;
    let of_metadata = metadata.target_folder()?;
    let is_cross = arguments.target.as_deref() == Some(TRIPLE) && cfg!(not(target_arch = "aarch64"));
    let cross = is_cross.then(Cross::set_up).transpose()?;
    let target = cross.as_ref().map_or(of_metadata.as_path(), Cross::target);
    let (triple, profile) = (arguments.target.as_deref(), arguments.profile.as_str());
    let date = BuildDate::find()?;
    program::build(cross.as_ref(), triple, profile, target, &date)?;

    let built = triple.map_or(target.to_owned(), |triple| target.join(triple)).join(folder_of(profile));
    let stage = built.join("package");
    remove_folder(&stage)?;
    fs::create_dir_all(&stage)?;
    generate(cross.as_ref(), &built.join("orco"), &stage)?;
    copy_onnx_runtime(arguments, cross.as_ref(), &stage)?;
    let for_triple = triple.map_or_else(program::host, |triple| Ok(triple.to_owned()))?;
    let program = workspace().join(PROGRAM);
    notice::write(&program, &for_triple, Some(OTHER_LICENCES), &stage.join("NOTICE"))?;
    let version = arguments.deb_version.clone().unwrap_or_else(|| format!("{RELEASE}-1"));
    let maintainer = maintainer(&metadata)?;
    write_changelog(&stage, &version, &maintainer, &date)?;
    let pages = fs::read_dir(stage.join("man1"))?.map(|page| Ok(page?.path())).collect::<io::Result<Vec<_>>>()?;
    compress(&pages)?;

    let packages = target.join("debian");
    fs::create_dir_all(&packages)?;
    let cargo_deb = std::path::absolute(CARGO_DEB.locate()?)?;
    let mut command = match &cross {
        // There it finds out what the program is linked to.
        Some(cross) => {
            let folder = cargo_deb.parent().unwrap_or(Path::new("/"));
            cross.command(&[folder], &[cargo_deb.to_str().ok_or("cargo-deb's path is no text")?])
        }
        None => Command::new(cargo_deb),
    };
    // Cargo has stripped the program.
    command.args(["--package", "orco", "--no-build", "--no-dbgsym", "--no-strip", "--profile", profile]);
    command.args(["--deb-version", &version, "--maintainer", &maintainer, "--output"]).arg(&packages);
    command.args(triple.iter().flat_map(|triple| ["--target", triple]));
    command.args(arguments.fast.then_some("--fast")).env(build_date::VARIABLE, date.seconds().to_string());
    let packed = output(command.current_dir(workspace()))?;
    let path = packed.lines().last().filter(|path| path.ends_with(".deb")).ok_or("cargo-deb named no package")?;
    let deb = PathBuf::from(path);
    let sbom = deb.with_extension("cdx.json");
    let beside = vec![sbom::onnx_runtime(), sbom::model()?];
    sbom::write(&metadata, &program, &for_triple, &date, beside, &sbom)?;
    if arguments.lint {
        lint(&deb)?;
    }
    Ok(Package { deb, sbom })
}

/// Writes Debian's changelog, compressed.
fn write_changelog(stage: &Path, version: &str, maintainer: &str, date: &BuildDate) -> Result<(), Box<dyn Error>> {
    let changes = fs::read_to_string(workspace().join("CHANGELOG.md"))?;
    let path = stage.join("changelog.Debian");
    fs::write(&path, changelog::of(&changes, RELEASE, version, maintainer, date)?)?;
    compress(&[path])
}

/// Compresses files as Debian wants them, without name and time, so that the same content gives the same bytes.
///
/// # Errors
/// If gzip fails.
pub fn compress(files: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    must_run(Command::new("gzip").args(["-9", "--no-name"]).args(files))
}

/// Has the program write its manual pages and completions.
fn generate(cross: Option<&Cross>, program: &Path, stage: &Path) -> Result<(), Box<dyn Error>> {
    let mut command = match cross {
        Some(cross) => cross.command(&[], &[program.to_str().ok_or("the program's path is no text")?]),
        None => Command::new(program),
    };
    output(command.arg("generate").arg(stage)).map(drop)
}

/// Puts ONNX Runtime and its licences where cargo-deb takes them.
fn copy_onnx_runtime(arguments: &Arguments, cross: Option<&Cross>, stage: &Path) -> Result<(), Box<dyn Error>> {
    let onnx_runtime = match cross {
        Some(cross) => cross.onnx_runtime().to_owned(),
        None if arguments.target.is_some() && std::env::var_os("ORT_DYLIB_PATH").is_none() => {
            return Err(
                "name the target's libonnxruntime.so in ORT_DYLIB_PATH: the one in the cache is this machine's".into(),
            );
        }
        None => ONNX_RUNTIME.locate()?,
    };
    fs::copy(onnx_runtime, stage.join("libonnxruntime.so"))?;
    let licences = stage.join("licences");
    fs::create_dir_all(&licences)?;
    let of_onnx_runtime = ONNX_RUNTIME_LICENCES.locate()?;
    for (name, kept) in [("LICENSE", "onnxruntime"), ("ThirdPartyNotices.txt", "onnxruntime-third-party")] {
        fs::copy(of_onnx_runtime.join(name), licences.join(kept))?;
    }
    Ok(())
}

/// How the address ends that stands for none (RFC 2606).
const PLACEHOLDER: &str = ".invalid>";

/// Refuses to go on if nobody answers for the package.
///
/// # Errors
/// If the maintainer is the placeholder.
pub fn demand_maintainer(metadata: &Metadata) -> Result<(), Box<dyn Error>> {
    if maintainer(metadata)?.ends_with(PLACEHOLDER) {
        return Err("name in DEBFULLNAME and DEBEMAIL who answers for the package".into());
    }
    Ok(())
}

/// Refuses to go on if the changelog calls the version unreleased.
///
/// # Errors
/// If it does, or does not list it.
pub fn demand_date(version: &str) -> Result<(), Box<dyn Error>> {
    changelog::demand_date(&fs::read_to_string(workspace().join("CHANGELOG.md"))?, version)
}

/// Who answers for the package: DEBFULLNAME and DEBEMAIL, as Debian's tools take them, else `maintainer` of
/// `[package.metadata.deb]`.
///
/// # Errors
/// If only one of the two is set, or there is no maintainer.
fn maintainer(metadata: &Metadata) -> Result<String, Box<dyn Error>> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (set("DEBFULLNAME"), set("DEBEMAIL")) {
        (Some(name), Some(address)) => return Ok(format!("{name} <{address}>")),
        (None, None) => {}
        _ => return Err("set both DEBFULLNAME and DEBEMAIL, or neither".into()),
    }
    let app = metadata.packages().find(|package| package["name"] == "orco");
    let maintainer = app.and_then(|app| app["metadata"]["deb"]["maintainer"].as_str());
    Ok(maintainer.ok_or("runtime/app/Cargo.toml names no maintainer")?.to_owned())
}

/// Has lintian check a package: warnings are errors.
fn lint(deb: &Path) -> Result<(), Box<dyn Error>> {
    test_packages::LINTIAN.install()?;
    must_run(Command::new("lintian").args(["--fail-on", "error,warning", "--tag-display-limit", "0"]).arg(deb))
}

/// Cargo's folder for what it builds with a profile.
pub fn folder_of(profile: &str) -> &str {
    if profile == "dev" { "debug" } else { profile }
}
