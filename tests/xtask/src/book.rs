//! The book: results pages generated from the reports of bundles, then mdBook.

use std::error::Error;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::{fs, io};

use crate::environment::workspace;
use crate::environment::{cargo, exit_code};
use crate::library::MDBOOK;

/// Folder of the generated pages, in the workspace.
const RESULTS: &str = "docs/src/results";

/// Writes the results pages and builds the book into `target/book`.
///
/// With `check` the committed pages must be the generated ones, and nothing in the checkout is written. With `serve`
/// mdBook goes on serving the book until Ctrl-C.
///
/// # Errors
/// If mdBook cannot be set up or started, or a committed page is not the generated one.
pub fn build(check: bool, serve: bool) -> Result<ExitCode, Box<dyn Error>> {
    let mdbook = MDBOOK.locate()?;
    let output = if check { "target/results" } else { RESULTS };
    let mut tables = cargo();
    tables.args("run --quiet --release --package orco-lab -- tables models --output".split(' ')).arg(output);
    let status = tables.current_dir(workspace()).status()?;
    if !status.success() {
        return Ok(exit_code(status));
    }
    if check {
        compare(&workspace().join(output), &workspace().join(RESULTS))?;
    }
    let verb = if serve { "serve" } else { "build" };
    let status = Command::new(mdbook).arg(verb).arg("docs").current_dir(workspace()).status()?;
    Ok(exit_code(status))
}

/// Every generated page must be committed as it is, and no other page may lie beside them.
fn compare(generated: &Path, committed: &Path) -> Result<(), Box<dyn Error>> {
    let names = |folder: &Path| -> io::Result<Vec<_>> {
        let mut names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    };
    let (new, old) = (names(generated)?, names(committed)?);
    let mut differ: Vec<String> = Vec::new();
    for name in new.iter().chain(old.iter().filter(|name| !new.contains(name))) {
        let [new, old] = [generated, committed].map(|folder| fs::read(folder.join(name)).ok());
        if new != old {
            differ.push(name.to_string_lossy().into_owned());
        }
    }
    if differ.is_empty() {
        return Ok(());
    }
    Err(format!("{RESULTS} is out of date: {}; run `cargo xtask book` and commit it", differ.join(", ")).into())
}
