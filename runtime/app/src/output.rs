//! The output of commands: stdout, stderr or JSON, tables, progress bars, and the exit code.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use jiff::Timestamp;
use orco_runtime::state::escape;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::advice;
use crate::options::Options;

/// Exit code: what was asked for was done.
const EXIT_DONE: u8 = 0;
/// Exit code: nothing was changed.
const EXIT_UNCHANGED: u8 = 1;
// 2 is a wrong command line, by clap.
/// Exit code: what was asked for was done, or may have been, but something after it failed: not all copies, the report,
/// thumbnails.
const EXIT_DONE_WITH_ERRORS: u8 = 3;

/// Lines for people on standard output and standard error, and a result for programs as JSON. Nothing of it can panic,
/// and what fails after the change was made does not make it look as if it had not been.
pub struct Output {
    json: JsonDestination,
    verbose: bool,
    changed: Cell<bool>,
    /// Whether standard output has failed already.
    stdout_failed: Cell<bool>,
    warnings: RefCell<Vec<String>>,
    errors: RefCell<Vec<String>>,
}

/// Writes a formatted line, as [`Output::line`] does.
macro_rules! say {
    ($output:expr, $($text:tt)*) => { $output.line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Where the result goes as JSON.
enum JsonDestination {
    Nowhere,
    /// Standard output, so that nothing else may.
    Standard,
    File(ReportFile),
}

/// A file for results, opened before anything is done, so that what cannot be written is known before.
pub struct ReportFile {
    shown: String,
    file: File,
}

impl ReportFile {
    /// Opens or makes the file, without emptying it. One that is there must be empty, or hold a result: a mistyped name
    /// must cost neither a photograph nor another program's settings.
    ///
    /// # Errors
    /// If it is something else, lies in the bundle's folder or among the device's states, or cannot be opened.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        options.check_report(path)?;
        let shown = path.display().to_string();
        if !may_be_replaced(path).with_context(|| format!("cannot write {shown}"))? {
            bail!("cannot write {shown}: it holds something else than a result; name another file");
        }
        let file = open_sink(path).with_context(|| format!("cannot write {shown}"))?;
        Ok(Self { shown, file })
    }

    /// Writes a report over an earlier one, which goes only now.
    pub fn write(&self, text: &str) -> Result<()> {
        rewrite(&self.file, text).with_context(|| format!("cannot write {}", self.shown))
    }
}

impl Output {
    /// Makes sure, before anything is done, that the JSON can be written afterwards.
    pub fn open(options: &Options) -> Result<Self> {
        let json = match options.json.as_deref() {
            None => JsonDestination::Nowhere,
            Some(path) if path == Path::new("-") => JsonDestination::Standard,
            Some(path) => JsonDestination::File(ReportFile::open(path, options)?),
        };
        Ok(Self { json, verbose: options.verbose, ..Self::silent() })
    }

    /// One that writes no JSON.
    pub fn silent() -> Self {
        Self {
            json: JsonDestination::Nowhere,
            verbose: false,
            changed: Cell::new(false),
            stdout_failed: Cell::new(false),
            warnings: RefCell::default(),
            errors: RefCell::default(),
        }
    }

    /// Whether standard output takes nothing for people: it is the JSON's, or has failed already.
    fn is_stdout_closed(&self) -> bool {
        matches!(self.json, JsonDestination::Standard) || self.stdout_failed.get()
    }

    /// Whether what only experts need is said, too.
    pub fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Writes a line to standard output, unless that is the JSON's. What cannot be seen in it is written out.
    ///
    /// # Errors
    /// If it cannot be written and nothing was changed yet. After a change that is noted, and the command goes on.
    pub fn line(&self, text: impl Display) -> Result<()> {
        if self.is_stdout_closed() {
            return Ok(());
        }
        self.write_stdout(&format!("{}\n", escape::multiline(&text.to_string())))
    }

    /// Writes what the program drew itself to standard output, colours and all, unless that is the JSON's. Nothing that
    /// others wrote may be in it: see [`Output::line`].
    ///
    /// # Errors
    /// As for [`Output::line`].
    #[cfg(feature = "serve")]
    pub fn drawing(&self, text: &str) -> Result<()> {
        if self.is_stdout_closed() { Ok(()) } else { self.write_stdout(text) }
    }

    fn write_stdout(&self, text: &str) -> Result<()> {
        let mut standard = io::stdout().lock();
        let Err(error) = standard.write_all(text.as_bytes()).and_then(|()| standard.flush()) else { return Ok(()) };
        self.stdout_failed.set(true);
        if error.kind() == io::ErrorKind::BrokenPipe && !self.changed.get() {
            // `orco list | head` ends quietly, as other programs do: by the signal. Until something is changed; then
            // the program has to say how that went.
            sigpipe::reset();
            let _ = standard.write_all(b"\n").and_then(|()| standard.flush());
        }
        let error = anyhow!("cannot write to standard output: {error}");
        if self.changed.get() {
            self.note_error(error);
            return Ok(());
        }
        Err(error)
    }

    /// Says something that is wrong but stops nothing, whatever the log's level.
    pub fn warn(&self, text: impl Display) {
        eprint_escaped(&format!("warning: {text}"));
        self.warnings.borrow_mut().push(text.to_string());
    }

    /// Says at once what is wrong with one thing of several; the exit code stays.
    pub fn print_error(&self, text: impl Display) {
        eprint_escaped(&format!("error: {text}"));
    }

    /// Notes that the change that was asked for is made.
    pub fn mark_changed(&self) {
        self.changed.set(true);
    }

    /// Notes that the change that was asked for is made, or may be, but not as it should.
    pub fn mark_changed_with_error(&self, error: impl Display) {
        self.changed.set(true);
        self.errors.borrow_mut().push(error.to_string());
    }

    /// Notes what has failed, which is said at the end and decides the exit code; the command goes on.
    pub fn note_error(&self, error: impl Display) {
        let change = if self.changed.get() { "; the change was made all the same" } else { "" };
        self.errors.borrow_mut().push(format!("{error}{change}"));
    }

    /// Writes a command's result as JSON, says what failed, and returns the program's exit code.
    pub fn finish(self, done: Result<Value>) -> ExitCode {
        let mut result = done.unwrap_or_else(|error| {
            self.note_error(advice::sentence(&error));
            json!({})
        });
        result["changed"] = self.changed.get().into();
        for (name, sentences) in [("warnings", &self.warnings), ("errors", &self.errors)] {
            if !sentences.borrow().is_empty() {
                result[name] = sentences.borrow().clone().into();
            }
        }
        if let Err(error) = self.write_json(&result) {
            self.note_error(format!("{error:#}"));
        }
        let errors = self.errors.take();
        errors.iter().for_each(|error| eprint_escaped(&format!("error: {error}")));
        ExitCode::from(match (errors.is_empty(), self.changed.get()) {
            (true, _) => EXIT_DONE,
            (false, false) => EXIT_UNCHANGED,
            (false, true) => EXIT_DONE_WITH_ERRORS,
        })
    }

    fn write_json(&self, result: &Value) -> Result<()> {
        let text = format!("{:#}\n", rounded(result));
        match &self.json {
            JsonDestination::Nowhere => Ok(()),
            JsonDestination::Standard => self.write_stdout(&text),
            JsonDestination::File(file) => file.write(&text),
        }
    }
}

/// A result with numbers of six digits: more of them say nothing, and shares of 32 bits become long in 64.
fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let short = number.as_f64().and_then(|number| format!("{number:.5e}").parse::<f64>().ok());
            short.map_or_else(|| value.clone(), Value::from)
        }
        Value::Array(values) => values.iter().map(rounded).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), rounded(value))).collect(),
        other => other.clone(),
    }
}

fn rewrite(mut file: &File, text: &str) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
        file.rewind()?;
    }
    file.write_all(text.as_bytes())?;
    file.flush()
}

/// Writes a line to standard error, for whoever reads it: where nobody can, nothing depends on it. What cannot be seen
/// in it is written out, since names of files and texts out of them may hold anything.
pub fn eprint_escaped(line: &str) {
    let _ = writeln!(io::stderr(), "{}", escape::multiline(line));
}

/// Opens what is there already, a file or something that takes bytes such as a pipe or a terminal, without emptying it;
/// or makes a file.
///
/// # Errors
/// If it cannot be written, or is a disk.
pub fn open_sink(path: &Path) -> Result<File> {
    #[cfg(unix)]
    if let Ok(facts) = fs::metadata(path)
        && std::os::unix::fs::FileTypeExt::is_block_device(&facts.file_type())
    {
        bail!("it is a disk");
    }
    Ok(File::options().write(true).create(true).truncate(false).open(path)?)
}

/// What every result says: see [`Output::finish`].
#[derive(Deserialize)]
struct EarlierResult {
    #[serde(rename = "changed")]
    _changed: bool,
}

/// Whether a plain file is missing, empty or holds a result, which may be cut off.
fn may_be_replaced(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(facts) if facts.is_file() && facts.len() > 0 => {
            let mut file = File::open(path)?;
            let mut start = [0];
            file.read_exact(&mut start)?;
            file.rewind()?;
            Ok(start == *b"{" && is_result(BufReader::new(file)))
        }
        _ => Ok(true),
    }
}

/// Whether an object is a result, or the beginning of one.
fn is_result(object: impl Read) -> bool {
    let read = EarlierResult::deserialize(&mut serde_json::Deserializer::from_reader(object));
    read.map_or_else(|error| error.is_eof(), |_| true)
}

/// A time in seconds since 1970 as date, hour and minute of UTC.
pub fn format_utc(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "-".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn json_has_no_digits_that_say_nothing() {
        let shares =
            json!({ "share": f64::from(0.9_f32), "list": [1.0 / 3.0, 3, "1.23456789"], "tiny": 1.23456789e-9 });
        let expected = json!({ "share": 0.9, "list": [0.333333, 3, "1.23456789"], "tiny": 1.23457e-9 });
        assert_eq!(super::rounded(&shares), expected);
    }

    #[test]
    fn a_result_is_told_from_other_objects() {
        for result in [r#"{"changed": false, "classes": [{"class": 0}]}"#, r#"{"classes": [{"cl"#, "{"] {
            assert!(super::is_result(result.as_bytes()), "{result}");
        }
        for other in
            [r#"{"name": "my-project", "version": "1.0.0"}"#, "{}", "{ // settings\n}", r#"{"changed": "3 May"}"#]
        {
            assert!(!super::is_result(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(super::format_utc(0), "1970-01-01 00:00");
        assert_eq!(super::format_utc(951_827_640), "2000-02-29 12:34");
        assert_eq!(super::format_utc(1_795_220_400), "2026-11-21 00:20");
        assert_eq!(super::format_utc(u64::MAX), "-");
    }
}
