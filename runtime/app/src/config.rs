//! The settings file. Every option with an environment variable can also be set there, by its long name; a new option
//! needs no change here. Precedence: command line, environment, this file, default.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::num::{IntErrorKind, ParseIntError};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::builder::{BoolishValueParser, TypedValueParser, ValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use orco_runtime::files;
use toml::Value;

/// The file that is read where none is named and this one is there.
pub const DEFAULT_PATH: &str = "/etc/orco/orco.toml";
/// The option that names another file; no setting itself.
const FILE_OPTION: &str = "config";
/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Similarity of two keys, from 0 to 1, from which one may be mistaken for the other.
const MIN_SIMILARITY: f64 = 0.77;
/// Settings that only the commands which use them check: no other command shall fail for an address that it never
/// calls.
const CHECKED_WHERE_USED: [&str; 1] = ["hub"];
/// Width of the commented file.
const WIDTH: usize = 118;

/// An option that a file may set.
pub struct Setting<'a> {
    option: &'a Arg,
    /// The subcommands that take it; none where all do.
    subcommands: Vec<&'a str>,
}

/// A file of settings that was read and checked.
pub struct SettingsFile {
    /// Where it is.
    pub path: PathBuf,
    /// The values of a key, as the command line takes them.
    values: BTreeMap<String, Vec<String>>,
    /// What is wrong with the value of a key, where only those commands refuse it that use it.
    pub faults: BTreeMap<String, String>,
}

/// A setting as it counts.
pub struct EffectiveSetting {
    /// Its key.
    pub key: String,
    /// Its value, where it has one.
    pub value: Option<Value>,
    /// Where that comes from.
    pub from: String,
}

/// All settings of a command that was not built yet: those of every subcommand first.
pub fn settings(command: &Command) -> Vec<Setting<'_>> {
    let mut settings: Vec<Setting<'_>> = Vec::new();
    let subcommands = command.get_subcommands().map(|subcommand| (Some(subcommand.get_name()), subcommand));
    for (subcommand, command) in std::iter::once((None, command)).chain(subcommands) {
        for option in command.get_arguments().filter(|option| is_setting(option)) {
            match settings.iter_mut().find(|known| known.option.get_long() == option.get_long()) {
                Some(known) => known.subcommands.extend(subcommand),
                None => settings.push(Setting { option, subcommands: subcommand.into_iter().collect() }),
            }
        }
    }
    settings
}

/// A value of the command line as a file has it: numbers and truth values bare, unless the option takes a text.
fn toml_value(text: &str, parser: &ValueParser) -> Value {
    let texts = [TypeId::of::<String>(), TypeId::of::<PathBuf>(), TypeId::of::<OsString>()];
    let bare = !texts.iter().any(|kind| parser.type_id() == *kind);
    let parsed = bare.then(|| text.parse::<i64>().map(Value::from).or(text.parse::<f64>().map(Value::from)));
    match (parsed, text) {
        (Some(Ok(number)), _) => number,
        (Some(_), "true" | "false") => Value::from(text == "true"),
        _ => Value::from(text),
    }
}

fn is_setting(option: &Arg) -> bool {
    option.get_env().is_some() && option.get_long().is_some_and(|name| name != FILE_OPTION)
}

impl Setting<'_> {
    /// Its key in a file.
    pub fn key(&self) -> &str {
        self.option.get_long().unwrap_or_default()
    }

    fn variable(&self) -> String {
        self.option.get_env().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn is_list(&self) -> bool {
        matches!(self.option.get_action(), ArgAction::Append)
    }

    fn is_switch(&self) -> bool {
        matches!(self.option.get_action(), ArgAction::SetTrue | ArgAction::SetFalse)
    }

    /// Values of the command line as a file takes them.
    fn value(&self, raw: &[String]) -> Option<Value> {
        if self.is_switch() {
            return raw.last().map(|text| Value::from(text == "true"));
        }
        let mut values = raw.iter().map(|text| toml_value(text, self.option.get_value_parser()));
        if self.is_list() { Some(Value::Array(values.collect())) } else { values.next_back() }
    }

    /// What it is where nothing is said.
    fn default(&self) -> Option<Value> {
        let raw: Vec<String> =
            self.option.get_default_values().iter().map(|text| text.to_string_lossy().into_owned()).collect();
        match (self.is_switch(), self.is_list()) {
            (true, _) => Some(Value::from(matches!(self.option.get_action(), ArgAction::SetFalse))),
            (false, true) if raw.is_empty() => Some(Value::Array(Vec::new())),
            _ => self.value(&raw),
        }
    }

    /// A file's value as the command line takes it; not checked yet.
    fn raw(&self, value: &Value) -> Result<Vec<String>, String> {
        let is_path = self.option.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        let one = |value: &Value| match value {
            Value::String(text) if text.is_empty() => {
                Err("it is empty: give a value, or take the line away".to_owned())
            }
            // Only a shell expands ~. Here it would name a folder "~" in the current folder.
            Value::String(text) if is_path && Path::new(text).starts_with("~") => {
                Err("only a shell expands ~: give the whole path".to_owned())
            }
            Value::String(text) => Ok(text.clone()),
            // `sightings = false` would name a folder "false".
            Value::Boolean(_) if !self.is_switch() => Err("expected a text or a number, not true or false".to_owned()),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Ok(value.to_string()),
            _ => Err("expected a text or a number".to_owned()),
        };
        let raw = match value {
            Value::Array(values) if self.is_list() => values.iter().map(one).collect::<Result<Vec<_>, _>>()?,
            value => vec![one(value)?],
        };
        if self.is_switch() && !value.is_bool() {
            return Err("expected true or false".into());
        }
        Ok(raw)
    }

    /// The value in effect: from the command line, else the environment, else the file, else the default.
    ///
    /// # Errors
    /// If an environment variable holds no valid value for a switch: the error of a command that has the switch.
    fn in_effect(
        &self,
        command: &Command,
        file: Option<&SettingsFile>,
        matches: &ArgMatches,
    ) -> Result<EffectiveSetting, clap::Error> {
        let (key, variable, id) = (self.key().to_owned(), self.variable(), self.option.get_id().as_str());
        let given = matches.try_get_raw(id).ok().flatten();
        let given = given.filter(|_| matches.value_source(id) == Some(ValueSource::CommandLine));
        if let Some(raw) = given {
            let raw: Vec<String> = raw.map(|text| text.to_string_lossy().into_owned()).collect();
            return Ok(EffectiveSetting { key, value: self.value(&raw), from: "command line".into() });
        }
        if let Some(text) = std::env::var_os(&variable).filter(|text| !text.is_empty()) {
            if self.is_switch() {
                // Without a value, so that the error names the switch as a built command does.
                let switch = self.option.clone().num_args(0);
                let is_on = BoolishValueParser::new().parse_ref(command, Some(&switch), &text)?;
                return Ok(EffectiveSetting { key, value: Some(Value::from(is_on)), from: variable });
            }
            let text = text.to_string_lossy();
            let raw: Vec<String> = match self.option.get_value_delimiter() {
                Some(delimiter) => text.split(delimiter).map(str::to_owned).collect(),
                None => vec![text.into_owned()],
            };
            return Ok(EffectiveSetting { key, value: self.value(&raw), from: variable });
        }
        Ok(match file.and_then(|file| Some((file, file.values.get(&key)?))) {
            Some((file, raw)) => {
                EffectiveSetting { value: self.value(raw), key, from: file.path.display().to_string() }
            }
            None => EffectiveSetting { key, value: self.default(), from: "default".into() },
        })
    }

    /// Checks a value as the command line does, but alone: what else that asks for may come from elsewhere.
    fn check(&self, raw: &[String]) -> Result<(), String> {
        if self.is_switch() {
            return Ok(());
        }
        let mut option = Arg::new("option").long("option").action(self.option.get_action().clone());
        option = option.value_parser(self.option.get_value_parser().clone());
        option = option.value_delimiter(self.option.get_value_delimiter());
        let arguments = raw.iter().map(|value| format!("--option={value}"));
        let checked = Command::new("orco").no_binary_name(true).arg(option).try_get_matches_from(arguments);
        checked.map(drop).map_err(|error| match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(known)) if !known.is_empty() => format!("expected {}", known.join(" or ")),
            _ => match std::error::Error::source(&error) {
                Some(cause) => {
                    cause.downcast_ref::<ParseIntError>().map_or_else(|| cause.to_string(), whole_number_expected)
                }
                None => "it is not understood".into(),
            },
        })
    }
}

/// Says what is wrong with a text that is no whole number.
fn whole_number_expected(error: &ParseIntError) -> String {
    match error.kind() {
        IntErrorKind::PosOverflow => "the number is too large".into(),
        _ => "expected a whole number, such as 100".into(),
    }
}

/// The known key that a mistyped one is most like, if any is like it.
fn nearest_key<'a>(mistyped: &str, settings: &'a [Setting<'_>]) -> Option<&'a str> {
    let known = settings.iter().map(|setting| (strsim::jaro(mistyped, setting.key()), setting.key()));
    let nearest = known.max_by(|one, other| one.0.total_cmp(&other.0));
    nearest.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY).map(|(_, key)| key)
}

impl SettingsFile {
    /// The file that the command line or the environment names, else the one at [`DEFAULT_PATH`] if it is there.
    ///
    /// # Errors
    /// If it cannot be read, or holds what is not understood. What only some commands refuse is in [`Self::faults`].
    pub fn find(command: &Command, named: Option<&Path>) -> Result<Option<Self>> {
        match named {
            Some(path) => Self::read(command, path).map(Some),
            None => Self::read_if_there(command, Path::new(DEFAULT_PATH)),
        }
    }

    /// Reads a file unless there is none. One that this user cannot look at, as in a folder that is root's alone, may
    /// be there: without it, another state would be taken for the device's.
    fn read_if_there(command: &Command, path: &Path) -> Result<Option<Self>> {
        if files::is_absent(path) { Ok(None) } else { Self::read(command, path).map(Some) }
    }

    fn read(command: &Command, path: &Path) -> Result<Self> {
        let shown = path.display();
        let bytes = files::read(path, MAX_FILE).map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::PermissionDenied => "; run this as a user who may, or let this one (chgrp, chmod)",
                _ => "",
            };
            anyhow!("cannot read the settings in {shown}: {error}{advice}")
        })?;
        let text = String::from_utf8(bytes)
            .map_err(|_| anyhow!("the settings in {shown} are no text in UTF-8: save them in that encoding"))?;
        let table: toml::Table = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            anyhow!("the settings in {shown}, line {line}: {}", error.message().replace('\n', ", "))
        })?;
        let settings = settings(command);
        let (mut values, mut faults) = (BTreeMap::new(), BTreeMap::new());
        for (key, value) in table {
            let Some(setting) = settings.iter().find(|setting| setting.key() == key) else {
                let instead = nearest_key(&key, &settings).map(|nearest| format!("did you mean \"{nearest}\"? "));
                let instead = instead.unwrap_or_default();
                bail!("the settings in {shown}: \"{key}\" is not known; {instead}`orco config --defaults` shows all");
            };
            // A service's errors stand in the log. What is wrong with a camera's address is said without its password.
            let is_shown = key != "camera" && !value.to_string().contains('@');
            let said = if is_shown { format!("{key} = {value}") } else { key.clone() };
            let fault = |why: String| format!("the settings in {shown}: {said}: {why}");
            let raw = setting.raw(&value).map_err(|why| anyhow!(fault(why)))?;
            match setting.check(&raw) {
                Ok(()) => {}
                Err(why) if CHECKED_WHERE_USED.contains(&key.as_str()) => {
                    faults.insert(key.clone(), fault(why));
                }
                Err(why) => bail!(fault(why)),
            }
            values.insert(key, raw);
        }
        Ok(Self { path: path.into(), values, faults })
    }

    /// The command with this file's values as the defaults of its settings, except those with a fault. An option that
    /// is no setting may have a setting's name: `--region` of `orco classify` is not the service's.
    pub fn apply(&self, command: Command) -> Command {
        let sound = |key: &str| self.values.get(key).filter(|_| !self.faults.contains_key(key));
        let values = |option: &Arg| option.get_long().and_then(sound);
        let set = |option: Arg| match values(&option).filter(|_| is_setting(&option)) {
            // They live as long as the program.
            Some(values) => option.default_values(values.iter().map(|value| &*String::leak(value.clone()))),
            None => option,
        };
        command.mut_args(set).mut_subcommands(|subcommand| self.apply(subcommand))
    }
}

/// Every setting as it counts.
///
/// # Errors
/// If an environment variable holds no valid value for a switch.
pub fn effective_settings(
    command: &Command,
    file: Option<&SettingsFile>,
    matches: &ArgMatches,
) -> Result<Vec<EffectiveSetting>, clap::Error> {
    settings(command).iter().map(|setting| setting.in_effect(command, file, matches)).collect()
}

/// A file that sets nothing, and says of every setting what it does and what its default is.
pub fn commented(command: &Command) -> String {
    let mut text = String::from(
        "# Settings of orco. A line `#name = value` shows the default; remove the # and change the value. Where a setting\n\
         # has no default, a word in capitals stands for the value.\n\
         # Precedence: command line, environment, this file, default. `orco config` prints the settings in effect,\n\
         # `orco doctor` checks them. Relative paths start in the folder in which orco runs.\n",
    );
    let mut subcommands: Option<Vec<&str>> = None;
    for setting in settings(command) {
        if subcommands.as_ref() != Some(&setting.subcommands) {
            let of = match setting.subcommands.as_slice() {
                [] => "every command".into(),
                subcommands => format!("orco {}", subcommands.join(", ")),
            };
            text += &format!("\n## {of}\n");
            subcommands = Some(setting.subcommands.clone());
        }
        let help = setting.option.get_long_help().or(setting.option.get_help()).map(ToString::to_string);
        // The last stop of a help text was taken away.
        let mut help = format!("{}.", help.unwrap_or_default().replace('\n', " ").trim_end_matches('.'));
        let values = setting.option.get_possible_values();
        let known: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        if !known.is_empty() && !setting.is_switch() {
            help += &format!(" One of {}.", known.join(", "));
        }
        help += &format!(" Variable {}.", setting.variable());
        let name = || setting.option.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
        let value = setting.default().unwrap_or_else(|| {
            help += " Not set by default.";
            Value::from(name().unwrap_or_default())
        });
        text += &format!("\n{}#{} = {value}\n", wrapped(&help), setting.key());
    }
    text
}

/// A text as lines of comment.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        if lines.last().is_some_and(|line| line.len() + 1 + word.len() > WIDTH) {
            lines.push(String::from("#"));
        }
        if let Some(line) = lines.last_mut() {
            *line += " ";
            *line += word;
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Every option of a command and of its subcommands that has another default in the other command, with its
    /// variable.
    fn changed_defaults(command: &Command, other: &Command) -> Vec<(String, Option<String>)> {
        let mut changed = Vec::new();
        for (option, other) in command.get_arguments().zip(other.get_arguments()) {
            if option.get_default_values() != other.get_default_values() {
                let variable = option.get_env().map(|name| name.to_string_lossy().into_owned());
                changed.push((format!("{} {}", command.get_name(), option.get_id()), variable));
            }
        }
        let subcommands = command.get_subcommands().zip(other.get_subcommands());
        changed.extend(subcommands.flat_map(|(subcommand, other)| changed_defaults(subcommand, other)));
        changed
    }

    #[test]
    fn a_file_that_nobody_can_look_at_is_not_taken_for_none() {
        let (plain, folder) = (crate::Cli::command(), tempfile::tempdir().unwrap());
        let path = folder.path().join("orco.toml");
        assert!(SettingsFile::read_if_there(&plain, &path).unwrap().is_none());
        std::fs::write(&path, "engine = \"rten\"\n").unwrap();
        assert!(SettingsFile::read_if_there(&plain, &path).unwrap().is_some());
        // Root may look into every folder, but into no file.
        let refused = SettingsFile::read_if_there(&plain, &path.join("orco.toml")).err().unwrap().to_string();
        assert!(refused.starts_with("cannot read the settings in "), "{refused}");
    }

    #[test]
    fn a_file_sets_no_option_that_is_no_setting() {
        let plain = crate::Cli::command();
        let values = settings(&plain).iter().map(|setting| (setting.key().to_owned(), vec!["x".into()])).collect();
        let set = SettingsFile { path: PathBuf::new(), values, faults: BTreeMap::new() }.apply(plain.clone());
        let changed = changed_defaults(&set, &plain);
        assert!(changed.iter().any(|(option, _)| option == "serve regions"), "{changed:?}");
        let wrong: Vec<_> = changed.iter().filter(|(_, variable)| variable.is_none()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
