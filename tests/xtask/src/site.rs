//! `cargo xtask site`: the book, with the documentation of the public crates under `api` and the reports of all bundles
//! under `reports`, as it is published.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::book::{self, BookTask};
use crate::environment::{cargo, remove_folder, workspace};
use crate::metadata::target_folder;
use crate::process::must_run;
use crate::release::LIBRARIES;

/// Folder of the site, in the workspace.
const SITE: &str = "target/site";
/// Where the front page gets its links to what the book alone does not have.
const PLACE: &str = "<!-- site -->";

/// Builds the site.
///
/// # Errors
/// If the committed results pages are not those of the reports, something cannot be built, or the front page has no
/// place for the links.
pub fn build() -> Result<ExitCode, Box<dyn Error>> {
    let built = book::build(BookTask::Check)?;
    if built != ExitCode::SUCCESS {
        return Ok(built);
    }
    let site = workspace().join(SITE);
    copy(&workspace().join("target/book"), &site)?;
    let api = target_folder()?.join("doc");
    // Documentation of other crates, from another time.
    remove_folder(&api)?;
    let mut doc = cargo();
    doc.args(["doc", "--release", "--locked", "--no-deps", "--lib", "--all-features"]);
    doc.args(LIBRARIES.iter().flat_map(|name| ["--package", name])).env("RUSTDOCFLAGS", "-D warnings");
    must_run(doc.env_remove("RUSTC_WORKSPACE_WRAPPER").current_dir(workspace()))?;
    copy(&api, &site.join("api"))?;
    let bundles = reports(&site)?;
    for page in ["index.html", "introduction.html"] {
        let page = site.join(page);
        let text = fs::read_to_string(&page)?;
        fs::write(&page, with_links(&text, &bundles)?)?;
    }
    println!("{}", site.join("index.html").display());
    Ok(ExitCode::SUCCESS)
}

/// Copies the reports, and returns the names of their bundles in order.
fn reports(site: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    fs::create_dir_all(site.join("reports"))?;
    let mut bundles = Vec::new();
    for bundle in fs::read_dir(workspace().join("models"))? {
        let bundle = bundle?;
        let (report, name) = (bundle.path().join("report"), bundle.file_name());
        if report.join("index.html").is_file() {
            copy(&report, &site.join("reports").join(&name))?;
            bundles.push(name.to_string_lossy().into_owned());
        }
    }
    bundles.sort();
    Ok(bundles)
}

/// The front page with its links.
fn with_links(page: &str, bundles: &[String]) -> Result<String, Box<dyn Error>> {
    let crates = LIBRARIES.iter().map(|name| (*name, format!("api/{}/index.html", name.replace('-', "_"))));
    let reports = bundles.iter().map(|name| (name.as_str(), format!("reports/{name}/index.html")));
    let mut links = String::new();
    write!(links, "<h2>Crates</h2>{}", list(crates)?)?;
    write!(links, "<h2>Reports of the bundles</h2>{}", list(reports)?)?;
    if page.matches(PLACE).count() != 1 {
        return Err(format!("the front page has no {PLACE}, or several").into());
    }
    Ok(page.replace(PLACE, &links))
}

fn list<'a>(links: impl Iterator<Item = (&'a str, String)>) -> Result<String, std::fmt::Error> {
    let mut items = String::new();
    for (name, address) in links {
        write!(items, "<li><a href=\"{address}\">{name}</a></li>")?;
    }
    Ok(format!("<ul>{items}</ul>"))
}

/// Copies a folder in the place of an older copy.
fn copy(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    remove_folder(to)?;
    must_run(Command::new("cp").arg("-r").arg(from).arg(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_page_leads_to_every_crate_and_report() {
        let front = fs::read_to_string(workspace().join("docs/src/introduction.md")).unwrap();
        let page = with_links(&front, &["everyday".into()]).unwrap();
        assert!(page.contains("<a href=\"reports/everyday/index.html\">everyday</a>"), "{page}");
        for name in LIBRARIES {
            assert!(page.contains(&format!("\">{name}</a>")), "{name}: {page}");
        }
        assert!(with_links("no place", &[]).is_err());
    }
}
