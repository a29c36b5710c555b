//! `orco`: classify pictures, learn new classes from a few shots, measure. One file per command in `command`.

mod advice;
mod bundle_search;
#[cfg(feature = "serve")]
mod certificate;
mod change_options;
mod command;
mod config;
mod device;
mod doctor;
#[cfg(feature = "hub")]
mod fleet_options;
mod folder_session;
mod folder_shots;
mod log_stream;
#[cfg(feature = "mqtt")]
mod mqtt_options;
mod options;
mod output;
mod pack_thumbnails;
#[cfg(feature = "serve")]
mod phone;
mod progress;
mod restart;
mod scene_options;
#[cfg(feature = "serve")]
mod serve_options;
mod session_report;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use config::SettingsFile;
use log_stream::MissingLines;
use options::Options;
use orco_runtime::encoder::telemetry;
use orco_runtime::state::escape::EscapedText;
use orco_runtime::threads;
use output::Output;
use restart::restart_with_variable;
use serde_json::Value;

#[derive(Parser)]
#[command(
    version,
    about = "Learns new image classes on the device from a handful of shots",
    after_help = "Exit codes: 0 done; 1 failed, nothing was changed; 2 wrong command line; 3 changed, but what came \
                  after it failed (it says what)."
)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: OrcoCommand,
}

#[derive(Subcommand)]
enum OrcoCommand {
    /// Says what the bundle is, which engine runs it, and what the device has learned.
    Info,
    /// Names what is on pictures.
    Classify(command::classify::Arguments),
    /// Learns new classes from folders of pictures; several in one call are one session.
    Learn(command::learn::Arguments),
    /// Gives a known class further shots.
    Add(command::add::Arguments),
    /// Aligns the head to what was learned with --align later or never; answers may change.
    Align,
    /// Forgets a learned class; `orco undo` brings it back, unless it was purged.
    Forget(command::forget::Arguments),
    /// Gives a learned class another label.
    Rename(command::rename::Arguments),
    /// Says whether to keep what was known or to favour what is new, where a picture could be either.
    Balance(command::balance::Arguments),
    /// Lists what was done, oldest first.
    History,
    /// Undoes changes: restores an earlier class set exactly. Done again, it goes further back.
    Undo(command::undo::Arguments),
    /// Redoes changes that were undone.
    Redo(command::redo::Arguments),
    /// Writes a learned class into a pack, for another device with the same bundle.
    Export(command::export::Arguments),
    /// Learns classes from packs of other devices; several in one call are one session.
    Import(command::import::Arguments),
    /// Learns all that the device knows again, on a new bundle, from the pictures that --keep-shots kept.
    Upgrade(command::upgrade::Arguments),
    /// Writes all that the device knows into one file, for its replacement.
    Backup(command::backup::Arguments),
    /// Restores what `orco backup` wrote.
    Restore(command::restore::Arguments),
    /// Keeps what the place in front of the device's camera looks like when it is empty: things in front of it are then
    /// found.
    Scene(command::scene::Arguments),
    /// Lists the known classes.
    List,
    /// Serves the web page that teaches the device, and the same over HTTP, until Ctrl-C.
    #[cfg(feature = "serve")]
    Serve(serve_options::ServeOptions),
    /// One round with the fleet's hub: reports, pulls what the device's channel holds, pushes what may be shared.
    #[cfg(feature = "hub")]
    Sync(command::sync::Arguments),
    /// Runs the hub of a fleet, and does what its operator asks for.
    #[cfg(feature = "hub")]
    Hub(command::hub::Arguments),
    /// Prints the settings that count and where each comes from, or a commented file of all.
    Config(command::config::Arguments),
    /// Says what is wrong on this machine and how to mend it.
    Doctor(command::doctor::Arguments),
    /// Measures bundles and engines on this machine: start, time of an answer, of learning, memory.
    Bench(command::bench::Arguments),
    /// Writes manual pages and completions for bash, zsh and fish, as packages install them.
    Generate(command::generate::Arguments),
    /// Shows everything: the sessions of the bundle's benchmark, then the classes of the sample pictures.
    ///
    /// Both are in the repository's folder; packages leave them out.
    Demo(command::demo::Arguments),
}

fn main() -> ExitCode {
    outlive_file_limits();
    // Before any other thread. Where it fails, ONNX Runtime is not loaded, and that is said when it is wanted.
    if telemetry::turn_off().is_err() {
        restart_with_variable(telemetry::VARIABLE, "1");
    }
    start_log();
    let plain = without_device_options(Cli::command());
    let first = matches_of(without_empty_variables(plain.clone()));
    let named = first.get_one::<PathBuf>("config").map(PathBuf::as_path);
    let file = match SettingsFile::find(&plain, named) {
        Ok(file) => file,
        Err(error) => return Output::silent().finish(Err(error)),
    };
    let matches = match &file {
        Some(file) => matches_of(without_empty_variables(file.apply(plain.clone()))),
        None => first,
    };
    // Behind the = of `--state=~/state` and in variables no shell expands it, and a folder "~" would be made.
    if let Some(path) = unexpanded_path(&matches) {
        let text = format!("no shell expanded ~ in {}: give the whole path", path.display());
        plain.clone().error(ErrorKind::ValueValidation, text).exit();
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let options = &cli.options.clone().with_bundle_found();
    // Before the file of the result is made.
    #[cfg(feature = "hub")]
    if let OrcoCommand::Hub(arguments) = &cli.command
        && let Err(error) = arguments.check_report(options)
    {
        return Output::silent().finish(Err(error));
    }
    let output = match Output::open(options) {
        Ok(output) => output,
        Err(error) => return Output::silent().finish(Err(error)),
    };
    if let Some(count) = options.threads
        && let Err(error) = threads::set_limit(count)
    {
        restart_with_variable(threads::VARIABLE, &count.to_string());
        return output.finish(Err(error.into()));
    }
    let sources = SettingSources { command: &plain, file: file.as_ref(), matches: &matches };
    let done = run(&cli.command, options, &output, &sources);
    output.finish(done)
}

/// Starts the log. It says what breaks unless `RUST_LOG` asks for more or less. An empty `RUST_LOG` counts as not set,
/// as every other variable does.
fn start_log() {
    // Of a SOCKS proxy, ureq warns in words for programmers.
    const LEVELS: &str = "warn,ort=error,ureq=error";
    let mut log = env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(LEVELS));
    if std::env::var_os(env_logger::DEFAULT_FILTER_ENV).is_some_and(|set| set.is_empty()) {
        log.parse_filters(LEVELS);
    }
    let missing = MissingLines::default();
    // Names of files and texts of other machines may hold what a terminal obeys, or further lines.
    log.format(move |buffer, record| {
        // ureq writes whole addresses, and passwords may stand in their queries.
        if record.target().starts_with("ureq") && record.level() > log::Level::Warn {
            return Ok(());
        }
        // A thread that waited for a reader would answer nobody. After an error nothing is written, and no lock taken.
        let Some(missing) = missing.admit(log_stream::is_writable_within) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        if missing > 0 {
            writeln!(buffer, "[WARN ] {missing} lines of the log were left out here, since nobody read it")?;
        }
        let (level, text) = (record.level(), EscapedText(&record.args().to_string()).to_string());
        let style = buffer.default_level_style(level);
        writeln!(buffer, "[{style}{level:<5}{style:#}] {}", log_stream::cut(&text))
    });
    log.init();
    log_stream::print_panics_if_read();
}

/// What the command line and the environment say; ends the program where that is wrong.
fn matches_of(command: Command) -> ArgMatches {
    command.try_get_matches().unwrap_or_else(|error| without_password(error).exit())
}

/// An error whose sentence shows no password of an address.
fn without_password(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidValue) else { return error };
    #[cfg(feature = "serve")]
    if matches!(
        error.get(ContextKind::InvalidArg), Some(ContextValue::String(option)) if option.starts_with("--camera ")
    ) && let Err(refused) = given.parse::<orco_serve::CameraSource>()
    {
        error.insert(ContextKind::InvalidValue, ContextValue::String(refused.0));
        return error;
    }
    if given.contains('@') {
        error.insert(ContextKind::InvalidValue, ContextValue::String("***".into()));
    }
    error
}

/// A path of a command's options that begins with `~`.
fn unexpanded_path(matches: &ArgMatches) -> Option<PathBuf> {
    let paths = matches.ids().filter_map(|id| matches.try_get_many::<PathBuf>(id.as_str()).ok().flatten());
    let found = paths.flatten().find(|path| path.starts_with("~")).cloned();
    found.or_else(|| unexpanded_path(matches.subcommand()?.1))
}

/// Where settings come from.
struct SettingSources<'a> {
    /// The command line's definition, with its own defaults.
    command: &'a Command,
    file: Option<&'a SettingsFile>,
    /// What the command line, the environment and the file say together.
    matches: &'a ArgMatches,
}

/// Does what a command asks for; returns the result as JSON.
fn run(command: &OrcoCommand, options: &Options, output: &Output, sources: &SettingSources<'_>) -> Result<Value> {
    let SettingSources { command: plain, file, matches } = *sources;
    match command {
        OrcoCommand::Info => command::info::run(options, output),
        OrcoCommand::Classify(arguments) => command::classify::run(options, output, arguments),
        OrcoCommand::Learn(arguments) => command::learn::run(options, output, arguments),
        OrcoCommand::Add(arguments) => command::add::run(options, output, arguments),
        OrcoCommand::Align => command::align::run(options, output),
        OrcoCommand::Forget(arguments) => command::forget::run(options, output, arguments),
        OrcoCommand::Rename(arguments) => command::rename::run(options, output, arguments),
        OrcoCommand::Balance(arguments) => command::balance::run(options, output, arguments),
        OrcoCommand::History => command::history::run(options, output),
        OrcoCommand::Undo(arguments) => command::undo::run(options, output, arguments),
        OrcoCommand::Redo(arguments) => command::redo::run(options, output, arguments),
        OrcoCommand::Export(arguments) => command::export::run(options, output, arguments),
        OrcoCommand::Import(arguments) => command::import::run(options, output, arguments),
        OrcoCommand::Upgrade(arguments) => command::upgrade::run(options, output, arguments),
        OrcoCommand::Backup(arguments) => command::backup::run(options, output, arguments),
        OrcoCommand::Restore(arguments) => command::restore::run(options, output, arguments),
        OrcoCommand::Scene(arguments) => command::scene::run(options, output, arguments),
        OrcoCommand::List => command::list::run(options, output),
        #[cfg(feature = "serve")]
        OrcoCommand::Serve(arguments) => command::serve::run(options, output, arguments),
        #[cfg(feature = "hub")]
        OrcoCommand::Sync(arguments) => command::sync::run(options, output, arguments, file),
        #[cfg(feature = "hub")]
        OrcoCommand::Hub(arguments) => command::hub::run(options, output, arguments),
        OrcoCommand::Config(arguments) => command::config::run(output, arguments, plain, file, matches),
        OrcoCommand::Generate(arguments) => command::generate::run(options, output, arguments, plain),
        OrcoCommand::Doctor(arguments) => command::doctor::run(options, output, arguments, file),
        OrcoCommand::Bench(arguments) => command::bench::run(options, output, arguments),
        OrcoCommand::Demo(arguments) => {
            // Settings name the device's own state.
            let asked = matches.value_source("state") == Some(ValueSource::CommandLine);
            command::demo::run(options, output, arguments, options.state.as_deref().filter(|_| asked))
        }
    }
}

/// Has a write beyond the limit of file sizes (`ulimit -f`) fail, as on a full disk, rather than end the process.
fn outlive_file_limits() {
    #[cfg(unix)]
    {
        // A caught signal no longer ends the process. Nothing reads the flag.
        let came = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        if let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, came) {
            output::eprint_escaped(&format!("warning: a limit of file sizes may end the process: {error}"));
        }
    }
}

/// Hides the options that choose and tune a device from the help of each command of `orco hub`; they are taken all the
/// same.
fn without_device_options(command: Command) -> Command {
    const OF_DEVICES: [&str; 11] = [
        "answers",
        "backbone",
        "bundle",
        "engine",
        "fleet",
        "history",
        "history_bytes",
        "state",
        "threads",
        "verbose",
        "wait",
    ];
    let of_devices = command.get_arguments().filter(|option| OF_DEVICES.contains(&option.get_id().as_str()));
    let hidden: Vec<Arg> = of_devices.map(|option| option.clone().hide(true)).collect();
    let hide = |command: Command| command.args(hidden.iter().cloned());
    // Clap gives a command no second option of the same name.
    command.mut_subcommands(|group| if group.get_name() == "hub" { group.mut_subcommands(hide) } else { group })
}

/// An empty variable of the environment counts as one that is not set.
fn without_empty_variables(command: Command) -> Command {
    let set = |name: &std::ffi::OsStr| std::env::var_os(name).is_none_or(|value| !value.is_empty());
    command
        .mut_args(|argument| {
            if argument.get_env().is_none_or(set) {
                argument
            } else {
                argument.env(Resettable::<clap::builder::OsStr>::Reset)
            }
        })
        .mut_subcommands(without_empty_variables)
}
