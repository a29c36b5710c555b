//! Where a bundle is written: made beside its folder, and moved there whole. An older bundle is set aside before it
//! goes, so that a kill at any moment leaves the old or the new one.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use orco_runtime::files::lock::HeldFile;
use orco_runtime::files::{folder_of, partial, sync_folder};
use orco_runtime::manifest::{
    BACKBONE, BACKBONE_INT8, BENCHMARK, LABELS, LEARNER, MANIFEST, Manifest, SIGNATURE, STATISTICS,
};

/// Name of a bundle's card.
pub(super) const CARD: &str = "README.md";
/// Every file that a bundle may have.
const FILES: [&str; 9] = [BACKBONE, BACKBONE_INT8, LEARNER, STATISTICS, BENCHMARK, LABELS, MANIFEST, SIGNATURE, CARD];

/// A bundle in the making, in the folder `.NAME.partial` beside its own. It goes away with this value unless
/// [`BundleOutput::finish`] moves it to where it belongs. One process at a time makes a bundle for a folder.
#[derive(Debug)]
pub struct BundleOutput {
    folder: PathBuf,
    staged: PathBuf,
    aside: PathBuf,
    is_finished: bool,
    /// Keeps other processes out of `staged`.
    _held: Option<HeldFile>,
}

impl BundleOutput {
    /// Prepares to write a bundle into `folder`, which is new, empty, or an older bundle. What an interrupted call left
    /// beside it is tidied up: an old bundle that was set aside comes back where no new one had taken its place.
    ///
    /// # Errors
    /// If `folder` is something else, which is left alone, it lies in the folder of the `run` or holds it, another
    /// process makes a bundle for it, or nothing can be written there.
    pub fn prepare(folder: &Path, run: &Path) -> Result<Self> {
        let shown = folder.display();
        let Some(name) = folder.file_name() else {
            bail!("{shown} names no folder to write the bundle into; give one with --output");
        };
        let (resolved_folder, run) = (resolved(folder)?, resolved(run)?);
        if resolved_folder.starts_with(&run) || run.starts_with(&resolved_folder) {
            bail!("{shown} and the run's folder must not lie within each other; choose another folder with --output");
        }
        let beside = |ending: &str| folder.with_file_name(format!(".{}.{ending}", name.to_string_lossy()));
        let (staged, aside) = (beside("partial"), beside("old"));
        // What another process makes is none that an interrupted call left.
        let leftover_held = hold(&staged, folder)?;
        let (begun, replaced) = (LeftoverBundle::begun(&staged)?, LeftoverBundle::replaced(&aside)?);
        if replaced.is_some_and(|replaced| !replaced.is_empty()) && fs::symlink_metadata(folder).is_err() {
            fs::rename(&aside, folder).with_context(|| format!("cannot bring back the old {shown}"))?;
            log::info!("brought back {shown}, which an interrupted run had set aside");
        }
        check(folder)?;
        if let Some(replaced) = LeftoverBundle::replaced(&aside)? {
            replaced.remove()?;
        }
        begun.map_or(Ok(()), LeftoverBundle::remove)?;
        drop(leftover_held);
        fs::create_dir_all(&staged)
            .with_context(|| format!("cannot write the bundle {shown}: cannot create {}", staged.display()))?;
        let held = hold(&staged, folder)?;
        Ok(Self { folder: folder.into(), staged, aside, is_finished: false, _held: held })
    }

    /// The folder that the bundle is meant for.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that it is made in.
    pub fn staged(&self) -> &Path {
        &self.staged
    }

    /// Moves the bundle to its folder.
    ///
    /// # Errors
    /// If something that is no bundle came to lie there, or a folder cannot be moved; the older bundle is then still
    /// there.
    pub fn finish(mut self) -> Result<()> {
        let Self { folder, staged, aside, .. } = &self;
        let shown = folder.display();
        check(folder)?;
        let remove_aside = || LeftoverBundle::replaced(aside)?.map_or(Ok(()), LeftoverBundle::remove);
        remove_aside()?;
        let replaces = folder.exists();
        if replaces {
            fs::rename(folder, aside).with_context(|| format!("cannot set the old {shown} aside"))?;
        }
        if let Err(error) = fs::rename(staged, folder) {
            if replaces {
                let _ = fs::rename(aside, folder);
            }
            return Err(error).with_context(|| format!("cannot write {shown}"));
        }
        // The names must reach the disk before what they replaced leaves it; not every system can sync a folder.
        let _ = sync_folder(folder_of(folder));
        let removed = remove_aside();
        self.is_finished = true;
        removed
    }
}

impl Drop for BundleOutput {
    fn drop(&mut self) {
        // After `finish` another process may make a bundle there.
        if !self.is_finished {
            let _ = LeftoverBundle::begun(&self.staged).map(|begun| begun.map(LeftoverBundle::remove));
        }
    }
}

/// Holds the folder `staged`, in which the bundle for `folder` is made. Nothing where there is none, or the system has
/// no locks for folders.
///
/// # Errors
/// If another process holds it.
fn hold(staged: &Path, folder: &Path) -> Result<Option<HeldFile>> {
    if !fs::symlink_metadata(staged).is_ok_and(|facts| facts.is_dir()) {
        return Ok(None);
    }
    HeldFile::folder(staged, Duration::ZERO).map_err(|_| {
        anyhow!(
            "another orco-train makes the bundle {}; wait for it, or choose another folder with --output",
            folder.display()
        )
    })
}

/// Refuses a folder that a bundle must not replace.
fn check(folder: &Path) -> Result<()> {
    let shown = folder.display();
    if fs::symlink_metadata(folder).is_ok_and(|facts| facts.is_symlink()) {
        bail!("{shown} is a link, which is not followed here; name the folder that it leads to with --output");
    }
    let names = match entries(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            bail!("{shown} is no folder; choose another one with --output")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    };
    if names.is_empty() {
        return Ok(());
    }
    let text = fs::read_to_string(folder.join(MANIFEST)).unwrap_or_default();
    if Manifest::parse(&text).is_err() {
        bail!("{shown} exists and is no bundle; choose another folder with --output");
    }
    refuse_strangers(folder, &names)
}

/// A folder that an interrupted call left, with files of a bundle only. One of them goes last when it is removed, and
/// tells, however often that is interrupted, that the folder is ours.
struct LeftoverBundle<'a> {
    folder: &'a Path,
    /// That one last.
    names: Vec<String>,
}

impl<'a> LeftoverBundle<'a> {
    /// A bundle in the making, if it is there: its backbone is written first.
    fn begun(folder: &'a Path) -> Result<Option<Self>> {
        let is_backbone = |name: &str| file_of(name) == Some(BACKBONE);
        Self::open(folder, is_backbone, "no bundle that was begun")
    }

    /// A bundle that another one replaced, if it is there.
    fn replaced(folder: &'a Path) -> Result<Option<Self>> {
        let text = fs::read_to_string(folder.join(MANIFEST)).unwrap_or_default();
        let is_manifest = |name: &str| name == MANIFEST && Manifest::parse(&text).is_ok();
        Self::open(folder, is_manifest, "no bundle")
    }

    fn open(folder: &'a Path, is_last: impl Fn(&str) -> bool, what: &str) -> Result<Option<Self>> {
        let shown = folder.display();
        match fs::symlink_metadata(folder) {
            // Whether its own folder can be there is seen when it is made.
            Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
            Ok(facts) if facts.is_dir() => {}
            Ok(_) => bail!("{shown} is in the way and no folder; move it away, or choose another folder with --output"),
        }
        let names = entries(folder).with_context(|| format!("cannot read {shown}"))?;
        refuse_strangers(folder, &names)?;
        let mut names: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
        names.sort_by_key(|name| is_last(name));
        if names.last().is_some_and(|last| !is_last(last)) {
            bail!("{shown} is in the way and {what}; move it away, or choose another folder with --output");
        }
        Ok(Some(Self { folder, names }))
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Removes those files, and the folder, unless another one came into it.
    fn remove(self) -> Result<()> {
        let files = self.names.iter().try_for_each(|name| fs::remove_file(self.folder.join(name)));
        let removed = files.and_then(|()| fs::remove_dir(self.folder));
        removed.with_context(|| format!("cannot remove {}", self.folder.display()))
    }
}

/// The file of a bundle with that name, or whose unfinished copy has it: a copy that was being written when the program
/// was killed.
fn file_of(name: &str) -> Option<&'static str> {
    let is = |file: &&str| {
        let path = Path::new(*file);
        // Older programs named copies `.tmp`.
        [path, &partial(path), &path.with_extension("tmp")].contains(&Path::new(name))
    };
    FILES.into_iter().find(is)
}

/// Names in a folder, sorted, with whether each is a plain file.
fn entries(folder: &Path) -> std::io::Result<Vec<(String, bool)>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        names.push((entry.file_name().to_string_lossy().into_owned(), entry.file_type()?.is_file()));
    }
    names.sort();
    Ok(names)
}

fn refuse_strangers(folder: &Path, names: &[(String, bool)]) -> Result<()> {
    let stranger = names.iter().find(|(name, is_file)| !is_file || file_of(name).is_none());
    match stranger {
        None => Ok(()),
        Some((name, _)) => bail!(
            "{} holds {name:?}, which is no part of a bundle and would be lost; move it away, or choose another folder \
             with --output",
            folder.display()
        ),
    }
}

/// A path without links and detours, as far as it exists.
fn resolved(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).with_context(|| format!("the path {}", path.display()))?;
    let found = absolute.ancestors().find_map(|there| Some((there, there.canonicalize().ok()?)));
    Ok(match found {
        // Joining nothing would add a slash.
        Some((there, real)) if there == absolute => real,
        Some((there, real)) => real.join(absolute.strip_prefix(there).expect("an ancestor")),
        None => absolute,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/cifar100-edge/manifest.toml");

    /// A folder that passes for a bundle, marked.
    fn bundle(folder: &Path, mark: &str) {
        fs::create_dir_all(folder).unwrap();
        fs::copy(SHIPPED, folder.join(MANIFEST)).unwrap();
        fs::write(folder.join(LABELS), mark).unwrap();
        fs::write(folder.join(BACKBONE), "").unwrap();
    }

    fn mark(folder: &Path) -> String {
        fs::read_to_string(folder.join(LABELS)).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        entries(folder).unwrap().into_iter().map(|(name, _)| name).collect()
    }

    /// A folder, and in it the places of a bundle and of its run, where nothing is yet.
    fn places() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let (output, run) = (root.path().join("out"), root.path().join("run"));
        (root, output, run)
    }

    /// Demands that the bundle with this mark is there, and nothing beside it.
    fn assert_alone(output: &Path, expected: &str) {
        assert_eq!((mark(output).as_str(), names(output.parent().unwrap())), (expected, vec!["out".to_owned()]));
    }

    #[test]
    fn a_whole_bundle_takes_the_place_of_an_older_one() {
        let (_root, output, run) = places();
        for mark_of_it in ["first", "second"] {
            let made = BundleOutput::prepare(&output, &run).unwrap();
            bundle(made.staged(), mark_of_it);
            made.finish().unwrap();
            assert_alone(&output, mark_of_it);
        }
        // A run that fails leaves the older bundle, and nothing else.
        drop(BundleOutput::prepare(&output, &run).unwrap());
        assert_alone(&output, "second");
    }

    /// As where two runs were given one folder by mistake: the second one must not remove what the first one makes.
    #[cfg(unix)]
    #[test]
    fn one_process_at_a_time_makes_a_bundle() {
        let (root, output, run) = places();
        let other = root.path().join("other");
        let made = BundleOutput::prepare(&output, &run).unwrap();
        for _ in 0..2 {
            let refused = BundleOutput::prepare(&output, &other).unwrap_err().to_string();
            assert!(refused.starts_with("another orco-train makes the bundle "), "{refused}");
        }
        bundle(made.staged(), "first");
        made.finish().unwrap();
        drop(BundleOutput::prepare(&output, &other).unwrap());
        assert_alone(&output, "first");
    }

    #[test]
    fn a_folder_with_something_else_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("run");
        let refused = |output: &Path| format!("{:#}", BundleOutput::prepare(output, &run).unwrap_err());
        let project = root.path().join("project");
        fs::create_dir(&project).unwrap();
        fs::write(project.join(MANIFEST), "[package]\nname = \"mine\"\n").unwrap();
        assert!(refused(&project).contains("exists and is no bundle"), "{}", refused(&project));

        let notes = root.path().join("notes");
        bundle(&notes, "old");
        fs::write(notes.join("thesis.tex"), "years").unwrap();
        assert!(refused(&notes).contains("holds \"thesis.tex\""), "{}", refused(&notes));
        fs::remove_file(notes.join("thesis.tex")).unwrap();
        fs::create_dir(notes.join("photos")).unwrap();
        assert!(refused(&notes).contains("holds \"photos\""), "{}", refused(&notes));

        // Not even what goes by the names of leftovers is removed where it is something else.
        let odd = root.path().join(".fresh.partial");
        fs::create_dir(&odd).unwrap();
        fs::write(odd.join("precious"), "").unwrap();
        assert!(refused(&root.path().join("fresh")).contains("holds \"precious\""));
        assert_eq!(mark(&notes), "old");
    }

    #[test]
    fn a_kill_between_two_renames_is_mended_at_the_next_start() {
        let (root, output, run) = places();
        bundle(&root.path().join(".out.old"), "old");
        bundle(&root.path().join(".out.partial"), "half");
        drop(BundleOutput::prepare(&output, &run).unwrap());
        assert_alone(&output, "old");
        // The new one was in place, the old one not yet deleted.
        bundle(&root.path().join(".out.old"), "older");
        drop(BundleOutput::prepare(&output, &run).unwrap());
        assert_alone(&output, "old");
    }

    /// What a user may have under the names of leftovers, with files that bundles have too.
    #[test]
    fn what_only_looks_like_a_leftover_is_left_alone() {
        for name in [".out.old", ".out.partial"] {
            let (root, output, run) = places();
            let theirs = root.path().join(name);
            fs::create_dir(&theirs).unwrap();
            fs::write(theirs.join(CARD), "years of notes").unwrap();
            let refused = format!("{:#}", BundleOutput::prepare(&output, &run).unwrap_err());
            assert!(refused.contains(name) && refused.contains("is in the way and no bundle"), "{refused}");
            assert_eq!(names(root.path()), [name]);
            assert_eq!(names(&theirs), [CARD]);
        }
    }

    #[test]
    fn a_removal_that_was_interrupted_is_ended() {
        let (root, output, run) = places();
        bundle(&output, "whole");
        let (old, begun) = (root.path().join(".out.old"), root.path().join(".out.partial"));
        for folder in [&old, &begun] {
            fs::create_dir(folder).unwrap();
        }
        fs::copy(SHIPPED, old.join(MANIFEST)).unwrap();
        fs::write(begun.join(partial(Path::new(BACKBONE))), "half").unwrap();
        drop(BundleOutput::prepare(&output, &run).unwrap());
        assert_alone(&output, "whole");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        for link in ["out", ".out.old", ".out.partial"] {
            let (root, output, run) = places();
            bundle(&root.path().join("theirs"), "theirs");
            std::os::unix::fs::symlink("theirs", root.path().join(link)).unwrap();
            assert!(BundleOutput::prepare(&output, &run).is_err());
            assert_eq!(mark(&root.path().join("theirs")), "theirs");
            assert!(fs::symlink_metadata(root.path().join(link)).unwrap().is_symlink());
        }
    }

    #[test]
    fn a_bundle_and_its_run_keep_apart() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("run");
        fs::create_dir(&run).unwrap();
        fs::create_dir(root.path().join("other")).unwrap();
        for output in [run.clone(), run.join("bundle"), root.path().join("other/../run/x"), root.path().to_owned()] {
            let error = BundleOutput::prepare(&output, &run).unwrap_err().to_string();
            assert!(error.contains("must not lie within each other"), "{error}");
        }
        assert!(names(&run).is_empty());
    }
}
