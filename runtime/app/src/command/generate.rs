//! `orco generate`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::{Value, json};

use crate::options::Options;
use crate::output::{Output, say};

/// The shells that get completions, and the folder of each.
const SHELLS: [(&str, Shell); 3] = [("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)];

/// Arguments of `orco generate`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The folder; it is made unless it is there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes `man1/orco.1` and a page for each command, and completions: `bash/orco.bash`, `zsh/_orco`, `fish/orco.fish`.
///
/// # Errors
/// If a file cannot be written, or the folder is the bundle's or the state's.
pub fn run(options: &Options, output: &Output, arguments: &Arguments, command: &Command) -> Result<Value> {
    let folder = &arguments.folder;
    options.check_destination(folder)?;
    let manual = folder.join("man1");
    make(&manual)?;
    clap_mangen::generate_to(command.clone(), &manual).with_context(|| cannot_write(&manual))?;
    for (name, shell) in SHELLS {
        let folder = folder.join(name);
        make(&folder)?;
        clap_complete::generate_to(shell, &mut command.clone(), "orco", &folder)
            .with_context(|| cannot_write(&folder))?;
    }
    say!(output, "wrote manual pages and completions into {}", folder.display())?;
    Ok(json!({ "folder": folder.to_string_lossy() }))
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| cannot_write(folder))
}

fn cannot_write(folder: &Path) -> String {
    format!("cannot write into {}", folder.display())
}
