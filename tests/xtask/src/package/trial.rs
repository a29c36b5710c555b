//! The package in a clean Debian root: installed, taught, started, upgraded, removed, purged. Needs root, `unshare`,
//! `mmdebstrap` or `debootstrap`, and network for the first root, which stays in the cache.

use std::error::Error;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Arguments, build, must_run, output};
use crate::cache::Cache;
use crate::cross::{Cross, TRIPLE};
use crate::debian_root::{DebianRoot, PACKAGED, PROXIES, bootstrap, failed, of_this_machine};
use crate::environment::workspace;

/// The version to which the package is upgraded.
const LATER: &str = "99.0.0";
/// How long the service may take for anything.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Tries the package for this machine, in a Debian of the same architecture.
///
/// # Errors
/// If the package cannot be built, or something is not as it should be.
pub fn for_this_machine(profile: &str) -> Result<ExitCode, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    fs::create_dir(&root)?;
    must_run(Command::new("tar").arg("-xpf").arg(root_file()?).arg("-C").arg(&root))?;
    try_in(DebianRoot::at(&root), profile, None)
}

/// Tries the package for aarch64, which QEMU emulates, in a copy of the Debian whose libraries it is linked to.
///
/// # Errors
/// As for [`for_this_machine`].
pub fn for_aarch64(profile: &str, cross: &Cross) -> Result<ExitCode, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let root = cross.system().copied(&folder.path().join("root"))?;
    try_in(root, profile, Some(TRIPLE))
}

/// Builds the package twice, as of two versions, and tries it in a Debian.
fn try_in(root: DebianRoot, profile: &str, target: Option<&str>) -> Result<ExitCode, Box<dyn Error>> {
    // A free port: another program may listen on the usual one.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let device = Device { root, port };
    // One after the other: cargo-deb removes an older package of the same name.
    for (deb_version, inside) in [(None, "/tmp/first.deb"), (Some(LATER.to_owned()), "/tmp/later.deb")] {
        // The later one differs in its version only.
        let lint = deb_version.is_none();
        let (profile, target) = (profile.to_owned(), target.map(str::to_owned));
        let built = build(&Arguments { profile, target, deb_version, fast: true, lint })?.deb;
        fs::copy(&built, device.root.path(inside))
            .map_err(|error| format!("{} cannot be copied: {error}", built.display()))?;
    }
    must_run(Command::new("cp").arg("-r").arg(workspace().join("examples/shots")).arg(device.root.path("/tmp/shots")))?;
    device.install()?;
    device.teach()?;
    device.serve()?;
    let booted = device.boot()?;
    device.upgrade()?;
    device.remove()?;
    let started = if booted { "started, booted with its service" } else { "started" };
    println!("the package can be installed, taught, {started}, upgraded and removed");
    Ok(ExitCode::SUCCESS)
}

/// A tar file with a Debian that holds what every Debian holds.
fn root_file() -> Result<PathBuf, Box<dyn Error>> {
    let folder = format!("debian-{PACKAGED}");
    let cache = Cache::of_user()?;
    cache.install(&folder, &["root.tar"], |kept, scratch| {
        let file = kept.join("root.tar");
        eprintln!("Making a Debian {PACKAGED} in {}", cache.path(&folder).display());
        bootstrap(PACKAGED, &file, scratch).map_err(failed(&file))
    })?;
    Ok(cache.path(&folder).join("root.tar"))
}

/// A Debian that the package is tried in.
struct Device {
    root: DebianRoot,
    /// Where the service listens.
    port: u16,
}

impl Device {
    /// A command inside, as a user or as root.
    fn command(&self, user: Option<&str>, words: &[&str]) -> Command {
        let mut command = self.root.command_as(user, words);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        if self.root.qemu().is_some() {
            // With a second thread, which is QEMU's own here, the program would start again to set this, each time.
            command.env("ORT_DISABLE_TELEMETRY", "1");
        }
        command
    }

    fn orco(&self, words: &[&str]) -> Result<String, Box<dyn Error>> {
        output(&mut self.command(Some("orco"), &[&["orco"], words].concat()))
    }

    fn apt(&self, words: &[&str]) -> Result<(), Box<dyn Error>> {
        let mut command = self.command(None, &[&["apt-get", "-y", "--no-install-recommends"], words].concat());
        output(command.envs(of_this_machine(&PROXIES))).map(drop)
    }

    fn install(&self) -> Result<(), Box<dyn Error>> {
        self.apt(&["install", "/tmp/first.deb"])?;
        expect(self.orco(&["--version"])?.trim() == concat!("orco ", env!("CARGO_PKG_VERSION")), "another version")?;
        expect(self.is_enabled(), "the service does not start with the machine")?;
        let state = fs::metadata(self.root.path("/var/lib/orco"))?;
        expect(state.mode() & 0o777 == 0o700 && state.uid() != 0, "the state's folder is not the service's alone")?;
        let groups = output(&mut self.command(Some("orco"), &["id", "--name", "--groups"]))?;
        expect(groups.split_whitespace().any(|group| group == "video"), "the service's user may not open cameras")?;
        for name in ["copyright", "NOTICE", "licences/onnxruntime", "licences/onnxruntime-third-party"] {
            let path = self.root.path("/usr/share/doc/orco").join(name);
            expect(fs::metadata(path)?.len() > 500, format!("the licence {name} is empty"))?;
        }
        let generated = [
            "man/man1/orco.1.gz",
            "man/man1/orco-learn.1.gz",
            "bash-completion/completions/orco",
            "zsh/vendor-completions/_orco",
            "fish/vendor_completions.d/orco.fish",
        ];
        for name in generated {
            expect(self.root.path("/usr/share").join(name).is_file(), format!("/usr/share/{name} is missing"))?;
        }
        let settings = self.root.path("/etc/orco/orco.toml");
        let changed = fs::read_to_string(&settings)? + &format!("\nlisten = \"127.0.0.1:{}\"\n", self.port);
        Ok(fs::write(&settings, changed)?)
    }

    fn is_enabled(&self) -> bool {
        self.root.path("/etc/systemd/system/multi-user.target.wants/orco.service").symlink_metadata().is_ok()
    }

    fn teach(&self) -> Result<(), Box<dyn Error>> {
        self.orco(&[
            "learn",
            "rubber-duck=/tmp/shots/learn/rubber-duck",
            "traffic-cone=/tmp/shots/learn/traffic-cone",
        ])?;
        let engines = ["onnxruntime", "rten"];
        for engine in engines {
            let picture = "/tmp/shots/try/rubber-duck/1.jpg";
            let found: Value =
                serde_json::from_str(&self.orco(&["classify", picture, "--engine", engine, "--json", "-"])?)?;
            expect(found["images"][0]["matches"][0]["label"] == "rubber-duck", format!("{engine} answers {found}"))?;
        }
        let found: Value = serde_json::from_str(&self.orco(&["doctor", "--json", "-"])?)?;
        let findings = found["findings"].as_array().ok_or("the doctor says nothing")?;
        let runtime = findings.iter().find(|finding| finding["subject"] == "ONNX Runtime");
        let text = runtime.and_then(|finding| finding["text"].as_str()).unwrap_or_default();
        expect(text.ends_with("/usr/lib/orco/libonnxruntime.so"), format!("ONNX Runtime: {text}"))
    }

    /// Starts the service as its unit says, listens to what it tells systemd, and asks it.
    fn serve(&self) -> Result<(), Box<dyn Error>> {
        let unit = fs::read_to_string(self.root.path("/lib/systemd/system/orco.service"))?;
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).ok_or("the unit starts nothing")?;
        let systemd = UnixDatagram::bind(self.root.path("/run/systemd-notify"))?;
        fs::set_permissions(self.root.path("/run/systemd-notify"), Permissions::from_mode(0o777))?;
        systemd.set_read_timeout(Some(TIMEOUT))?;
        let words: Vec<&str> = start.split_whitespace().collect();
        let mut command = self.command(Some("orco"), &words);
        command.env("NOTIFY_SOCKET", "/run/systemd-notify").env("WATCHDOG_USEC", "3000000");
        let mut service = Running(command.spawn()?);
        hears(&systemd, "READY=1")?;
        hears(&systemd, "WATCHDOG=1")?;
        let token = fs::read_to_string(self.root.path("/var/lib/orco/token"))?;
        let facts = fs::metadata(self.root.path("/var/lib/orco/token"))?;
        expect(facts.mode() & 0o777 == 0o600 && facts.uid() != 0, "others may read the token")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        expect(ask(address, "")?.starts_with("HTTP/1.1 401 "), "it answers without a token")?;
        let answer = ask(address, &format!("Authorization: Bearer {}\r\n", token.trim()))?;
        expect(answer.starts_with("HTTP/1.1 200 ") && answer.contains("rubber-duck"), format!("it answers {answer}"))?;
        self.orco(&["doctor"])?;
        must_run(Command::new("kill").args(["-TERM", &service.0.id().to_string()]))?;
        hears(&systemd, "STOPPING=1")?;
        let ended = service.0.wait()?;
        expect(ended.success(), format!("it ended with {ended}"))
    }

    /// Boots the device with the service among all others, which systemd starts again when it dies; false where there
    /// is no systemd-nspawn to boot it in, or the machine is emulated.
    fn boot(&self) -> Result<bool, Box<dyn Error>> {
        if self.root.qemu().is_some() {
            eprintln!("not booted: QEMU's user mode runs programs, and systemd wants a machine");
            return Ok(false);
        }
        if output(Command::new("systemd-nspawn").arg("--version")).is_err() {
            eprintln!("not booted: systemd-nspawn is missing (Debian's package systemd-container)");
            return Ok(false);
        }
        self.apt(&["update"])?;
        self.apt(&["install", "systemd", "systemd-sysv"])?;
        let machine = Machine::boot(self.root.folder())?;
        machine.waits_for_service(None)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let token = fs::read_to_string(self.root.path("/var/lib/orco/token"))?;
        let asked = || ask(address, &format!("Authorization: Bearer {}\r\n", token.trim()));
        expect(asked()?.contains("rubber-duck"), "the booted service does not know what was taught")?;
        let first = machine.systemctl(&["show", "--property=MainPID", "--value", "orco"])?;
        machine.systemctl(&["kill", "--signal=KILL", "orco"])?;
        machine.waits_for_service(Some(first.trim()))?;
        expect(asked()?.contains("rubber-duck"), "the service does not answer after it was killed")?;
        let said = output(&mut machine.command(&["journalctl", "--unit=orco", "--output=cat"]))?;
        // Ours, ONNX Runtime's, and Rust's.
        let is_complaint = |line: &&str| ["ERROR", "[E:", "panicked"].iter().any(|word| line.contains(word));
        let complaints: Vec<&str> = said.lines().filter(is_complaint).collect();
        expect(complaints.is_empty(), format!("the service complains: {}", complaints.join("\n")))?;
        machine.shut_down()?;
        Ok(true)
    }

    fn upgrade(&self) -> Result<(), Box<dyn Error>> {
        let before = self.orco(&["list"])?;
        let settings = fs::read_to_string(self.root.path("/etc/orco/orco.toml"))?;
        self.apt(&["install", "/tmp/later.deb"])?;
        let version = output(&mut self.command(None, &["dpkg-query", "-W", "-f", "${Version}", "orco"]))?;
        expect(version.starts_with(LATER), format!("it is version {version}"))?;
        expect(self.orco(&["list"])? == before, "it forgot what it was taught")?;
        expect(fs::read_to_string(self.root.path("/etc/orco/orco.toml"))? == settings, "the settings were lost")?;
        expect(self.is_enabled(), "the service does not start with the machine any more")
    }

    fn remove(&self) -> Result<(), Box<dyn Error>> {
        let there = |inside: &str| self.root.path(inside).exists();
        self.apt(&["remove", "orco"])?;
        expect(!there("/usr/bin/orco") && !there("/usr/lib/orco"), "the program is still there")?;
        expect(there("/var/lib/orco/state/slot-a") && there("/etc/orco/orco.toml"), "removing took what was taught")?;
        // As where a larger disk holds the state.
        fs::rename(self.root.path("/var/lib/orco"), self.root.path("/srv/orco"))?;
        symlink("../../srv/orco", self.root.path("/var/lib/orco"))?;
        self.apt(&["purge", "orco"])?;
        expect(fs::read_dir(self.root.path("/srv/orco"))?.next().is_none(), "purging left what was taught")?;
        expect(!there("/var/lib/orco") && !there("/etc/orco") && !self.is_enabled(), "something was left behind")
    }
}

/// A device that was booted.
struct Machine {
    container: Running,
    /// Process of its systemd, as this machine numbers it.
    init: String,
}

impl Machine {
    fn boot(root: &Path) -> Result<Self, Box<dyn Error>> {
        // systemd-nspawn keeps its own things in a tmpfs, and asks no systemd of this machine for leave.
        let script = "mkdir -p /run/systemd && mount -t tmpfs tmpfs /run/systemd && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "bash", "-c", script, "boot", "systemd-nspawn", "--quiet", "--keep-unit"]);
        command.args(["--register=no", "--boot", "--directory"]).arg(root);
        let container = Running(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?);
        let outer = container.0.id().to_string();
        let init = within_patience("the device does not boot", || {
            let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).ok()?;
            // Another child sets the container up first.
            let is_init = |child: &&str| {
                fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.trim() == "systemd")
            };
            children.split_whitespace().find(is_init).map(str::to_owned)
        })?;
        let machine = Self { container, init };
        within_patience("the device's systemd does not answer", || {
            let state = machine.command(&["systemctl", "is-system-running"]).output().ok()?;
            matches!(state.stdout.trim_ascii(), b"running" | b"degraded" | b"starting").then_some(())
        })?;
        Ok(machine)
    }

    /// A command inside.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init, "--all", "--"]).args(words).stdin(Stdio::null());
        command
    }

    fn systemctl(&self, words: &[&str]) -> Result<String, Box<dyn Error>> {
        output(self.command(&["systemctl"]).args(words))
    }

    /// Waits until the service has said that it listens, in another process than an earlier one.
    fn waits_for_service(&self, earlier: Option<&str>) -> Result<(), Box<dyn Error>> {
        within_patience("the service does not start", || {
            let shown = self.systemctl(&["show", "--property=ActiveState,MainPID", "orco"]).ok()?;
            let process = shown.lines().find_map(|line| line.strip_prefix("MainPID="))?;
            (shown.lines().any(|line| line == "ActiveState=active") && Some(process) != earlier).then_some(())
        })
    }

    fn shut_down(mut self) -> Result<(), Box<dyn Error>> {
        // SIGRTMIN+4 asks systemd to power off.
        must_run(Command::new("kill").args(["-s", "RTMIN+4", &self.init]))?;
        let ended = self.container.0.wait()?;
        expect(ended.success(), format!("the device ended with {ended}"))
    }
}

/// Asks again and again until there is an answer.
fn within_patience<T>(otherwise: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T, Box<dyn Error>> {
    let until = Instant::now() + TIMEOUT;
    while Instant::now() < until {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        thread::sleep(Duration::from_millis(200));
    }
    Err(otherwise.into())
}

/// A program that is killed when a trial fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until systemd is told something.
fn hears(systemd: &UnixDatagram, what: &str) -> Result<(), Box<dyn Error>> {
    let mut bytes = [0; 4096];
    loop {
        let length = systemd.recv(&mut bytes).map_err(|error| format!("systemd never heard {what}: {error}"))?;
        if String::from_utf8_lossy(&bytes[..length]).lines().any(|line| line == what) {
            return Ok(());
        }
    }
}

/// Asks what is known.
fn ask(address: SocketAddr, headers: &str) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let port = address.port();
    let host = format!("Host: localhost:{port}\r\nConnection: close\r\n");
    stream.write_all(format!("GET /api/v1/classes HTTP/1.1\r\n{host}{headers}\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn expect(right: bool, otherwise: impl AsRef<str>) -> Result<(), Box<dyn Error>> {
    if right { Ok(()) } else { Err(otherwise.as_ref().into()) }
}
