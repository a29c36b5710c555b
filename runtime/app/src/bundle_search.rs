//! Finds a bundle that is given by its name, or not at all.

use std::env;
use std::path::{Component, Path, PathBuf};

use orco_runtime::manifest::MANIFEST;

/// The bundle where none is named: in a copy of the repository it is there.
pub const DEFAULT: &str = "models/everyday";
/// Where bundles lie within a folder for data.
const MODELS: &str = "models";

/// Folders that may hold `models/NAME`, in the order in which they are searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleFolders(Vec<PathBuf>);

impl BundleFolders {
    /// Beside the program, the user's folder for data, the system's.
    pub fn of_machine() -> Self {
        Self::of(env::current_exe().ok().as_deref(), variable)
    }

    fn of(program: Option<&Path>, variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let mut places: Vec<PathBuf> = program.and_then(Path::parent).map(beside).unwrap_or_default();
        // The specification of these variables has programs ignore relative paths.
        let xdg = variable("XDG_DATA_HOME").filter(|folder| folder.is_absolute());
        let user = xdg.or_else(|| Some(variable("HOME")?.join(".local/share")));
        let system = variable("XDG_DATA_DIRS").unwrap_or_else(|| "/usr/local/share:/usr/share".into());
        let data = user.into_iter().chain(env::split_paths(&system));
        places.extend(data.filter(|folder| folder.is_absolute()).map(|folder| folder.join("orco")));
        Self(places)
    }
}

/// What a variable of the environment names; an empty one names nothing.
pub fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The folders that belong to a program in a folder: its own, that of its installation, and the repository that it was
/// built in.
fn beside(folder: &Path) -> Vec<PathBuf> {
    let mut places = vec![folder.to_owned()];
    let Some(parent) = folder.parent() else { return places };
    places.push(parent.join("share/orco"));
    // target/release/orco
    places.extend(parent.parent().filter(|_| parent.ends_with("target")).map(Path::to_owned));
    places
}

/// Where the bundle is: as it is named, or where a name alone, or the default, is found.
///
/// # Errors
/// All places where it was looked for, if it is in none.
pub fn find(named: &Path, places: &BundleFolders) -> Result<PathBuf, Vec<PathBuf>> {
    let is_default = named == Path::new(DEFAULT);
    let is_name = matches!(named.components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
    let is_searched = is_default || is_name && !named.is_dir();
    if named.join(MANIFEST).exists() || !is_searched {
        // If it is no bundle, opening it says so.
        return Ok(named.to_owned());
    }
    let relative = if is_default { named.to_owned() } else { Path::new(MODELS).join(named) };
    let here = if is_default { None } else { Some(relative.clone()) };
    let candidates: Vec<PathBuf> = here.into_iter().chain(places.0.iter().map(|place| place.join(&relative))).collect();
    match candidates.iter().find(|folder| folder.join(MANIFEST).exists()) {
        Some(folder) => Ok(folder.clone()),
        None => Err(std::iter::once(named.to_owned()).chain(candidates).collect()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn bundle(folder: &Path) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(MANIFEST), "").unwrap();
        folder.to_owned()
    }

    #[test]
    fn a_bundle_is_found_beside_the_program_and_in_folders_for_data_in_this_order() {
        let root = tempfile::tempdir().unwrap();
        let at = |place: &str| root.path().join(place);
        let variable = |name: &str| match name {
            "HOME" => Some(at("home")),
            "XDG_DATA_HOME" => Some("relative".into()),
            "XDG_DATA_DIRS" => Some(format!("{}:relative:{}", at("one").display(), at("two").display()).into()),
            _ => None,
        };
        let places = BundleFolders::of(Some(&at("opt/bin/orco")), variable);
        let find = |name: &str| find(Path::new(name), &places);
        let searched = find("garden").unwrap_err();
        let expected = ["opt/bin", "opt/share/orco", "home/.local/share/orco", "one/orco", "two/orco"];
        let expected: Vec<PathBuf> = expected.iter().map(|place| at(place).join("models/garden")).collect();
        assert_eq!(searched[..2], [Path::new("garden"), Path::new("models/garden")]);
        assert_eq!(searched[2..], expected);
        // The last is found, then each before it.
        for folder in expected.iter().rev() {
            bundle(folder);
            assert_eq!(find("garden").as_ref(), Ok(folder));
        }
        let own = bundle(&at("elsewhere"));
        assert_eq!(find(own.to_str().unwrap()), Ok(own));
        let missing = at("missing");
        assert_eq!(find(missing.to_str().unwrap()), Ok(missing), "a path that is named is not looked for elsewhere");
    }

    #[test]
    fn a_program_in_a_build_folder_finds_the_bundles_of_its_repository() {
        let places = BundleFolders::of(Some(Path::new("/src/orco/target/release/orco")), |_| None);
        assert!(places.0.contains(&PathBuf::from("/src/orco")));
        let places = BundleFolders::of(Some(Path::new("/tmp/bin/orco")), |_| None);
        assert!(!places.0.contains(&PathBuf::from("/")), "{places:?}");
        assert!(places.0.contains(&PathBuf::from("/usr/share/orco")));
    }
}
