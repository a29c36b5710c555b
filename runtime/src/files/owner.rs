//! Owners of files: the owner of a folder may be unable to read what another user creates in it.

use std::fs::Metadata;
#[cfg(unix)]
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use super::random_name;

/// Start of the names of files by which a folder is asked for the owner of new files; a random name follows. A killed
/// process may leave one, which a store removes from its folder.
pub(crate) const OWNER_PROBE: &str = ".slot-owner-";

/// The user whom a file belongs to and the one whom new files in its folder belong to, where those are two. That is
/// asked of the folder, not only of the process: file systems without owners give every file to the same user.
///
/// # Errors
/// If no file can be made in the folder.
#[cfg(unix)]
pub(crate) fn probe_other_owner(facts: &Metadata, folder: &Path) -> io::Result<Option<[u32; 2]>> {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    let owner = facts.uid();
    if owner == rustix::process::geteuid().as_raw() {
        return Ok(None);
    }
    let probe = folder.join(format!("{OWNER_PROBE}{}", random_name()));
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe);
    let user = made.and_then(|file| file.metadata()).map(|facts| facts.uid());
    let _ = fs::remove_file(&probe);
    user.map(|user| (owner != user).then_some([owner, user]))
}

/// Other systems than Unix have no numbers for owners.
#[cfg(not(unix))]
pub(crate) fn probe_other_owner(_: &Metadata, _: &Path) -> io::Result<Option<[u32; 2]>> {
    Ok(None)
}

/// A folder of one user, in which new files would belong to another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} belongs to user {owner}, but new files here would belong to user {user}, and user {owner} could not read them; \
     run this as user {owner}",
    folder.display()
)]
pub(crate) struct FolderOfAnotherUser {
    /// The folder, or the innermost one above it that is there.
    pub folder: PathBuf,
    /// Number of the user whom it belongs to.
    pub owner: u32,
    /// Number of the user whom new files belong to.
    pub user: u32,
}

/// Refuses root a folder of another user, there or still to be made: that one's programs could not read files and
/// folders that root makes for its own eyes. Other users are kept out, or let in, by the folder's rights. A number that
/// is no user's here does not count: a container's root may write what is mounted from the host.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] if this process is root's, and the folder, or the innermost one above it that is
/// there, belongs to another user than new files in it.
pub fn check_own_folder(folder: &Path) -> io::Result<()> {
    folder_of_another_user(folder).map_or(Ok(()), |other| Err(io::Error::new(io::ErrorKind::PermissionDenied, other)))
}

/// The folder of another user where this process, as root, would make files for itself in `folder`.
#[cfg(unix)]
pub(crate) fn folder_of_another_user(folder: &Path) -> Option<FolderOfAnotherUser> {
    use std::os::unix::fs::MetadataExt;
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let existing = |folder: &Path| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        fs::metadata(folder).ok().map(|facts| (folder.to_owned(), facts))
    };
    let (folder, facts) = folder.ancestors().find_map(existing)?;
    // What everybody may write is nobody's own; what is root's needs no look at the list of users.
    if facts.mode() & 0o002 != 0 || facts.uid() == 0 {
        return None;
    }
    user_name(facts.uid())?;
    // If no file can be made, the next attempt to make one says why.
    let [owner, user] = probe_other_owner(&facts, &folder).ok()??;
    Some(FolderOfAnotherUser { folder, owner, user })
}

/// Other systems than Unix have no numbers for owners.
#[cfg(not(unix))]
pub(crate) fn folder_of_another_user(_: &Path) -> Option<FolderOfAnotherUser> {
    None
}

/// The name of the user with that number; `None` where `/etc/passwd` lists no such user.
#[cfg(unix)]
pub fn user_name(number: u32) -> Option<String> {
    name_in(&fs::read_to_string("/etc/passwd").ok()?, number).map(str::to_owned)
}

/// The name of a user in the text of `/etc/passwd`.
#[cfg(unix)]
fn name_in(users: &str, number: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then_some(name)
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use orco_trials::skipped;

    use super::*;
    use crate::files::{create_folder, replace_in_own_folder};

    #[test]
    fn root_makes_nothing_for_itself_in_a_folder_of_another_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        create_folder(&path).unwrap();
        let below = path.join("state/file");
        replace_in_own_folder(&below, b"first").unwrap();
        fs::remove_dir_all(path.join("state")).unwrap();
        if chown(&path, Some(65_534), None).is_err() {
            return skipped("folders of another user (giving one away needs root)");
        }
        for refused in [replace_in_own_folder(&below, b"second"), check_own_folder(&path), check_own_folder(&below)] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            let expected =
                format!("{} belongs to user 65534, but new files here would belong to user 0", path.display());
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "something was left behind");
        // As a folder of the host's, of a user whom a container does not know.
        chown(&path, Some(12_345), None).unwrap();
        replace_in_own_folder(&below, b"second").unwrap();
        fs::remove_dir_all(path.join("state")).unwrap();
        // As /tmp is, in a container whose root is not the machine's.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o1777)).unwrap();
        replace_in_own_folder(&below, b"third").unwrap();
    }

    #[test]
    fn a_user_is_named_by_the_list_of_users() {
        let users = "root:x:0:0:root:/root:/bin/sh\n+\norco:x:995:990::/var/lib/orco:/usr/sbin/nologin\n";
        assert_eq!((name_in(users, 995), name_in(users, 0)), (Some("orco"), Some("root")));
        assert_eq!((name_in(users, 990), name_in("", 0)), (None, None));
    }
}
