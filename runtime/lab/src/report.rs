//! A report of a bundle: everything measured as one file of JSON, as CSV, as pictures, and as one page that opens
//! offline.
//!
//! [`BundleReport`] holds all that is shown; pictures and page are made of it alone, so that no number of theirs can be
//! another one.

mod angles;
mod collect;
mod confusion;
mod curves;
pub mod figures;
mod forgetting;
mod page;
mod picture;
mod png;
mod scatter;
mod similarity;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use orco_runtime::files::{partial, remove_if_there, replace_shared};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use angles::{AngleRange, AngleStep};
pub use collect::{ReportPlan, collect};
pub use picture::DrawError;
use picture::{DrawnPicture, Figure};
pub use scatter::{FeaturePlane, PlaneClass, PlanePoint};
pub use similarity::Similarities;

use crate::published::PaperTable;
use crate::results::Results;
use orco_benchmark::benchmark::classes_after;
use orco_benchmark::csv::csv;

/// All that a report shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BundleReport {
    /// Every system's numbers.
    #[serde(flatten)]
    pub results: Results,
    /// The command that makes the report.
    pub command: String,
    /// Base classes.
    pub base: usize,
    /// New classes of each session.
    pub ways: Vec<u32>,
    /// Shots of a class.
    pub shots: u32,
    /// The paper's table that may stand beside.
    pub paper: Option<PaperTable>,
    /// What the systems do in the last session of the first draw as a bias moves the border.
    pub trade_off: Vec<TradeOff>,
    /// Answers of the device after every session of the first draw.
    pub confusion: Vec<Confusion>,
    /// What became of every class, by the device, mean over the draws.
    pub forgetting: Vec<Forgetting>,
    /// Test pictures of some classes in the plane of their two main axes, before the head and after it.
    pub planes: Option<[FeaturePlane; 2]>,
    /// How near test pictures come to pseudo-targets by the head of the published program, before the first session and
    /// after the last.
    pub similarities: Vec<Similarities>,
    /// Angles between pseudo-targets while they are generated; none if they cannot be made again from the seed.
    pub angles: Option<Vec<AngleStep>>,
}

/// New against base accuracy of a system, in percent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TradeOff {
    /// Name of the system.
    pub system: String,
    /// (A_base, A_inc) along the curve.
    pub points: Vec<(f64, f64)>,
    /// Where its own border lies.
    pub own: (f64, f64),
}

/// Answers after a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confusion {
    /// The session.
    pub session: usize,
    /// Pictures of a class (row) that were answered with a class (column).
    pub counts: Vec<Vec<u32>>,
}

/// What became of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forgetting {
    /// Its label.
    pub label: String,
    /// The session that learned it, 0 for base classes.
    pub session: usize,
    /// Accuracy right after, in percent.
    pub first: f64,
    /// Accuracy after the last session.
    pub last: f64,
    /// The highest accuracy after any session but the last, less that after the last (Chaudhry et al., ECCV 2018); none
    /// for classes of the last session.
    pub forgotten: Option<f64>,
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A picture could not be drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// The folder is not a report's.
    #[error("the folder {} holds something that is no report; name a new or empty one with --output", path.display())]
    Taken {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has files of others under the names of figures.
    #[error(
        "the folder {} has a figures.json or pictures that are none of these figures; name another one with --output",
        path.display()
    )]
    NoFigures {
        /// The folder.
        path: PathBuf,
    },
}

impl WriteError {
    /// A file or folder that could not be written.
    fn file(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::File { path: path.into(), source }
    }
}

/// Makes the folder of a report, before anything is measured for it.
///
/// # Errors
/// [`WriteError`] if nothing can be written there, or it holds something that is no report.
pub fn prepare(folder: &Path) -> Result<(), WriteError> {
    // What a report leaves behind which was stopped before its first file was whole, and what other commands put there.
    let others = ["ablations", "scenes", "estimates"].map(|name| folder.join(name));
    let ours = [&[folder.join(WRITE_PROBE), partial(&folder.join(REPORT))][..], &others].concat();
    let holds_something = match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().any(|entry| !ours.contains(&entry.path())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(WriteError::file(folder)(error)),
    };
    if holds_something && !is_made_by(&folder.join(REPORT), "report") {
        return Err(WriteError::Taken { path: folder.into() });
    }
    // What is there from before has to be written over.
    let pictures = folder.join(PICTURES);
    if pictures.exists() {
        writable(&pictures).map_err(WriteError::file(folder))?;
    }
    writable(folder).map_err(WriteError::file(folder))
}

/// Whether a file was written by this command of the laboratory, of this version or of another one: in all of them
/// stands the line that makes it.
fn is_made_by(file: &Path, command: &str) -> bool {
    let there = fs::read(file).unwrap_or_default();
    let json: Value = serde_json::from_slice(&there).unwrap_or_default();
    json["command"].as_str().is_some_and(|line| line.contains(&format!("orco-lab -- {command} ")))
}

/// Makes a folder if it is not there, and makes sure that files can be written into it.
///
/// # Errors
/// If not, or if a file of others has the name of the one that is written for that.
pub fn writable(folder: &Path) -> io::Result<()> {
    let leads_nowhere = fs::symlink_metadata(folder).is_ok_and(|facts| facts.is_symlink()) && !folder.exists();
    if leads_nowhere {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it is a link that leads nowhere"));
    }
    fs::create_dir_all(folder)?;
    let probe = folder.join(WRITE_PROBE);
    match fs::File::create_new(&probe) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // What a stopped process left is an empty file. A link or anything else is neither emptied nor removed.
            let is_theirs = |facts: fs::Metadata| !facts.is_file() || facts.len() > 0;
            if fs::symlink_metadata(&probe).is_ok_and(is_theirs) {
                let why = format!("its {WRITE_PROBE} is no file of this program; move it away");
                return Err(io::Error::new(error.kind(), why));
            }
        }
        made => drop(made?),
    }
    remove_if_there(&probe)
}

/// Writes a file of a report whole, in place of one that is there.
fn write_file(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    replace_shared(path, bytes).map_err(WriteError::file(path))
}

/// Writes a picture as `NAME.svg` and `NAME.png` into a folder; returns both paths.
fn write_picture(folder: &Path, name: &str, picture: &DrawnPicture) -> Result<[PathBuf; 2], WriteError> {
    let [svg, png] = ["svg", "png"].map(|kind| folder.join(format!("{name}.{kind}")));
    write_file(&svg, picture.svg.as_bytes())?;
    write_file(&png, &picture.png)?;
    Ok([svg, png])
}

/// Writes who was taken for whom as `confusion-NAME.json`, `.svg` and `.png` into a folder. Lines in the picture stand
/// between sessions; `classes_after` are the classes known after each.
///
/// # Errors
/// [`WriteError`] if a file cannot be written.
pub fn write_confusion(
    folder: &Path,
    name: &str,
    confusion: &Confusion,
    classes_after: &[usize],
) -> Result<(), WriteError> {
    let json = serde_json::to_string(confusion).expect("numbers") + "\n";
    let drawn = confusion::Matrix { confusion, classes_after }.drawn()?;
    write_file(&folder.join(format!("confusion-{name}.json")), json.as_bytes())?;
    write_picture(folder, &format!("confusion-{name}"), &drawn).map(drop)
}

/// Name of a file that is written to see whether files can be.
const WRITE_PROBE: &str = ".orco-lab";

/// Name of the file that holds all of a report, and is written first.
const REPORT: &str = "report.json";

/// Folder of a report's pictures.
const PICTURES: &str = "pictures";

/// Pictures that reports have; those of a session have its number behind the name.
const PICTURE_NAMES: [&str; 9] = [
    "harmonic-mean",
    "sessions",
    "trade-off",
    "confusion",
    "features",
    "projections",
    "similarities",
    "forgetting",
    "angles",
];

/// Whether a file has the name of a picture of some report.
fn is_report_picture(path: &Path) -> bool {
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches('-');
    PICTURE_NAMES.contains(&name) && path.extension().is_some_and(|kind| kind == "svg" || kind == "png")
}

/// A session as it is called in pictures and tables.
fn session_name(session: usize) -> String {
    if session == 0 { "base".into() } else { session.to_string() }
}

/// Why a report that was written before could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadReportError {
    /// The file could not be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no report of this version.
    #[error("{} is no report of this version; make it again with `orco-lab report`", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}

impl BundleReport {
    /// Reads the report that [`BundleReport::write`] left in a folder.
    ///
    /// # Errors
    /// [`ReadReportError`] if there is none, or it is of another version.
    pub fn read(folder: &Path) -> Result<Self, ReadReportError> {
        let path = folder.join(REPORT);
        let json = fs::read(&path).map_err(|source| ReadReportError::File { path: path.clone(), source })?;
        serde_json::from_slice(&json).map_err(|source| ReadReportError::Form { path, source })
    }

    /// Writes `report.json`, `numbers.csv`, `index.html` and `pictures/*.svg`, `*.png` into a folder, which is made.
    /// Each is written whole or not at all, `report.json` first: wherever it is stopped, it can be written again.
    /// Pictures that another report left there are removed.
    ///
    /// # Errors
    /// [`WriteError`] if a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), WriteError> {
        let pictures = folder.join(PICTURES);
        fs::create_dir_all(folder).map_err(WriteError::file(folder))?;
        write_file(&folder.join(REPORT), self.json().as_bytes())?;
        fs::create_dir_all(&pictures).map_err(WriteError::file(&pictures))?;
        write_file(&folder.join("numbers.csv"), csv(self.results.summaries()).as_bytes())?;
        write_file(&folder.join("index.html"), self.page()?.as_bytes())?;
        let mut drawn_now = Vec::new();
        for (name, drawn) in self.pictures()? {
            drawn_now.extend(write_picture(&pictures, &name, &drawn)?);
        }
        // Of a report that was there before, and showed more.
        let failed = WriteError::file(&pictures);
        for entry in fs::read_dir(&pictures).map_err(&failed)? {
            let path = entry.map_err(&failed)?.path();
            if is_report_picture(&path) && !drawn_now.contains(&path) {
                fs::remove_file(&path).map_err(&failed)?;
            }
        }
        Ok(())
    }

    /// The report as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts") + "\n"
    }

    /// The page, with all pictures in it.
    ///
    /// # Errors
    /// [`DrawError`] if a picture cannot be drawn.
    pub fn page(&self) -> Result<String, DrawError> {
        page::page(self)
    }

    /// All pictures, by name.
    fn pictures(&self) -> Result<Vec<(String, DrawnPicture)>, DrawError> {
        let mut all = curves::pictures(self)?;
        all.extend(confusion::pictures(self)?);
        all.extend(scatter::pictures(self)?);
        all.extend(similarity::pictures(self)?);
        all.extend(forgetting::pictures(self)?);
        all.extend(angles::pictures(self)?);
        Ok(all)
    }

    /// Number of the session that learned a class.
    fn session_of(&self, class: usize) -> usize {
        self.classes_after().partition_point(|known| *known <= class)
    }

    /// Classes known after each session.
    fn classes_after(&self) -> Vec<usize> {
        classes_after(self.base, self.ways.iter().map(|ways| *ways as usize))
    }
}
