//! Licences of the crates that are in a program or a library, by cargo-about.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::environment::workspace;
use crate::process::output;
use crate::tool::CARGO_ABOUT;

/// Writes the licences of all crates that are in the package of a folder, built for a target, each text once, under the
/// crates that it goes for. `beside` says where licences of what is no crate are.
///
/// # Errors
/// If cargo-about cannot be had, or finds a licence that its settings do not accept.
pub fn write(package: &Path, triple: &str, beside: Option<&str>, file: &Path) -> Result<(), Box<dyn Error>> {
    let folder = workspace().join("runtime/app/deploy/notice");
    let mut command = Command::new(CARGO_ABOUT.locate()?);
    // What the crates hold is enough, and the same every time.
    command.args(["generate", "--frozen", "--fail", "--manifest-path"]);
    command.arg(package.join("Cargo.toml")).args(["--target", triple]);
    command.arg("--config").arg(folder.join("about.toml"));
    let text = output(command.arg(folder.join("notice.hbs")).current_dir(workspace()))?;
    Ok(fs::write(file, completed(&text, beside))?)
}

/// The text with that line below its first, and each crate once: it is named for each of its files with the same text.
fn completed(text: &str, beside: Option<&str>) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.dedup_by(|line, before| line == before && line.starts_with("- "));
    if let Some(beside) = beside {
        lines.insert(lines.len().min(1), beside);
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_once_below_what_is_said_of_others() {
        let text = "first\n\nMIT\n- a 1\n- a 1\n- b 2\n\ntext\ntext\n";
        assert_eq!(completed(text, None), "first\n\nMIT\n- a 1\n- b 2\n\ntext\ntext\n");
        assert_eq!(completed(text, Some("second")), "first\nsecond\n\nMIT\n- a 1\n- b 2\n\ntext\ntext\n");
    }
}
