//! Backups of made-up classes with small pictures, so that no backbone runs; what else could be in one.

use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::path::Path;

use ::image::{Rgb, RgbImage};
use ndarray::Array3;
use orco_core::random::Random;
use orco_state::codec::{self, FileKind};
use tar::{Archive, EntryType, Header};
use tempfile::{TempDir, tempdir, tempfile};

use super::*;
use crate::bundle::Bundle;
use crate::learner::{ChangeOutcome, Learner, LearnerSettings, Shots};
use crate::manifest::hexadecimal;
use crate::release::{RELEASES, Releases};
use crate::store::{Store, StoreError};
use crate::thumbnails::Thumbnails;

const EDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/cifar100-edge");

/// A device that knows a class of three kept shots.
fn device() -> (TempDir, Learner) {
    let folder = tempdir().unwrap();
    let bundle = Bundle::open(EDGE).unwrap();
    let settings = LearnerSettings { keep_shots: true, ..LearnerSettings::default() };
    let mut learner = Learner::new(bundle, Store::new(folder.path()), settings).unwrap();
    let (views, inputs) = (learner.base_model().config.views, learner.base_model().head.inputs);
    let mut random = Random::new(1, "shots");
    let features = Array3::from_shape_fn((3, views, inputs), |_| random.unit());
    let pictures: Vec<RgbImage> =
        (0..3).map(|shade| RgbImage::from_fn(48, 32, |x, y| Rgb([x as u8, y as u8, 40 * shade]))).collect();
    learner
        .learn_many(&[("mug", Shots::WithFeatures { pictures: &pictures, features: features.view() })], &mut ())
        .unwrap()
        .durable()
        .unwrap();
    assert_eq!(learner.kept_pictures().shots, 3);
    (folder, learner)
}

fn written(learner: &Learner) -> (Vec<u8>, BackupContents) {
    let mut file = tempfile().unwrap();
    let contents = write(learner.bundle(), learner.store(), &LearnerSettings::default(), &mut file).unwrap();
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, contents.bytes);
    (bytes, contents)
}

fn restored(
    bytes: &[u8],
    learner: &Learner,
    folder: &Path,
    options: RestoreOptions,
) -> Result<ChangeOutcome<BackupContents>, BackupError> {
    let mut file = tempfile().unwrap();
    file.write_all(bytes).unwrap();
    restore(learner.bundle(), &Store::new(folder), &LearnerSettings::default(), &mut file, &options)
}

/// Names and contents of an archive's files.
fn entries(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = Archive::new(Cursor::new(&bytes[codec::HEADER..]));
    let mut entries = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let (name, mut bytes) = (entry.path().unwrap().display().to_string(), Vec::new());
        entry.read_to_end(&mut bytes).unwrap();
        entries.push((name, bytes));
    }
    entries
}

/// The archive of such entries.
fn archive(entries: &[(Header, Vec<u8>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    entries.iter().for_each(|(header, bytes)| tar.append(header, &bytes[..]).unwrap());
    tar.into_inner().unwrap()
}

/// A backup of such entries whose checksum is right, with that text for a signature.
fn sealed_with(entries: &[(Header, Vec<u8>)], signature: &str) -> Vec<u8> {
    let length = (signature.len() as u32).to_le_bytes();
    codec::seal(FileKind::Backup, 2, &[&archive(entries), signature.as_bytes(), &length])
}

fn sealed(entries: &[(Header, Vec<u8>)]) -> Vec<u8> {
    sealed_with(entries, "")
}

/// A backup of such entries as version 1 wrote it, without releases and signature.
fn sealed_as_version_1(entries: &[(Header, Vec<u8>)]) -> Vec<u8> {
    let kept: Vec<_> =
        entries.iter().filter(|(header, _)| &*header.path_bytes() != RELEASES.as_bytes()).cloned().collect();
    codec::seal(FileKind::Backup, 1, &[&archive(&kept)])
}

fn header(name: &str, size: u64, kind: EntryType) -> Header {
    let mut header = Header::new_ustar();
    // `set_path` would refuse some of the names.
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(size);
    header.set_mode(0o600);
    header.set_entry_type(kind);
    header.set_cksum();
    header
}

fn plain(entries: Vec<(String, Vec<u8>)>) -> Vec<(Header, Vec<u8>)> {
    let plain = |(name, bytes): (String, Vec<u8>)| (header(&name, bytes.len() as u64, EntryType::Regular), bytes);
    entries.into_iter().map(plain).collect()
}

#[test]
fn what_is_restored_is_what_was_backed_up() {
    let (_folder, learner) = device();
    let (bytes, contents) = written(&learner);
    assert_eq!((contents.classes, contents.exemplars, contents.pictures), (1, 3, 3));
    let other = tempdir().unwrap();
    let made = restored(&bytes, &learner, other.path(), RestoreOptions::default()).unwrap();
    assert!(made.uncertain.is_none());
    assert_eq!(made.report, contents);
    let there = Learner::open(EDGE, other.path()).unwrap();
    assert_eq!((there.state(), there.history()), (learner.state(), learner.history()));
    assert_eq!(there.kept_pictures(), learner.kept_pictures());
    // A replacement counts its saves from 1 on, wherever the device was; all else is the same to the byte.
    let (of_there, told) = written(&there);
    assert_eq!(told, contents);
    let third = tempdir().unwrap();
    restored(&of_there, &learner, third.path(), RestoreOptions::default()).unwrap().durable().unwrap();
    let third = Learner::open(EDGE, third.path()).unwrap();
    assert_eq!(written(&third), (of_there, contents), "a backup of it is another");
    let again = restored(&bytes, &learner, other.path(), RestoreOptions::default());
    assert!(matches!(again, Err(BackupError::Occupied { classes: 1, changes: 1, .. })));
    restored(&bytes, &learner, other.path(), RestoreOptions::default().replace(true)).unwrap().durable().unwrap();
}

#[test]
fn small_pictures_of_what_is_replaced_go_with_it() {
    let (_folder, learner) = device();
    let (bytes, _) = written(&learner);
    let folder = learner.store().folder();
    let stays = learner.saved().exemplar_digests().into_iter().next().unwrap();
    std::fs::create_dir(folder.join("thumbnails")).unwrap();
    for digest in [stays, [7; 32]] {
        std::fs::write(folder.join(format!("thumbnails/{}.jpg", hexadecimal(&digest))), b"small").unwrap();
    }
    let thumbnails = Thumbnails::of(learner.store());
    assert_eq!(thumbnails.all().len(), 2);
    restored(&bytes, &learner, folder, RestoreOptions::default().replace(true)).unwrap().durable().unwrap();
    assert_eq!(thumbnails.all(), [stays].into());
}

#[test]
fn a_picture_that_is_damaged_is_left_out_with_a_warning() {
    let (_folder, learner) = device();
    let pictures = learner.store().pictures(&learner.bundle().digest);
    let damaged = pictures.exemplars().unwrap().into_iter().next().unwrap();
    std::fs::write(pictures.path(&damaged), b"\x89PNG\r\n\x1a\n").unwrap();
    let (bytes, contents) = written(&learner);
    assert_eq!((contents.pictures, contents.warnings.len()), (2, 1));
    let other = tempdir().unwrap();
    restored(&bytes, &learner, other.path(), RestoreOptions::default()).unwrap().durable().unwrap();
}

#[test]
fn hostile_backups_are_refused_and_leave_nothing_behind() {
    let (_folder, learner) = device();
    let (bytes, _) = written(&learner);
    let good = entries(&bytes);
    assert_eq!(good.len(), 6);
    let parent = tempdir().unwrap();
    let folder = parent.path().join("state");
    let refused = |what: &str, bytes: &[u8], expected: &str| {
        let error = restored(bytes, &learner, &folder, RestoreOptions::default());
        let said = error.map(|_| ()).expect_err(what).to_string();
        assert!(said.contains(expected), "{what}: {said}");
        let there = Store::new(&folder).load(learner.bundle()).unwrap().saved;
        assert!(there.state.classes.is_empty(), "{what}");
        let pictures = Store::new(&folder).pictures(&learner.bundle().digest);
        assert!(pictures.exemplars().unwrap().is_empty(), "{what}: pictures are left");
        let names: Vec<_> = std::fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.is_empty(), "{what}: {names:?}");
    };
    // Coprime to what the archive is divided into.
    let [lengths, bits] = if orco_trials::heavy() { [97, 1013] } else { [997, 10_007] };
    for length in (0..bytes.len()).step_by(lengths) {
        refused("cut off", &bytes[..length], "it is no backup");
    }
    for bit in (0..8 * bytes.len()).step_by(bits) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        refused("a flipped bit", &flipped, "it is no backup");
    }
    let with = |more: (Header, Vec<u8>)| [plain(good.clone()), vec![more]].concat();
    let picture = good[3].clone();
    for name in ["../evil.png", "/etc/evil.png", "shots/../../evil.png", "shots/x.png", "slot", ".lock", ""] {
        let more = with((header(name, 1, EntryType::Regular), vec![1]));
        refused(name, &sealed(&more), "belongs to no shot");
    }
    let stray = format!("shots/{}.png", "a".repeat(64));
    refused("no shot's", &sealed(&with((header(&stray, 1, EntryType::Regular), vec![1]))), "belongs to no shot");
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Directory, EntryType::Fifo, EntryType::GNUSparse] {
        refused("no file", &sealed(&with((header(&picture.0, 0, kind), Vec::new()))), "no plain file");
    }
    for kind in [EntryType::GNULongName, EntryType::XHeader, EntryType::XGlobalHeader] {
        refused("another name", &sealed(&with((header("x", 3, kind), vec![1; 3]))), "belongs to no shot");
    }
    refused("twice", &sealed(&with(plain(vec![picture.clone()]).remove(0))), "twice");
    let mut noise = good.clone();
    noise[5].1 = vec![7; 100];
    refused("no picture", &sealed(&plain(noise)), "a picture in it is neither");
    let mut huge = plain(good.clone());
    huge[2].0 = header("slot", MAX_STATE + 1, EntryType::Regular);
    refused("a huge state", &sealed(&huge), &format!("where {MAX_STATE} are the most"));
    let mut promised = plain(good[..3].to_vec());
    promised[2].0 = header("slot", MAX_STATE, EntryType::Regular);
    refused("a state that is promised", &sealed(&promised), "cut off");
    refused("nothing", &sealed(&[]), "it holds no bundle.toml");
    refused("no releases", &sealed(&plain(good[..1].to_vec())), "it holds no releases.toml");
    refused("no state", &sealed(&plain(good[..2].to_vec())), "it holds no slot");
    let mut nonsense = good.clone();
    nonsense[1].1 = b"one = = 3".to_vec();
    refused("releases", &sealed(&plain(nonsense)), "its releases.toml cannot be used");
    refused("another order", &sealed(&plain(good.iter().rev().cloned().collect())), "something else where");
    let mut damaged = good.clone();
    damaged[2].1[200] ^= 1;
    refused("a damaged state", &sealed(&plain(damaged)), "makes no sense");
    let mut other = good.clone();
    other[0].1 = String::from_utf8(other[0].1.clone()).unwrap().replace("digest = \"", "digest = \"0").into_bytes();
    refused("another bundle's labels", &sealed(&plain(other)), "it belongs to another bundle");
    let mut labels = good.clone();
    labels[0].1 = String::from_utf8(labels[0].1.clone()).unwrap().replace("\"bear\"", "\"bare\"").into_bytes();
    refused("other labels", &sealed(&plain(labels)), "names other base classes");
    let newer = codec::seal(FileKind::Backup, 3, &[&archive(&plain(good.clone())), &[0; 4]]);
    refused("a later release's", &newer, "it is no backup that can be restored");
    for length in [1, u32::MAX] {
        let cut = codec::seal(FileKind::Backup, 2, &[&archive(&plain(good[..1].to_vec())), &length.to_le_bytes()]);
        refused("a signature of another length", &cut, "it");
    }
    restored(&sealed(&plain(good)), &learner, &folder, RestoreOptions::default()).unwrap().durable().unwrap();
}

#[test]
fn a_backup_of_version_1_restores_where_no_key_is_configured() {
    let (_folder, learner) = device();
    let (bytes, contents) = written(&learner);
    let old = sealed_as_version_1(&plain(entries(&bytes)));
    let other = tempdir().unwrap();
    let made = restored(&old, &learner, other.path(), RestoreOptions::default()).unwrap().report;
    assert_eq!(made, BackupContents { bytes: old.len() as u64, ..contents });
    assert_eq!(Learner::open(EDGE, other.path()).unwrap().saved(), learner.saved());
    let releases = sealed(&plain(entries(&old)));
    let refused = restored(&releases, &learner, tempdir().unwrap().path(), RestoreOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("something else where releases.toml should be"), "{refused}");
}

#[test]
fn what_changes_between_checking_and_restoring_is_noticed() {
    let (_folder, learner) = device();
    let (bytes, _) = written(&learner);
    for at in [codec::HEADER, bytes.len() / 2, bytes.len() - 1] {
        let mut file = tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let checked = envelope::check(&mut file, None).unwrap();
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&[bytes[at] ^ 1]).unwrap();
        let archived = envelope::ArchiveReader::new(&mut file, &checked).unwrap();
        assert!(matches!(archived.finish(), Err(BackupError::Decode(DecodeError::Checksum))), "byte {at}");
    }
}

#[test]
fn a_backup_of_a_folder_that_is_not_there_makes_none() {
    let (_folder, learner) = device();
    let parent = tempdir().unwrap();
    let mistyped = Store::new(parent.path().join("sate"));
    let settings = LearnerSettings { compare_releases: true, ..LearnerSettings::default() };
    let file = parent.path().join("backup");
    let refused = write_to(learner.bundle(), &mistyped, &settings, &file, &BackupOptions::default()).unwrap_err();
    assert!(matches!(refused, BackupError::Nothing { .. }), "{refused:?}");
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0, "something was made");
}

#[test]
fn a_backup_goes_into_no_file_of_the_state() {
    let (folder, learner) = device();
    let options = BackupOptions::default().replace(true);
    let slots = || ["slot-a", "slot-b"].map(|slot| std::fs::read(folder.path().join(slot)).unwrap());
    let before = slots();
    for name in ["slot-b", "thumbnails/../slot-b", "new"] {
        let path = folder.path().join(name);
        let refused = write_to(learner.bundle(), learner.store(), &LearnerSettings::default(), path, &options);
        let said = refused.map(|_| ()).expect_err(name);
        let is_input = |error: &io::Error| error.kind() == io::ErrorKind::InvalidInput;
        assert!(matches!(&said, BackupError::File(error) if is_input(error)), "{said:?}");
    }
    assert_eq!(slots(), before);
    assert!(!folder.path().join("new").exists());
}

#[test]
fn a_backup_takes_the_place_of_a_state_that_is_lost_and_what_is_left_of_that_is_set_aside() {
    let (_folder, learner) = device();
    let (bytes, _) = written(&learner);
    let (folder, other) = device();
    let damaged = [b"rotten".to_vec(), b"rotten, too".to_vec()];
    let slots = ["slot-a", "slot-b"].map(|slot| folder.path().join(slot));
    slots.iter().zip(&damaged).for_each(|(slot, bytes)| std::fs::write(slot, bytes).unwrap());
    let refused = restored(&bytes, &other, folder.path(), RestoreOptions::default()).unwrap_err();
    assert!(matches!(refused, BackupError::Store(StoreError::Lost { .. })), "{refused:?}");
    // What cannot be restored changes nothing.
    let options = RestoreOptions::default().replace(true);
    restored(&bytes[..bytes.len() - 1], &other, folder.path(), options.clone()).unwrap_err();
    assert_eq!(slots.each_ref().map(|slot| std::fs::read(slot).unwrap()), damaged);
    restored(&bytes, &other, folder.path(), options).unwrap().durable().unwrap();
    assert_eq!(Learner::open(EDGE, folder.path()).unwrap().saved(), learner.saved());
    let aside = ["slot-a.bad-0", "slot-b.bad-1"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
    assert_eq!(aside, damaged);
}

#[test]
fn a_backup_remembers_the_release_and_refuses_an_older_one() {
    let (folder, mut learner) = device();
    let settings = LearnerSettings { compare_releases: true, ..LearnerSettings::default() };
    let release = |learner: &mut Learner, release: u32| {
        let mut bundle = Bundle::open(EDGE).unwrap();
        bundle.manifest.release = release;
        write(&bundle, learner.store(), &settings, &mut tempfile().unwrap())
    };
    release(&mut learner, 2).unwrap();
    assert_eq!(Releases::read(folder.path()).unwrap().text().unwrap(), "cifar100-edge = 2\n");
    let refused = release(&mut learner, 1).unwrap_err();
    assert!(matches!(refused, BackupError::Release(ReleaseError::Older { release: 1, used: 2, .. })), "{refused:?}");
}

/// The releases that are remembered in a folder.
fn remember(folder: &Path, used: &[(&str, u32)]) -> Releases {
    let mut releases = Releases::default();
    used.iter().for_each(|(name, release)| assert!(releases.raise(name, *release)));
    releases.write(folder).unwrap();
    releases
}

#[test]
fn releases_that_were_used_here_or_there_stay_used() {
    let (folder, learner) = device();
    remember(folder.path(), &[("cifar100-edge", 5), ("theirs", 2)]);
    let (bytes, _) = written(&learner);
    let other = tempdir().unwrap();
    let before = remember(other.path(), &[("cifar100-edge", 3), ("ours", 7)]);
    // A backup that is refused changes nothing.
    let mut hostile = entries(&bytes);
    hostile[5].1 = vec![7; 100];
    restored(&sealed(&plain(hostile)), &learner, other.path(), RestoreOptions::default()).unwrap_err();
    assert_eq!(Releases::read(other.path()).unwrap(), before);
    restored(&bytes, &learner, other.path(), RestoreOptions::default()).unwrap().durable().unwrap();
    let expected = remember(tempdir().unwrap().path(), &[("cifar100-edge", 5), ("ours", 7), ("theirs", 2)]);
    assert_eq!(Releases::read(other.path()).unwrap(), expected);
    // And they travel on.
    let there = Learner::open(EDGE, other.path()).unwrap();
    let third = tempdir().unwrap();
    restored(&written(&there).0, &there, third.path(), RestoreOptions::default()).unwrap().durable().unwrap();
    assert_eq!(Releases::read(third.path()).unwrap(), expected);
}

#[cfg(feature = "sign")]
#[test]
fn with_a_key_only_what_is_signed_with_it_is_restored() {
    use crate::signature::{GeneratedKey, SecretKey};
    let (folder, learner) = device();
    let GeneratedKey { secret: ours, public, .. } = SecretKey::generate().unwrap();
    let theirs = SecretKey::generate().unwrap().secret;
    let elsewhere = tempdir().unwrap();
    let path = elsewhere.path().join("backup");
    let signed = |key: &SecretKey| {
        let options = BackupOptions::default().replace(true).sign(Some(key));
        write_to(learner.bundle(), learner.store(), &LearnerSettings::default(), &path, &options).unwrap();
        std::fs::read(&path).unwrap()
    };
    let options = RestoreOptions::default().public_key(Some(public));
    let trusted = |bytes: &[u8], folder: &Path| restored(bytes, &learner, folder, options.clone());
    let refused = |what: &str, bytes: &[u8], expected: SignatureError| {
        let parent = tempdir().unwrap();
        let error = trusted(bytes, &parent.path().join("state")).map(|_| ()).expect_err(what);
        assert!(matches!(&error, BackupError::Signature(error) if *error == expected), "{what}: {error:?}");
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0, "{what}: something is left");
    };
    let bytes = signed(&ours);
    let good = plain(entries(&bytes));
    let text = {
        let length = archive(&good).len();
        std::str::from_utf8(&bytes[codec::HEADER + length..bytes.len() - 4]).unwrap().to_owned()
    };
    assert!(text.contains("orco backup of bundle cifar100-edge release 0"), "{text}");
    assert_eq!(sealed_with(&good, &text), bytes);
    refused("unsigned", &written(&learner).0, SignatureError::Missing);
    refused("version 1", &sealed_as_version_1(&good), SignatureError::Missing);
    refused("with another key", &signed(&theirs), SignatureError::OtherKey);
    refused("no signature", &sealed_with(&good, "no signature"), SignatureError::NotMinisign);
    let mut altered = entries(&bytes);
    altered.truncate(5);
    refused("altered", &sealed_with(&plain(altered), &text), SignatureError::Wrong);
    // A signature over the archive alone does not stand for a backup.
    let alone = ours.sign(&archive(&good), "orco backup").unwrap();
    refused("over the archive alone", &sealed_with(&good, &alone), SignatureError::Wrong);
    let other = tempdir().unwrap();
    trusted(&bytes, other.path()).unwrap().durable().unwrap();
    assert_eq!(Learner::open(EDGE, other.path()).unwrap().saved(), learner.saved());
    // Without a key a signature counts for nothing.
    restored(&signed(&theirs), &learner, tempdir().unwrap().path(), RestoreOptions::default())
        .unwrap()
        .durable()
        .unwrap();
    // A release that is older than one which was used where the backup comes from is refused.
    remember(folder.path(), &[("cifar100-edge", 2)]);
    let error = trusted(&signed(&ours), tempdir().unwrap().path()).unwrap_err();
    assert!(matches!(error, BackupError::Release(ReleaseError::Older { release: 0, used: 2, .. })), "{error:?}");
}

#[test]
fn a_folder_of_the_device_that_cannot_be_read_is_no_fault_of_the_backup() {
    let (_folder, learner) = device();
    let kept = learner.store().pictures(&learner.bundle().digest).folder().to_owned();
    std::fs::remove_dir_all(&kept).unwrap();
    std::fs::write(&kept, "no folder").unwrap();
    let mut file = tempfile().unwrap();
    let refused = write(learner.bundle(), learner.store(), &LearnerSettings::default(), &mut file).unwrap_err();
    let is_named = matches!(&refused, BackupError::Store(StoreError::Read { path, .. }) if *path == kept);
    assert!(is_named, "{refused:?}");
}
