//! Debian installations in folders of the cache, whose programs work on folders of this machine: one with compilers for
//! other machines, one for aarch64, one with Home Assistant. Needs root, `unshare`, and `mmdebstrap` or, for the first
//! of them, `debootstrap`; making one needs the network.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::emulation;
use crate::environment::workspace;
use crate::error::SetupCause;
use crate::metadata::cargo_home;
use crate::process::{must_run, output};

/// What brings compilers for other machines: the release that always has recent ones.
const SID: &str = "sid";
/// What packages are made for; programs that are linked to it run on later releases, too.
pub const PACKAGED: &str = "bookworm";
/// Rust with its library as source and for aarch64, linkers for microcontrollers and aarch64, their machines, and what
/// programs for aarch64 are linked to when they run here.
const COMPILERS: [&str; 13] = [
    "cargo",
    "rustc",
    "rust-src",
    "gcc",
    "libc6-dev",
    "binutils-arm-none-eabi",
    "qemu-system-arm",
    "gcc-aarch64-linux-gnu",
    "libstd-rust-dev:arm64",
    "libstdc++6:arm64",
    "qemu-user",
    // cargo-deb asks it what a program is linked to.
    "dpkg-dev",
    "xz-utils",
];
/// Files of these.
const OF_COMPILERS: [&str; 6] = [
    "usr/bin/cargo",
    "usr/bin/qemu-system-arm",
    "usr/bin/qemu-aarch64",
    "usr/bin/aarch64-linux-gnu-gcc",
    "usr/bin/dpkg-shlibdeps",
    "usr/lib/rustlib/aarch64-unknown-linux-gnu",
];
/// Where a Debian for arm64 has what is linked to.
const LIBRARIES: &str = "usr/lib/aarch64-linux-gnu";
/// Variables that name proxies on the way out.
pub const PROXIES: [&str; 6] = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
/// Mirrors that stand still hold lists that have run out.
const STANDING: &str = "--aptopt=Acquire::Check-Valid-Until \"false\"";
/// Shares folders at their own paths, then runs what comes after `--`, in the present folder.
const ENTER: &str = r#"
root=$0
while [ "$1" != -- ]; do mkdir -p "$root$1" && mount --rbind "$1" "$root$1" || exit 125; shift; done
shift
mount --rbind /proc "$root/proc" && mount --rbind /dev "$root/dev" && exec chroot "$root" env -C "$PWD" "$@""#;
/// Runs what comes after chroot's own option, with nothing of this machine but its processes.
const ENTER_ALONE: &str = r#"mount --rbind /proc "$0/proc" && exec chroot $1 "$0" "${@:2}""#;

/// Makes a Debian for this machine that holds what every Debian holds: a folder, or a tar file where the name says so.
///
/// # Errors
/// If neither mmdebstrap nor debootstrap is there, or the first of them makes none.
pub fn bootstrap(release: &str, to: &Path, scratch: &Path) -> Result<(), Box<dyn Error>> {
    if output(Command::new("mmdebstrap").arg("--version")).is_ok() {
        return must_run(Command::new("mmdebstrap").args([STANDING, "--variant=minbase", release]).arg(to));
    }
    if output(Command::new("debootstrap").arg("--version")).is_err() {
        return Err(
            "neither mmdebstrap nor debootstrap is installed; Debian has them as packages of these names".into()
        );
    }
    let is_tar = to.extension().is_some_and(|extension| extension == "tar");
    let root = if is_tar { scratch.join("root") } else { to.to_owned() };
    must_run(Command::new("debootstrap").args(["--variant=minbase", release]).arg(&root))?;
    if is_tar { must_run(Command::new("tar").arg("-cpf").arg(to).arg("-C").arg(&root).arg(".")) } else { Ok(()) }
}

/// Those of the variables that are set here, for a command in a Debian, which has nothing of this machine otherwise.
pub fn of_this_machine<'a>(names: &'a [&'a str]) -> impl Iterator<Item = (&'a str, OsString)> {
    names.iter().filter_map(|name| Some((*name, env::var_os(name)?)))
}

/// A Debian in a folder.
#[derive(Debug)]
pub struct DebianRoot {
    folder: PathBuf,
    /// What runs programs for aarch64 there, if they are to run.
    qemu: Option<PathBuf>,
}

impl DebianRoot {
    /// The one in the cache with compilers for other machines, made there if it is not.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn of_compilers() -> Result<Self, Box<dyn Error>> {
        let (cache, name) = (Cache::of_user()?, format!("debian-{SID}-compilers"));
        cache.install(&name, &OF_COMPILERS, |kept, scratch| {
            eprintln!("Making a Debian {SID} with {} in {}", COMPILERS.join(" "), cache.path(&name).display());
            bootstrap(SID, kept, scratch).map_err(failed(kept))?;
            Self::at(kept).install(&COMPILERS).map_err(failed(kept))
        })?;
        Ok(Self::at(&cache.path(&name)))
    }

    /// The one in the cache for aarch64, with what is linked to, made there if it is not.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn of_aarch64(compilers: &Self) -> Result<Self, Box<dyn Error>> {
        let (cache, name) = (Cache::of_user()?, format!("debian-{PACKAGED}-arm64"));
        let qemu = compilers.path("usr/bin/qemu-aarch64");
        cache.install(&name, &["usr/bin/apt-get", "usr/lib/aarch64-linux-gnu/crt1.o"], |kept, _| {
            eprintln!("Making a Debian {PACKAGED} for arm64 in {}", cache.path(&name).display());
            let mut command = emulation::aarch64(&qemu);
            let options = ["--arch=arm64", "--skip=check/qemu", "--variant=minbase", "--include=libc6-dev"];
            must_run(command.args(["mmdebstrap", STANDING]).args(options).arg(PACKAGED).arg(kept)).map_err(failed(kept))
        })?;
        keep_links_inside(&cache.path(&name), LIBRARIES)?;
        Ok(Self { folder: cache.path(&name), qemu: Some(qemu) })
    }

    /// The one in that folder, for this machine.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), qemu: None }
    }

    /// A copy of this Debian in another folder, which is made; it runs programs for aarch64 if this one does.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub fn copied(&self, to: &Path) -> Result<Self, Box<dyn Error>> {
        must_run(Command::new("cp").arg("-a").arg(&self.folder).arg(to))?;
        Ok(Self { folder: to.to_owned(), qemu: self.qemu.clone() })
    }

    /// This Debian, where programs for aarch64 run, too.
    pub fn with_aarch64(self) -> Self {
        Self { qemu: Some(self.path("usr/bin/qemu-aarch64")), ..self }
    }

    /// What runs programs for aarch64.
    pub fn qemu(&self) -> Option<&Path> {
        self.qemu.as_deref()
    }

    /// Installs packages, those of other architectures as `PACKAGE:ARCHITECTURE`.
    ///
    /// # Errors
    /// If a package cannot be installed.
    pub fn install(&self, packages: &[&str]) -> Result<(), Box<dyn Error>> {
        let mut architectures: Vec<&str> = packages.iter().filter_map(|name| Some(name.split_once(':')?.1)).collect();
        architectures.dedup();
        for architecture in architectures {
            must_run(&mut self.command(&[], &["dpkg", "--add-architecture", architecture]))?;
        }
        let get = |words: &[&str]| {
            let mut command = self.command(&[], &[&["apt-get", "--yes", "--quiet"], words].concat());
            must_run(command.env("DEBIAN_FRONTEND", "noninteractive").envs(of_this_machine(&PROXIES)))
        };
        get(&["-o", "Acquire::Check-Valid-Until=false", "update"])?;
        get(&[&["install", "--no-install-recommends"], packages].concat())?;
        get(&["clean"])
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file inside.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.folder.join(inside.trim_start_matches('/'))
    }

    /// A command inside, started in the root's own folder unless the command is given one that is shared; it sees these
    /// folders of the machine at their own paths. Its process is the command's.
    pub fn command(&self, shared: &[&Path], words: &[&str]) -> Command {
        let mut command = self.shell(ENTER);
        command.args(shared).arg("--").args(words).env("HOME", "/root").current_dir("/");
        command
    }

    /// A command inside, as a user or as root. Of this machine it sees the processes alone.
    pub fn command_as(&self, user: Option<&str>, words: &[&str]) -> Command {
        let mut command = self.shell(ENTER_ALONE);
        command.arg(user.map_or_else(|| "--userspec=0:0".to_owned(), |user| format!("--userspec={user}:{user}")));
        command.args(words);
        command
    }

    /// A script that begins outside, with mounts of its own; its `$0` is the root's folder.
    fn shell(&self, script: &str) -> Command {
        let mut command = self.qemu.as_deref().map_or_else(|| Command::new("env"), emulation::aarch64);
        command.args(["unshare", "--mount", "bash", "-c", script]).arg(&self.folder);
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("LANG", "C.UTF-8");
        command
    }
}

/// Makes links in a root's folder that begin with `/` lead to the same file inside that root from wherever it is seen:
/// a linker in another root would follow them to that one's libraries, of another release.
fn keep_links_inside(root: &Path, folder: &str) -> std::io::Result<()> {
    let up = "../".repeat(folder.split('/').count());
    for entry in fs::read_dir(root.join(folder))? {
        let path = entry?.path();
        let Ok(target) = fs::read_link(&path) else { continue };
        if let Ok(inside) = target.strip_prefix("/") {
            fs::remove_file(&path)?;
            std::os::unix::fs::symlink(Path::new(&up).join(inside), &path)?;
        }
    }
    Ok(())
}

/// Puts what failed while a file or folder of the cache was made into the words of a set-up.
pub fn failed(folder: &Path) -> impl Fn(Box<dyn Error>) -> SetupCause {
    move |error| SetupCause::Creation { path: folder.to_owned(), reason: error.to_string() }
}

/// Folders of this machine that Cargo inside works with: the checkout, Cargo's own, and where it builds.
///
/// # Errors
/// If a folder cannot be made.
pub fn folders_of_cargo(target: &Path) -> Result<[PathBuf; 3], Box<dyn Error>> {
    fs::create_dir_all(target)?;
    Ok([workspace().to_owned(), cargo_home()?, target.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_handed_on_where_they_are_set() {
        let names: Vec<&str> = of_this_machine(&["PATH", "ORCO_IS_NOT_SET"]).map(|(name, _)| name).collect();
        assert_eq!(names, ["PATH"]);
        let alone = DebianRoot::at(Path::new("/nowhere")).command(&[], &["true"]);
        assert!(alone.get_envs().all(|(name, _)| PROXIES.iter().all(|proxy| name != *proxy)));
    }

    #[test]
    fn links_lead_to_the_root_that_they_lie_in() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("usr/lib/there");
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink("usr/lib", root.path().join("lib")).unwrap();
        fs::write(folder.join("libm.so.6"), "its own").unwrap();
        std::os::unix::fs::symlink("/lib/there/libm.so.6", folder.join("libm.so")).unwrap();
        std::os::unix::fs::symlink("libm.so.6", folder.join("libm.so.5")).unwrap();
        for _ in 0..2 {
            keep_links_inside(root.path(), "usr/lib/there").unwrap();
            assert_eq!(fs::read(folder.join("libm.so")).unwrap(), b"its own");
            assert_eq!(fs::read_link(folder.join("libm.so.5")).unwrap(), Path::new("libm.so.6"));
        }
    }
}
