//! Downloads from a server on this machine that serves ranges, closes the connection early, or sends something else.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;

/// How the server behaves.
#[derive(Clone, Copy)]
struct ServerBehaviour {
    /// Sends at most this many bytes of a body, then hangs up.
    most: usize,
    /// Whether it knows ranges.
    ranges: bool,
    /// Refuses everything with this status.
    refuses: Option<u16>,
}

const POLITE: ServerBehaviour = ServerBehaviour { most: usize::MAX, ranges: true, refuses: None };

/// Serves `bytes` until the test ends; returns the address and the ranges that were asked for.
fn serve(bytes: Vec<u8>, manner: ServerBehaviour) -> (String, Arc<Mutex<Vec<Option<usize>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/archive.tar.gz", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, &bytes, manner, &seen);
        }
    });
    (address, asked)
}

fn answer(
    mut stream: TcpStream,
    bytes: &[u8],
    manner: ServerBehaviour,
    seen: &Mutex<Vec<Option<usize>>>,
) -> io::Result<()> {
    use std::io::Write;
    let mut start = None;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?.to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            start = range.trim_end_matches('-').parse::<usize>().ok();
        }
    }
    seen.lock().unwrap().push(start);
    let total = bytes.len();
    if let Some(status) = manner.refuses {
        return write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let body = match start.filter(|_| manner.ranges) {
        Some(start) if start >= total => {
            return write!(
                stream,
                "HTTP/1.1 416 No\r\nContent-Range: bytes */{total}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
        Some(start) => {
            let (last, length) = (total - 1, total - start);
            write!(
                stream,
                "HTTP/1.1 206 Partial\r\nContent-Range: bytes {start}-{last}/{total}\r\nContent-Length: {length}\r\n"
            )?;
            &bytes[start..]
        }
        None => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n")?;
            bytes
        }
    };
    write!(stream, "Connection: close\r\n\r\n")?;
    stream.write_all(&body[..body.len().min(manner.most)])
}

/// An archive of two members and a stranger that tries to leave the folder, and the description of it.
fn archive() -> (Vec<u8>, Archive) {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none()));
    let contents: Vec<u8> = (0..300_000u32).map(|value| (value % 251) as u8).collect();
    for (path, data) in [("set/a.bin", &contents[..]), ("set/names.txt", b"one\ntwo\n"), ("set/evil.txt", b"no")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, data).unwrap();
    }
    let bytes = tar.into_inner().unwrap().finish().unwrap();
    let sum: String = Md5::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let members = &[("a.bin", 300_000, 300_000), ("names.txt", 1, 100)];
    let archive =
        Archive { title: "test set", file: "set.tar.gz", address: "http://127.0.0.1:9/", md5: sum.leak(), members };
    (bytes, archive)
}

fn is_complete(folder: &Path) -> bool {
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names == ["a.bin", "names.txt"] && fs::metadata(folder.join("a.bin")).unwrap().len() == 300_000
}

#[test]
fn an_archive_is_fetched_checked_and_unpacked() {
    let (bytes, archive) = archive();
    let folder = tempfile::tempdir().unwrap();
    let (address, asked) = serve(bytes, POLITE);
    let output = folder.path().join("new/data");
    archive.fetch(&output, Some(&address)).unwrap();
    assert!(is_complete(&output));
    archive.fetch(&output, Some(&address)).unwrap();
    assert_eq!(*asked.lock().unwrap(), [None], "what is there is not fetched again");
}

#[test]
fn a_connection_that_is_lost_is_continued() {
    let (bytes, archive) = archive();
    let folder = tempfile::tempdir().unwrap();
    let (address, asked) = serve(bytes, ServerBehaviour { most: 200_000, ..POLITE });
    archive.fetch(folder.path(), Some(&address)).unwrap();
    assert!(is_complete(folder.path()));
    assert_eq!(*asked.lock().unwrap(), [None, Some(200_000)]);
}

#[test]
fn an_earlier_download_is_continued() {
    let (bytes, archive) = archive();
    for (have, ranges, expected) in
        [(1000, true, vec![Some(1000)]), (1000, false, vec![Some(1000)]), (bytes.len(), true, vec![Some(bytes.len())])]
    {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("set.tar.gz.part"), &bytes[..have]).unwrap();
        let (address, asked) = serve(bytes.clone(), ServerBehaviour { ranges, ..POLITE });
        archive.fetch(folder.path(), Some(&address)).unwrap();
        assert!(is_complete(folder.path()));
        assert_eq!(*asked.lock().unwrap(), expected);
    }
}

#[test]
fn wrong_bytes_are_removed() {
    let (mut bytes, archive) = archive();
    let folder = tempfile::tempdir().unwrap();
    bytes[1234] ^= 1;
    let (address, _) = serve(bytes, POLITE);
    let error = archive.fetch(folder.path(), Some(&address)).unwrap_err().to_string();
    assert!(error.contains("MD5") && error.contains(archive.md5) && error.contains("removed"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_longer_partial_file_starts_again() {
    let (bytes, archive) = archive();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("set.tar.gz.part"), vec![0; bytes.len() + 5]).unwrap();
    let (address, asked) = serve(bytes.clone(), POLITE);
    archive.fetch(folder.path(), Some(&address)).unwrap();
    assert_eq!(*asked.lock().unwrap(), [Some(bytes.len() + 5), None]);
}

#[test]
fn refusals_and_dead_servers_are_said_in_a_sentence() {
    let (bytes, archive) = archive();
    let folder = tempfile::tempdir().unwrap();
    let (address, asked) = serve(bytes.clone(), ServerBehaviour { refuses: Some(404), ..POLITE });
    let error = archive.fetch(folder.path(), Some(&address)).unwrap_err().to_string();
    assert!(error.contains("answered 404; give another address with --from"), "{error}");
    assert_eq!(asked.lock().unwrap().len(), 1);
    let (address, asked) = serve(bytes, ServerBehaviour { most: 0, ..POLITE });
    let error = archive.fetch(folder.path(), Some(&address)).unwrap_err().to_string();
    assert!(error.contains("0 bytes are kept, run the command again"), "{error}");
    assert_eq!(asked.lock().unwrap().len(), 3);
}

#[test]
fn an_archive_without_its_members_is_refused() {
    let (bytes, mut archive) = archive();
    let folder = tempfile::tempdir().unwrap();
    let (address, _) = serve(bytes, POLITE);
    archive.members = &[("a.bin", 1, 299_999)];
    let large = archive.fetch(folder.path(), Some(&address)).unwrap_err().to_string();
    assert!(large.contains("holds a.bin with 300000 bytes"), "{large}");
    archive.members = &[("b.bin", 1, 10)];
    let missing = archive.fetch(folder.path(), Some(&address)).unwrap_err().to_string();
    assert!(missing.contains("lacks b.bin"), "{missing}");
}

#[test]
fn a_file_that_was_cut_off_is_fetched_again() {
    let (bytes, archive) = archive();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.bin"), [0; 1000]).unwrap();
    fs::write(folder.path().join("names.txt"), "one\n").unwrap();
    let (address, asked) = serve(bytes, POLITE);
    archive.fetch(folder.path(), Some(&address)).unwrap();
    assert_eq!(asked.lock().unwrap().len(), 1);
    // Whether it was cut off, or is somebody's own, nobody knows.
    for (name, length) in [("a.bin.before-1", 1000), ("names.txt.before-1", 4)] {
        assert_eq!(fs::metadata(folder.path().join(name)).unwrap().len(), length);
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    assert!(is_complete(folder.path()));
}

#[test]
fn what_is_no_web_address_is_refused_at_once() {
    let (_, archive) = archive();
    let folder = tempfile::tempdir().unwrap();
    for address in ["notaurl", "file:///etc/passwd", "ftp://127.0.0.1/set.tar.gz", "https://", ""] {
        let error = archive.fetch(&folder.path().join("new"), Some(address)).unwrap_err().to_string();
        assert!(error.contains("is no address of a web server; give one"), "{address}: {error}");
    }
    assert!(!folder.path().join("new").exists());
}

#[test]
fn a_place_that_cannot_be_written_is_said_once() {
    let (_, archive) = archive();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = anyhow::Error::from(archive.fetch(&file, Some("http://127.0.0.1:9/")).unwrap_err());
    assert_eq!(format!("{error:#}").matches("os error").count(), 1, "{error:#}");
}
