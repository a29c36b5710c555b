//! Teaching from a phone: what `orco serve --phone` shows is enough to reach the service, and is the same again after a
//! restart.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use tempfile::TempDir;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::support::{orco, shipped};

/// The service, and the address that it shows to phones. It is killed when this is dropped.
struct Invited {
    process: Child,
    url: String,
    /// The file that locks phones out when it is removed.
    token: PathBuf,
}

impl Invited {
    fn start(state: &Path, more: &[&str]) -> Self {
        let arguments = [&["--engine", "rten", "serve", "--phone", "--listen", "127.0.0.1:0"], more].concat();
        let mut command = orco(&shipped(), state, &arguments);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let shown: Vec<String> = lines.take_while(|line| !line.contains("Another name of this machine")).collect();
        let url = shown.iter().find(|line| line.contains("#token=")).map(|line| line.trim().to_owned());
        let token =
            shown.iter().find_map(|line| line.split_once("lock all phones out, remove ")?.1.split_once(" and "));
        let token = token.map(|(path, _)| path.into()).unwrap_or_default();
        let service = Self { process, url: url.unwrap_or_default(), token };
        let is_drawn = |line: &&String| line.contains(['\u{2588}', '\u{2580}', '\u{2584}']);
        assert!(shown.iter().filter(is_drawn).count() > 15 && !service.url.is_empty(), "{shown:?}");
        service
    }

    /// Status of `GET path` by a client that trusts the certificate alone, with the address's token or without.
    fn ask(&self, certificate: &[u8], path: &str, with_token: bool) -> u16 {
        let (_, token) = self.url.split_once("/#token=").unwrap();
        self.ask_with(certificate, path, Some(token).filter(|_| with_token))
    }

    fn ask_with(&self, certificate: &[u8], path: &str, token: Option<&str>) -> u16 {
        let roots = RootCerts::new_with_certs(&[Certificate::from_pem(certificate).unwrap()]);
        let tls = TlsConfig::builder().root_certs(roots).build();
        let client: Agent = Agent::config_builder().tls_config(tls).http_status_as_error(false).build().new_agent();
        let (address, _) = self.url.split_once("/#token=").unwrap();
        let mut request = client.get(format!("{address}{path}"));
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        request.call().unwrap().status().as_u16()
    }
}

impl Drop for Invited {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn a_phone_reaches_the_service_by_what_it_shows_also_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let certificate = folder.path().join("state.phone/certificate.pem");
    let service = Invited::start(&state, &[]);
    let trusted = fs::read(&certificate).unwrap();
    assert_eq!(service.ask(&trusted, "/", false), 200, "the page");
    assert_eq!(service.ask(&trusted, "/api/v1/classes", false), 401);
    assert_eq!(service.ask(&trusted, "/api/v1/classes", true), 200);
    let (_, token) = service.url.split_once('#').unwrap();
    let token = token.to_owned();
    drop(service);
    let again = Invited::start(&state, &[]);
    assert_eq!(again.url.split_once('#').unwrap().1, token);
    assert_eq!(fs::read(&certificate).unwrap(), trusted, "the phone does not ask again");
    assert_eq!(again.ask(&trusted, "/api/v1/classes", true), 200);
}

/// Under systemd, where what phones are shown goes into a file.
#[test]
#[cfg(target_os = "linux")]
fn phones_that_were_invited_come_in_although_the_disk_is_full() {
    use std::net::TcpListener;

    use orco_trials::skipped;
    use orco_trials::tmpfs::TmpfsMount;
    use orco_trials::until;

    use crate::support::service::Service;

    let Some(mounted) = TmpfsMount::new("size=16m") else {
        return skipped("phones and a full disk (mounting needs root)");
    };
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let serve = |ip: &str| {
        let address = TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap().to_string();
        let arguments = ["--engine", "rten", "serve", "--phone", "--listen", &address];
        let mut command = orco(&shipped(), &mounted.path().join("state"), &arguments);
        command.env("JOURNAL_STREAM", "8:1").stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Service::listening(command, &address)
    };
    let of_phones = |name: &str| fs::read(mounted.path().join("state.phone").join(name)).unwrap();
    drop(serve("127.0.0.1"));
    let before = ["certificate.pem", "key.pem", "token"].map(of_phones);
    mounted.fill();
    // That needs another certificate.
    let _service = serve("127.0.0.2");
    for what in ["phones get the certificate that is there", "invitation.txt: No space left on device"] {
        until(what, || fs::read_to_string(&log).unwrap().contains(what));
    }
    assert_eq!(["certificate.pem", "key.pem", "token"].map(of_phones), before);
}

/// What a terminal shows that has these variables.
#[cfg(target_os = "linux")]
fn shown_by_terminal(variables: &[(&str, &str)]) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    let terminal = nix::pty::openpty(None, None).unwrap();
    let arguments = ["--engine", "rten", "serve", "--phone", "--listen", "127.0.0.1:0"];
    let mut command = orco(&shipped(), &folder.path().join("state"), &arguments);
    command.env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
    let mut process = command.stdout(terminal.slave).spawn().unwrap();
    // It holds the terminal open.
    drop(command);
    let lines = BufReader::new(File::from(terminal.master)).lines().map(Result::unwrap);
    let shown: Vec<String> = lines.take_while(|line| !line.contains("Another name of this machine")).collect();
    process.kill().unwrap();
    process.wait().unwrap();
    shown
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_shows_the_square_black_on_white() {
    let shown = shown_by_terminal(&[("NO_COLOR", "")]);
    let square: Vec<&String> = shown.iter().take_while(|line| line.starts_with("\x1b[30;107m")).collect();
    assert!(square.len() > 15 && !shown.iter().any(|line| line.contains("u{1b}")), "{shown:?}");
    let white = square[0].trim_end().strip_prefix("\x1b[30;107m").unwrap().strip_suffix("\x1b[0m").unwrap();
    assert!(white.chars().all(|block| block == ' '), "{white}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_without_colours_gets_none() {
    for variable in [("TERM", "dumb"), ("NO_COLOR", "1")] {
        let shown = shown_by_terminal(&[variable]);
        let drawn = shown.iter().filter(|line| line.contains(['\u{2588}', '\u{2580}', '\u{2584}'])).count();
        assert!(drawn > 15 && !shown.iter().any(|line| line.contains('\x1b')), "{variable:?}: {shown:?}");
    }
}

#[test]
fn a_journal_is_not_told_the_token() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let arguments = ["--engine", "rten", "serve", "--phone", "--listen", "127.0.0.1:0"];
    let mut command = orco(&shipped(), &state, &arguments);
    let mut process = command.env("JOURNAL_STREAM", "8:1").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.next().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    let rest: Vec<String> = lines.collect();
    assert!(said.contains("invitation.txt") && !rest.iter().any(|line| line.contains("#token=")), "{said} {rest:?}");
    let path = folder.path().join("state.phone/invitation.txt");
    let token = fs::read_to_string(folder.path().join("state.phone/token")).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains(&format!("#token={}", token.trim())));
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o077, 0);
}

#[test]
fn a_token_of_ones_own_is_taken_and_phones_are_locked_out_as_it_says() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("token");
    let start = || Invited::start(&folder.path().join("state"), &["--token-file", path.to_str().unwrap()]);
    let service = start();
    let token = fs::read_to_string(&path).unwrap().trim().to_owned();
    assert!(service.url.ends_with(&format!("#token={token}")), "{}", service.url);
    assert!(!folder.path().join("state.phone/token").exists());

    fs::remove_file(&service.token).unwrap();
    drop(service);
    let again = start();
    let trusted = fs::read(folder.path().join("state.phone/certificate.pem")).unwrap();
    assert_eq!(again.ask_with(&trusted, "/api/v1/classes", Some(&token)), 401);
    assert_eq!(again.ask(&trusted, "/api/v1/classes", true), 200);
}
