//! Files are replaced whole, links are not followed, and files of others stay.

use super::*;

#[test]
#[cfg(unix)]
fn what_lies_in_the_place_of_a_file_is_refused_without_waiting() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), b"bytes").unwrap();
    symlink(path("file"), path("link")).unwrap();
    fs::create_dir(path("folder")).unwrap();
    let fifo = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, fifo, 0).unwrap();
    assert_eq!(read(&path("link"), 5).unwrap(), b"bytes");
    assert_eq!(read_own(&path("file"), 5).unwrap(), b"bytes");
    assert_eq!(read_own_if_there(&path("file"), 5).unwrap().as_deref(), Some(&b"bytes"[..]));
    assert_eq!(read_own_if_there(&path("missing"), 5).unwrap(), None);
    assert!(read_own_if_there(&path("link"), 5).is_err());
    assert!(read_own(&path("file"), 4).unwrap_err().to_string().contains("larger than 4 bytes"));
    for (name, expected) in [
        ("link", "it is a symbolic link"),
        ("folder", "it is a folder"),
        ("pipe", "it is not a regular file"),
        ("missing", "No such file"),
    ] {
        let refused = read_own(&path(name), 5).unwrap_err().to_string();
        assert!(refused.contains(expected), "{name}: {refused}");
    }
    for name in ["folder", "pipe"] {
        assert!(read(&path(name), 5).is_err(), "{name}");
    }
}

#[test]
#[cfg(unix)]
fn no_folder_is_made_behind_a_link_that_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("disk/state"), &link).unwrap();
    for path in [link.clone(), link.join("below")] {
        let refused = create_folder(&path).unwrap_err().to_string();
        assert_eq!(
            refused,
            format!("{} is a link that leads nowhere, as where its disk is not mounted", link.display())
        );
    }
    fs::create_dir_all(folder.path().join("disk/state")).unwrap();
    create_folder(&link.join("below")).unwrap();
}

/// As a folder of VirtualBox does, those of `/proc` refuse.
#[test]
#[cfg(target_os = "linux")]
fn a_file_system_that_cannot_sync_folders_is_named() {
    let proc = Path::new("/proc");
    let opened = folder::OpenFolder::open(proc, SymlinkPolicy::Refuse).unwrap().unwrap();
    for synced in [sync_folder(proc), opened.sync()] {
        let refused = synced.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        assert!(refused.to_string().starts_with("its file system cannot sync folders (Invalid"), "{refused}");
    }
}

#[test]
fn a_shared_file_is_replaced_and_its_neighbours_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    // What other programs may have left there, and what a killed process of ours did.
    for neighbour in ["report.tmp", "report.json.tmp", ".report.json"] {
        fs::write(folder.path().join(neighbour), "precious").unwrap();
    }
    fs::write(partial(&path), "half").unwrap();
    for bytes in [&b"one"[..], b"another"] {
        replace_shared(&path, bytes).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    let is_whole = |new: &Path| {
        assert_eq!((new, fs::read(new)?), (&*partial(&path), b"third".to_vec()));
        Err(io::Error::other("no room"))
    };
    let failed = replace_shared_with(&path, |new| new.write_all(b"third"), is_whole).unwrap_err();
    assert_eq!(failed.to_string(), "no room");
    assert_eq!(fs::read(&path).unwrap(), b"another");
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".report.json", "report.json", "report.json.tmp", "report.tmp"]);
}

#[test]
#[cfg(unix)]
fn a_link_is_replaced_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("file"), folder.path().join("other"));
    fs::write(&other, "precious").unwrap();
    for link in [&path, &partial(&path)] {
        let _ = fs::remove_file(link);
        std::os::unix::fs::symlink(&other, link).unwrap();
        assert!(open_own(OpenOptions::new().append(true).create(true), link).is_err());
        replace_shared(&path, b"new").unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&other).unwrap()), (b"new".to_vec(), b"precious".to_vec()));
    }
}

#[test]
fn a_file_is_replaced_and_nothing_else_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for bytes in [&b"one"[..], b"another"] {
        replace(&path, bytes).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(create(&path, b"third").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&path).unwrap(), b"another");
    let missing = replace(&folder.path().join("missing/file"), b"x").unwrap_err().to_string();
    assert!(!missing.contains(".orco-"), "{missing}");
    fs::create_dir(folder.path().join("folder")).unwrap();
    assert!(replace(&folder.path().join("folder"), b"x").is_err());
    create(&folder.path().join("new"), b"new").unwrap();
    assert_eq!(fs::read(folder.path().join("new")).unwrap(), b"new");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "something was left behind");
}

#[test]
fn a_file_that_comes_while_another_is_written_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door.orcobackup");
    let late = create_with(&path, |new| {
        fs::write(&path, b"theirs")?;
        new.write_all(b"ours")
    });
    assert_eq!(late.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&path).unwrap(), b"theirs");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "something was left behind");
}

#[test]
fn a_file_is_made_without_hard_links_and_takes_no_name_that_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let without_links = |text: &[u8]| {
        let mut file = NamedTempFile::new_in(folder.path()).unwrap();
        file.write_all(text).unwrap();
        let error = io::ErrorKind::PermissionDenied.into();
        persist_without_links(PersistError { error, file }, &path)
    };
    without_links(b"one").unwrap();
    assert_eq!(without_links(b"another").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "something was left behind");
}

#[test]
fn only_what_is_not_there_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"bytes").unwrap();
    assert!(is_absent(&folder.path().join("none")));
    assert!(!is_absent(folder.path()) && !is_absent(&folder.path().join("file")));
    assert!(!is_absent(Path::new("in\0valid")), "it cannot be read");
}
