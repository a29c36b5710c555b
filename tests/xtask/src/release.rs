//! A release: crates for the registry, in the order in which they build on each other, and files for the release's page
//! with their checksums and a signature.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::environment::{cargo, remove_folder, workspace};
use crate::metadata::Metadata;
use crate::package;
use crate::process::{must_run, output};
use crate::wheel;

/// The crates, each after those that it builds on.
const CRATES: [&str; 8] =
    ["orco-core", "orco-state", "orco-runtime", "orco-benchmark", "orco-camera", "orco-serve", "orco-hub", "orco"];
/// Those of them that are libraries, for other programs to depend on.
pub const LIBRARIES: &[&str] = CRATES.split_at(CRATES.len() - 1).0;
/// Crates whose unit tests compile from the package. Single ones that read a file of the checkout, such as a bundle,
/// say there that they are skipped. Those of the others use orco-trials, which is not published: Cargo leaves it out of
/// their packages, so they cannot be compiled from these.
const TESTED: [&str; 6] = ["orco-core", "orco-state", "orco-benchmark", "orco-camera", "orco-hub", "orco"];
/// The largest file that the registry takes, in bytes.
const MAX_CRATE: u64 = 10 << 20;
/// Folder of what goes to the release's page, in the workspace.
const FILES: &str = "target/release-files";
/// The bundle beside them, for those who have crates from the registry: a folder in `models`.
const BUNDLE: &str = "everyday";
/// Their checksums.
const SUMS: &str = "SHA256SUMS";

/// What is released.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Make everything and print what would go where, but upload nothing
    #[arg(long)]
    dry_run: bool,
    /// Neither compile nor test the packaged crates
    #[arg(long, requires = "dry_run")]
    no_verify: bool,
    /// Only the crates, neither the Debian package nor the Python wheel nor the bundle
    #[arg(long, requires = "dry_run")]
    crates_only: bool,
    /// Package what is not committed, too
    #[arg(long, requires = "dry_run")]
    allow_dirty: bool,
    /// The tag that is released; it must be `v` and the version
    #[arg(long, required_unless_present = "dry_run")]
    tag: Option<String>,
    /// A secret key of minisign without a password, which signs the checksums
    #[arg(long, value_name = "FILE", required_unless_present = "dry_run")]
    sign: Option<PathBuf>,
}

/// Makes what is released, prints where it goes, and publishes the crates unless this is a dry run. The release's page
/// is made by others, from `target/release-files`.
///
/// # Errors
/// If the tag is another version's, the changelog gives the version no date, nobody answers for the package, a crate
/// cannot be packaged or is too large for the registry, or a program fails.
pub fn run_all(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let version = env!("CARGO_PKG_VERSION");
    check_tag(arguments.tag.as_deref(), version)?;
    let metadata = Metadata::read()?;
    if !arguments.dry_run {
        package::demand_maintainer(&metadata)?;
        package::demand_date(version)?;
    }
    let crates = package_crates(arguments, version, &metadata.target_folder()?)?;
    println!("crates, to the registry in this order:");
    for file in &crates {
        println!("{}", row(file)?);
    }
    if !arguments.crates_only {
        let files = package_files(arguments, version)?;
        println!("files, to the page of the release:");
        for file in &files {
            println!("{}", row(file)?);
        }
    }
    if arguments.dry_run {
        println!("a dry run: nothing was uploaded");
    } else {
        // They were compiled a moment ago.
        must_run(selected("publish").arg("--no-verify").current_dir(workspace()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check_tag(tag: Option<&str>, version: &str) -> Result<(), Box<dyn Error>> {
    match tag {
        Some(tag) if tag.strip_prefix('v') != Some(version) => {
            Err(format!("the tag is {tag}, but Cargo.toml says version {version}").into())
        }
        _ => Ok(()),
    }
}

/// Cargo's command for all crates.
fn selected(verb: &str) -> Command {
    let mut command = cargo();
    command.args([verb, "--locked"]).args(CRATES.iter().flat_map(|name| ["--package", name]));
    // Lints that a shell has Cargo apply would count warnings as errors in a user's build.
    command.env_remove("RUSTC_WORKSPACE_WRAPPER");
    command
}

/// Packages the crates, compiles what was packaged unless told not to, and returns the files.
fn package_crates(arguments: &Arguments, version: &str, target: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut command = selected("package");
    command.args(arguments.no_verify.then_some("--no-verify"));
    command.args(arguments.allow_dirty.then_some("--allow-dirty"));
    // Whether they compile is the question, not how well they can be debugged.
    must_run(command.args(["--config", "profile.dev.debug = false"]).current_dir(workspace()))?;
    let folder = target.join("package");
    let files = CRATES.map(|name| folder.join(format!("{name}-{version}.crate")));
    for file in &files {
        let bytes = fs::metadata(file)?.len();
        if bytes > MAX_CRATE {
            return Err(format!("{} has {bytes} bytes; the registry takes {MAX_CRATE}", file.display()).into());
        }
    }
    if !arguments.no_verify {
        let built = folder.with_file_name("package-tests");
        // Files of a package are as old as those of the one before, so Cargo would take them for the same.
        remove_folder(&built)?;
        for name in TESTED {
            test_unpacked(name, version, &folder, &built)?;
        }
    }
    Ok(files.to_vec())
}

/// Runs the unit tests of a crate as somebody has it who downloads it: without the checkout around it. Crates of ours
/// that it depends on are those that were packaged, too. `built` is where all are compiled.
fn test_unpacked(name: &str, version: &str, folder: &Path, built: &Path) -> Result<(), Box<dyn Error>> {
    let unpacked = |name: &str| folder.join(format!("{name}-{version}"));
    let kind = if LIBRARIES.contains(&name) { "--lib" } else { "--bins" };
    let mut command = cargo();
    command.args(["test", kind, "--config", "profile.dev.debug = false", "--target-dir"]).arg(built);
    command.arg("--manifest-path").arg(unpacked(name).join("Cargo.toml")).env_remove("RUSTC_WORKSPACE_WRAPPER");
    for other in CRATES.iter().take_while(|other| **other != name) {
        command.args(["--config", &format!("patch.crates-io.{other}.path = {:?}", unpacked(other))]);
    }
    must_run(&mut command)
}

/// Builds the Debian package and the Python wheel, packs the bundle, and puts them with the package's bill of
/// materials, checksums and signature into one folder.
fn package_files(arguments: &Arguments, version: &str) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let folder = workspace().join(FILES);
    remove_folder(&folder)?;
    fs::create_dir_all(&folder)?;
    let package = package::build(&package::Arguments::of_release())?;
    let mut names = Vec::new();
    for file in [&package.deb, &package.sbom, &wheel::build()?] {
        let name = file.file_name().ok_or("a file has no name")?;
        fs::copy(file, folder.join(name))?;
        names.push(name.to_owned());
    }
    let archive = format!("{BUNDLE}-{version}.tar");
    archive_bundle(&folder.join(&archive))?;
    package::compress(&[folder.join(&archive)])?;
    names.push(format!("{archive}.gz").into());
    let sums = output(Command::new("sha256sum").args(&names).current_dir(&folder))?;
    fs::write(folder.join(SUMS), sums)?;
    names.push(SUMS.into());
    if let Some(key) = &arguments.sign {
        let key = std::path::absolute(key)?;
        must_run(Command::new("minisign").arg("-S").arg("-s").arg(key).args(["-m", SUMS]).current_dir(&folder))?;
        names.push(format!("{SUMS}.minisig").into());
    }
    Ok(names.iter().map(|name| folder.join(name)).collect())
}

/// Writes the bundle as it is committed into a tar archive: git sorts the names, and times are the commit's, so that
/// the same commit gives the same bytes.
fn archive_bundle(file: &Path) -> Result<(), Box<dyn Error>> {
    let mut git = Command::new("git");
    // A user's settings may have other modes.
    git.args(["-c", "tar.umask=022", "archive", "--format=tar", "--output"]).arg(file).args(["HEAD", BUNDLE]);
    must_run(git.current_dir(workspace().join("models")))
}

/// A file with its size, for people.
fn row(file: &Path) -> Result<String, Box<dyn Error>> {
    let kib = fs::metadata(file)?.len().div_ceil(1 << 10);
    Ok(format!("{kib:>9} KiB  {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_the_version() {
        assert!(check_tag(None, "0.1.0").is_ok());
        assert!(check_tag(Some("v0.1.0"), "0.1.0").is_ok());
        for wrong in ["0.1.0", "v0.1.1", "v0.1.0-rc1", ""] {
            assert!(check_tag(Some(wrong), "0.1.0").is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_archive_holds_the_bundle_and_is_the_same_twice() {
        if !workspace().join(".git").exists() {
            orco_trials::skipped("the bundle's archive (this is no clone)");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| {
            let file = folder.path().join(name);
            archive_bundle(&file).unwrap();
            fs::read(file).unwrap()
        });
        assert!(one == other, "the archives differ");
        let listed = output(Command::new("tar").arg("-tf").arg(folder.path().join("one"))).unwrap();
        for file in ["everyday/manifest.toml", "everyday/backbone.onnx", "everyday/learner.postcard"] {
            assert!(listed.lines().any(|name| name == file), "{file} is not among {listed}");
        }
        assert!(listed.lines().all(|name| name.starts_with("everyday/")), "{listed}");
    }

    /// All Rust files in a folder.
    fn sources(folder: &Path) -> Vec<PathBuf> {
        let children = fs::read_dir(folder).unwrap().map(|child| child.unwrap().path());
        let files = children.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
        files.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect()
    }

    #[test]
    fn crates_that_are_tested_from_their_packages_use_nothing_that_stays_in_the_checkout() {
        let metadata = Metadata::read().unwrap();
        for package in metadata.packages().filter(|package| TESTED.iter().any(|name| package["name"] == *name)) {
            // Cargo leaves out of a package what only tests need and no registry has.
            let left_out = package["dependencies"].as_array().unwrap().iter();
            let left_out = left_out.filter(|dependency| dependency["kind"] == "dev" && dependency["req"] == "*");
            let left_out: Vec<_> = left_out.map(|other| other["name"].as_str().unwrap().replace('-', "_")).collect();
            let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
            for path in sources(&folder.join("src")) {
                let text = fs::read_to_string(&path).unwrap();
                let mut code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                let found = code.find(|line| left_out.iter().any(|name| line.contains(name)));
                assert_eq!(found, None, "{}", path.display());
            }
        }
    }

    #[test]
    fn every_crate_that_may_be_published_is_and_after_those_it_builds_on() {
        let metadata = Metadata::read().unwrap();
        let place = |name: &str| CRATES.iter().position(|listed| *listed == name);
        for package in metadata.packages() {
            let name = package["name"].as_str().unwrap();
            assert_eq!(package["publish"].is_null(), place(name).is_some(), "{name}");
            let Some(own) = place(name) else { continue };
            for fact in ["description", "license", "readme"] {
                assert!(package[fact].is_string(), "{name} has no {fact}");
            }
            // The registry takes up to five of each.
            for fact in ["keywords", "categories"] {
                let count = package[fact].as_array().map_or(0, Vec::len);
                assert!((1..=5).contains(&count), "{name} has {count} {fact}");
            }
            assert!(package["metadata"]["docs"]["rs"].is_object(), "{name} does not say how docs.rs documents it");
            let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
                let of_crate = fs::read_to_string(folder.join(licence));
                let of_crate = of_crate.unwrap_or_else(|error| panic!("{name} has no {licence}: {error}"));
                assert!(of_crate == fs::read_to_string(workspace().join(licence)).unwrap(), "{name}: {licence}");
            }
            let built_on = package["dependencies"].as_array().unwrap().iter();
            for dependency in built_on.filter(|dependency| dependency["kind"] != "dev") {
                let dependency = dependency["name"].as_str().unwrap();
                assert!(
                    !dependency.starts_with("orco") || place(dependency).is_some_and(|place| place < own),
                    "{name} needs {dependency}"
                );
            }
        }
    }
}
