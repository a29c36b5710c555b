//! What to do about an error: the library says what is wrong, this program what to type.

use std::borrow::Cow;
use std::io;

use anyhow::Error;
use orco_runtime::backup::BackupError;
use orco_runtime::bundle::OpenError;
use orco_runtime::encoder::EncodeError;
use orco_runtime::files;
use orco_runtime::files::lock::LockError;
use orco_runtime::learner::upgrade::UpgradeError;
use orco_runtime::learner::{ChangeError, ExportError, OpenLearnerError, ShotsError};
use orco_runtime::manifest::MANIFEST;
use orco_runtime::pack::PackExportError;
use orco_runtime::signature::SignatureError;
use orco_runtime::state::history::PurgeError;
use orco_runtime::state::session::LearnError;
use orco_runtime::store::StoreError;

/// An error as a sentence, with its causes and what to do.
pub fn sentence(error: &Error) -> String {
    match error.chain().find_map(advice) {
        Some(advice) => format!("{error:#}; {advice}"),
        None => format!("{error:#}"),
    }
}

fn advice(cause: &(dyn std::error::Error + 'static)) -> Option<Cow<'static, str>> {
    match store_error(cause) {
        Some(error) => on_owner(error).map(Cow::Owned).or_else(|| on_store(error).map(Cow::Borrowed)),
        None => fixed_advice(cause).map(Cow::Borrowed),
    }
}

/// An error of the store, as itself or as another one shows it through.
fn store_error<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a StoreError> {
    if let Some(ChangeError::Store(error)) = cause.downcast_ref() {
        return Some(error);
    }
    if let Some(UpgradeError::Store(error)) = cause.downcast_ref() {
        return Some(error);
    }
    if let Some(BackupError::Store(error)) = cause.downcast_ref() {
        return Some(error);
    }
    if let Some(OpenLearnerError::Store(error)) = cause.downcast_ref() {
        return Some(error);
    }
    if let Some(ExportError::Store(error)) = cause.downcast_ref() {
        return Some(error);
    }
    #[cfg(feature = "serve")]
    if let Some(orco_serve::ServeError::Learner(OpenLearnerError::Store(error))) = cause.downcast_ref() {
        return Some(error);
    }
    #[cfg(feature = "hub")]
    if let Some(error) = store_error_of_round(cause) {
        return Some(error);
    }
    cause.downcast_ref()
}

/// An error of the store as a round with the hub shows it through.
#[cfg(feature = "hub")]
fn store_error_of_round<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a StoreError> {
    use orco_hub::client::SyncError;
    match cause.downcast_ref::<SyncError>()? {
        SyncError::Store(error) => Some(error),
        SyncError::Learner(error) => store_error(error),
        SyncError::Change(error) => store_error(error),
        SyncError::Export(error) => store_error(error),
        SyncError::Upgrade(error) => store_error(error),
        _ => None,
    }
}

/// Advice on an error that is not one of the store.
fn fixed_advice(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<ChangeError>() {
        return on_change(error);
    }
    if let Some(error) = cause.downcast_ref::<UpgradeError>() {
        return on_upgrade(error);
    }
    if let Some(error) = cause.downcast_ref::<BackupError>() {
        return on_backup(error);
    }
    if let Some(OpenLearnerError::Bundle(error)) = cause.downcast_ref() {
        return on_bundle(error);
    }
    if let Some(error) = cause.downcast_ref() {
        return on_bundle(error);
    }
    if let Some(error) = cause.downcast_ref::<ExportError>() {
        return match error {
            ExportError::Class(PackExportError::UnknownLabel { .. }) => Some("`orco list` shows all"),
            ExportError::Class(PackExportError::NoExemplars { .. }) => Some("`orco add` does that"),
            _ => None,
        };
    }
    #[cfg(feature = "serve")]
    if let Some(error) = cause.downcast_ref::<orco_serve::ServeError>() {
        return on_serve(error);
    }
    #[cfg(feature = "mqtt")]
    if let Some(error) = cause.downcast_ref::<orco_serve::mqtt::MqttError>() {
        return on_mqtt(error);
    }
    #[cfg(feature = "hub")]
    if let Some(error) = cause.downcast_ref::<orco_hub::HubError>() {
        return on_hub(error);
    }
    if let Some(error) = cause.downcast_ref::<ShotsError>() {
        return Some(match error {
            ShotsError::Folder { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "nothing was changed: let this user read it, or copy it to where they may"
            }
            _ => "nothing was changed",
        });
    }
    match cause.downcast_ref() {
        Some(EncodeError::Start(_)) => {
            Some("--engine rten does without ONNX Runtime, --engine auto takes whichever can be started")
        }
        _ => None,
    }
}

#[cfg(feature = "hub")]
fn on_hub(error: &orco_hub::HubError) -> Option<&'static str> {
    use orco_hub::HubError;
    use orco_hub::merge::MergeError;
    Some(match error {
        HubError::Merge(MergeError::Undecided { .. }) => "--merge merges them, --apart keeps them apart",
        HubError::NoDevice { .. } | HubError::NoPack { .. } | HubError::NoRelease { .. } => "`orco hub list` shows all",
        _ => return None,
    })
}

#[cfg(feature = "serve")]
fn on_serve(error: &orco_serve::ServeError) -> Option<&'static str> {
    use orco_serve::ServeError;
    Some(match error {
        ServeError::NoToken { .. } => "--token-file FILE does that, and makes the token if the file is not there",
        ServeError::Listen { .. } => "give another address with --listen ADDRESS:PORT",
        ServeError::Learner(OpenLearnerError::Bundle(error)) => return on_bundle(error),
        _ => return None,
    })
}

#[cfg(feature = "mqtt")]
fn on_mqtt(error: &orco_serve::mqtt::MqttError) -> Option<&'static str> {
    use orco_serve::mqtt::MqttError;
    Some(match error {
        MqttError::Broker(_) => "the user is named with --mqtt-user NAME, the password in --mqtt-password-file FILE",
        MqttError::NoUser => "--mqtt-user NAME does that",
        MqttError::Id(_) => "--mqtt-id ID sets it",
        MqttError::Topic(_) => "--mqtt-topic and --mqtt-discovery set where topics begin",
        MqttError::Name => "--mqtt-name NAME sets it",
        _ => return None,
    })
}

fn on_change(error: &ChangeError) -> Option<&'static str> {
    Some(match error {
        ChangeError::Learn(LearnError::UnknownLabel { .. }) => "nothing was changed: `orco list` shows all labels",
        ChangeError::Learn(LearnError::LabelExists { .. }) => {
            "nothing was changed; `orco add` gives a known class further shots"
        }
        ChangeError::Learn(LearnError::BaseLabelExists { .. }) => {
            "nothing was changed: `orco learn --add-to-base` gives that class these shots, `orco learn --replace` answers \
             yours in its place on this device, or choose another label"
        }
        ChangeError::Learn(LearnError::NoFreeTargets { free: 0, .. }) => {
            "nothing was changed: forget others first with `orco forget`"
        }
        ChangeError::Learn(LearnError::NoFreeTargets { .. }) => {
            "nothing was changed: learn fewer at once, or forget others first with `orco forget`"
        }
        ChangeError::Shots(ShotsError::Unfit(_)) => {
            "nothing was changed: take other pictures, or these all the same with --take-anyway"
        }
        ChangeError::Forgetting { .. } => "nothing was changed: give other shots, or a larger --forgetting-budget",
        ChangeError::NotEnoughToUndo { .. } | ChangeError::NoEntry { .. } => {
            "`orco history` shows what is remembered; an upgrade is undone with `orco upgrade --undo`"
        }
        ChangeError::Purge(PurgeError::Unknown { .. }) => {
            "nothing was changed: `orco list` and `orco history` show all labels"
        }
        ChangeError::NotEnoughToRedo { .. } => {
            "`orco history` shows what is remembered; `orco undo --to ENTRY` goes to any of it"
        }
        ChangeError::Present { .. } => return None,
        _ => "nothing was changed",
    })
}

fn on_upgrade(error: &UpgradeError) -> Option<&'static str> {
    Some(match error {
        UpgradeError::Shots(ShotsError::Encode(error)) => return fixed_advice(error),
        UpgradeError::Nothing { .. } => "name the folder of the device's state with --state DIR",
        UpgradeError::Same { .. } => "nothing was changed: give the other bundle with --bundle",
        UpgradeError::NotKept { .. } => {
            "give the old bundle with --bundle, or teach the classes again in another folder (--state); --keep-shots \
             keeps pictures next time"
        }
        UpgradeError::Picture { .. } => {
            "nothing was changed: see that this user can read it, or repeat the command; without the file, the class is \
             learned from its other shots"
        }
        UpgradeError::Missing { .. } => {
            "nothing was changed: with the old bundle, `orco add --keep-shots` gives a class pictures again; \
             --give-up-unkept gives these classes up"
        }
        UpgradeError::Worse { .. } => "nothing was changed: --force moves to the bundle all the same",
        UpgradeError::NoEarlier { former: Some(_), .. } => {
            "nothing was changed: give the bundle that it belongs to with --bundle"
        }
        _ => "nothing was changed",
    })
}

fn on_backup(error: &BackupError) -> Option<&'static str> {
    Some(match error {
        BackupError::Occupied { .. } => "nothing was changed: --force replaces what it knows with the backup",
        BackupError::OtherBundle { .. } => {
            "nothing was changed: give that bundle with --bundle, or restore it for `orco upgrade` with --other-bundle"
        }
        BackupError::Signature(SignatureError::Missing) => {
            "nothing was changed: `orco backup --sign KEY` signs; to sign this one, restore it elsewhere without the key, \
             and back that up"
        }
        BackupError::Nothing { .. } => "name the folder of the device's state with --state DIR",
        _ => "nothing was changed",
    })
}

fn on_bundle(error: &OpenError) -> Option<&'static str> {
    Some(match error {
        OpenError::Read { path, .. } if path.ends_with(MANIFEST) => "is its folder an OrCo bundle?",
        OpenError::Read { .. } => "copy the bundle again",
        OpenError::Signature { .. } => "take a bundle signed with the configured key",
        _ => return None,
    })
}

/// Advice where the state belongs to another user: which user to run the program as.
#[cfg(unix)]
fn on_owner(error: &StoreError) -> Option<String> {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    let owner = match error {
        StoreError::OtherOwner { owner, .. } => *owner,
        StoreError::UnreadableSlot { path, source }
        | StoreError::Read { path, source }
        | StoreError::Write { path, source }
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            // The innermost folder that this user may look at. A single file of another one in a folder of this one's
            // own must be given back.
            let facts = path.ancestors().skip(1).find_map(|folder| fs::metadata(folder).ok())?;
            Some(facts.uid()).filter(|owner| *owner != rustix::process::geteuid().as_raw())?
        }
        _ => return None,
    };
    let user = files::user_name(owner).unwrap_or_else(|| format!("'#{owner}'"));
    let only = match error {
        StoreError::OtherOwner { .. } => {
            ", or make this user the owner of the state's files (chown) if no other needs them"
        }
        _ => "",
    };
    Some(format!("the state belongs to another user: run this as that user (sudo -u {user} orco ...){only}"))
}

/// Other systems than Unix have no numbers for owners.
#[cfg(not(unix))]
fn on_owner(_: &StoreError) -> Option<String> {
    None
}

fn on_store(error: &StoreError) -> Option<&'static str> {
    Some(match error {
        StoreError::UnreadableSlot { .. } => {
            "give it back to the user who runs this (chown, chmod 600), check the disk, or move it away, together with \
             its .patch- files, to go on without it"
        }
        StoreError::Overtaken { .. } => "repeat the command (was .lock removed?)",
        StoreError::Lost { .. } => {
            "`orco restore --force` puts a backup in their place; without one, move slot-a* and slot-b* away to start from \
             the bundle again"
        }
        StoreError::Decode { .. } => {
            "update this program, or move slot-a* and slot-b* away to start from the bundle again"
        }
        StoreError::OtherBundle { kept: 0, .. } => {
            "give that bundle with --bundle, or another folder with --state, and teach the classes again; no pictures \
             of the shots were kept from which `orco upgrade` could do that: --keep-shots keeps them next time"
        }
        StoreError::OtherBundle { .. } => {
            "`orco upgrade` learns its classes again on this bundle, from the pictures that were kept of their shots; \
             or give that bundle with --bundle, or another folder with --state"
        }
        StoreError::Gone { .. } => {
            "nothing was changed: bring it back, with `orco restore` out of a backup, or repeat the command"
        }
        StoreError::TooManyPictures { .. } => {
            "nothing was changed: forget classes for good (--purge), or do without --keep-shots"
        }
        StoreError::Busy { .. } => "wait for it to finish, with --wait SECONDS",
        StoreError::Lock { source: LockError::Unsupported(_), .. } => {
            "nothing was changed: name a folder on another disk with --state DIR, or, on NFS, start its lock service"
        }
        StoreError::Lock { .. } => "nothing was changed",
        StoreError::Folder { .. } => "nothing was changed: name a folder that this user can write, with --state DIR",
        StoreError::Write { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
            "what was known before is unchanged: `orco forget` makes room"
        }
        StoreError::Write { source, .. } if source.kind() == io::ErrorKind::InvalidData => {
            "what was known before is unchanged: with this bundle's numbers the new state could not be read again; \
             export the bundle again"
        }
        StoreError::Write { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            "what was known before is unchanged: mount the disk to be written; systems mount a failing one read-only \
             (see dmesg)"
        }
        StoreError::Write { .. } => {
            "what was known before is unchanged: look who may write there, how much room is left, and whether the disk \
             fails (see dmesg)"
        }
        StoreError::LinkNotFollowed { .. } => "remove the link, and what lies behind it if it is the device's",
        StoreError::Uncertain { .. } => "check the disk and the room on it, and list what is known now",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_target_is_left_something_is_to_be_forgotten() {
        let refused = |free| sentence(&ChangeError::Learn(LearnError::NoFreeTargets { wanted: 2, free }).into());
        assert!(refused(0).ends_with("nothing was changed: forget others first with `orco forget`"));
        assert!(refused(1).contains("learn fewer at once"));
    }

    #[test]
    fn where_a_disk_is_read_only_nobody_looks_for_rights_or_room() {
        let refused = |kind: io::ErrorKind| {
            sentence(&StoreError::Write { path: "state/slot-a".into(), source: kind.into() }.into())
        };
        let read_only = refused(io::ErrorKind::ReadOnlyFilesystem);
        assert!(read_only.contains("mount the disk") && !read_only.contains("who may write"), "{read_only}");
        assert!(refused(io::ErrorKind::Other).contains("whether the disk fails"));
    }

    #[test]
    fn where_the_file_system_gives_no_lock_another_one_is_named() {
        let source = LockError::Unsupported(io::ErrorKind::Unsupported.into());
        let refused = sentence(&StoreError::Lock { path: "state/.lock".into(), source }.into());
        assert!(refused.contains("nothing was changed: name a folder on another disk with --state DIR"), "{refused}");
    }
}
