//! A Debian in a folder of the cache, whose programs work on folders of this machine. Needs root, `unshare`, and
//! `mmdebstrap` or `debootstrap`; network for the first time.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::package::{output, run};

/// What brings compilers for other machines: the release that always has a recent one.
const RELEASE: &str = "sid";
/// Shares folders at their own paths, then runs what comes after `--`, in the present folder.
const ENTER: &str = r#"
root=$0
while [ "$1" != -- ]; do mkdir -p "$root$1" && mount --bind "$1" "$root$1" || exit 125; shift; done
shift
mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" && exec chroot "$root" env -C "$PWD" "$@""#;

/// Makes a Debian that holds what every Debian holds: a folder, or a tar file where the name says so.
///
/// # Errors
/// If neither mmdebstrap nor debootstrap makes one.
pub fn bootstrap(release: &str, to: &Path, scratch: &Path) -> Result<(), Box<dyn Error>> {
    if output(Command::new("mmdebstrap").arg("--version")).is_ok() {
        return run(Command::new("mmdebstrap").args(["--variant=minbase", release]).arg(to));
    }
    let is_tar = to.extension().is_some_and(|extension| extension == "tar");
    let root = if is_tar { scratch.join("root") } else { to.to_owned() };
    run(Command::new("debootstrap").args(["--variant=minbase", release]).arg(&root))?;
    if is_tar { run(Command::new("tar").arg("-cpf").arg(to).arg("-C").arg(&root).arg(".")) } else { Ok(()) }
}

/// A Debian with some packages.
#[derive(Debug)]
pub struct Root {
    folder: PathBuf,
}

impl Root {
    /// The one in the cache of this name, made there if it is not: its packages, and those of other architectures as
    /// `PACKAGE:ARCHITECTURE`. `program` is a file that one of them brings.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn of(name: &str, packages: &[&str], program: &'static str) -> Result<Self, Box<dyn Error>> {
        let cache = Cache::of_user()?;
        let name = format!("debian-{RELEASE}-{name}");
        cache.install(&name, &[program], |kept, scratch| {
            eprintln!("Making a Debian {RELEASE} with {} in {}", packages.join(" "), cache.path(&name).display());
            let failed =
                |error: Box<dyn Error>| crate::error::SetupCause::file(kept)(std::io::Error::other(error.to_string()));
            bootstrap(RELEASE, kept, scratch).map_err(failed)?;
            Self { folder: kept.to_owned() }.install(packages).map_err(failed)
        })?;
        Ok(Self { folder: cache.path(&name) })
    }

    fn install(&self, packages: &[&str]) -> Result<(), Box<dyn Error>> {
        let architectures = packages.iter().filter_map(|package| Some(package.split_once(':')?.1));
        for architecture in architectures {
            run(&mut self.command(&[], &["dpkg", "--add-architecture", architecture]))?;
        }
        let get = |words: &[&str]| {
            let mut command = self.command(&[], &[&["apt-get", "--yes", "--quiet"], words].concat());
            run(command.env("DEBIAN_FRONTEND", "noninteractive"))
        };
        // Mirrors that stand still hold lists that have run out.
        get(&["-o", "Acquire::Check-Valid-Until=false", "update"])?;
        get(&[&["install", "--no-install-recommends"], packages].concat())?;
        get(&["clean"])
    }

    /// A file inside.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.folder.join(inside.trim_start_matches('/'))
    }

    /// A command inside, started in the root's own folder unless the command is given one that is shared; it sees these
    /// folders of the machine at their own paths.
    pub fn command(&self, shared: &[&Path], words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "bash", "-c", ENTER]).arg(&self.folder).args(shared).arg("--").args(words);
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("LANG", "C.UTF-8").env("HOME", "/root").current_dir("/");
        command
    }
}

/// Folders of this machine that Cargo inside works with: the checkout, Cargo's own, and where it builds.
///
/// # Errors
/// If a folder cannot be made.
pub fn folders_of_cargo(target: &Path) -> Result<[PathBuf; 3], Box<dyn Error>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).ok_or("there is no home folder")?;
    fs::create_dir_all(target)?;
    Ok([crate::checks::workspace().to_owned(), home, target.to_owned()])
}
