//! `orco generate`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, Command};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use orco_runtime::files::{folder_of, replace_shared};
use serde_json::{Value, json};

use crate::options::Options;
use crate::output::{Output, say};

/// The completions: the shell, the file, and what stands in every one that this program wrote.
const COMPLETIONS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash/orco.bash", "_orco()"),
    (Shell::Zsh, "zsh/_orco", "#compdef orco"),
    (Shell::Fish, "fish/orco.fish", "complete -c orco"),
];

/// What stands in every manual page.
const PAGE_MARK: &str = ".TH orco";

/// Arguments of `orco generate`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The folder; it is made unless it is there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// A file to be written.
struct GeneratedFile {
    path: PathBuf,
    text: Vec<u8>,
    /// What stands in an earlier one, which may be replaced.
    mark: &'static str,
}

/// Writes `man1/orco.1` and a page for each command, and completions: `bash/orco.bash`, `zsh/_orco`, `fish/orco.fish`.
///
/// # Errors
/// If a file cannot be written, something else lies in its place, or the folder is the bundle's or the state's.
pub fn run(options: &Options, output: &Output, arguments: &Arguments, command: &Command) -> Result<Value> {
    let folder = &arguments.folder;
    options.check_destination(folder)?;
    let mut files = Vec::new();
    let mut whole = command.clone().disable_help_subcommand(true);
    whole.build();
    add_pages(&mut files, whole, &folder.join("man1"))?;
    for (shell, name, mark) in COMPLETIONS {
        let mut text = Vec::new();
        generate(shell, &mut command.clone(), "orco", &mut text);
        files.push(GeneratedFile { path: folder.join(name), text, mark });
    }
    // All of them before the first one is written.
    files.iter().try_for_each(GeneratedFile::check_replaced)?;
    files.iter().try_for_each(GeneratedFile::write)?;
    say!(output, "wrote manual pages and completions into {}", folder.display())?;
    Ok(json!({ "folder": folder.to_string_lossy() }))
}

/// Adds the pages of a command and of all below it.
fn add_pages(files: &mut Vec<GeneratedFile>, command: Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        add_pages(files, below.clone(), folder)?;
    }
    let page = Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    files.push(GeneratedFile { path: folder.join(page.get_filename()), text, mark: PAGE_MARK });
    Ok(())
}

impl GeneratedFile {
    /// Refuses what is neither empty nor an earlier one: a script of somebody's own, or a link to a file elsewhere.
    fn check_replaced(&self) -> Result<()> {
        let Ok(facts) = fs::symlink_metadata(&self.path) else { return Ok(()) };
        let is_ours = || {
            let is_earlier = |there: Vec<u8>| there.is_empty() || String::from_utf8_lossy(&there).contains(self.mark);
            fs::read(&self.path).is_ok_and(is_earlier)
        };
        ensure!(
            facts.is_file() && is_ours(),
            "cannot write {}: what is there was not written by this command; move it away, or name another folder",
            self.path.display()
        );
        Ok(())
    }

    fn write(&self) -> Result<()> {
        let folder = folder_of(&self.path);
        fs::create_dir_all(folder).with_context(|| format!("cannot write into {}", folder.display()))?;
        replace_shared(&self.path, &self.text).with_context(|| format!("cannot write {}", self.path.display()))
    }
}
