//! Backups of made-up classes with small pictures, so that no backbone runs; what else could be in one.

use std::io::Cursor;
use std::path::Path;

use ::image::{Rgb, RgbImage};
use ndarray::Array3;
use orco_core::random::Random;
use tempfile::{TempDir, tempdir, tempfile};

use super::*;
use crate::learner::{Learner, Settings, Shots};

const EDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/cifar100-edge");

/// A device that knows a class of three kept shots.
fn device() -> (TempDir, Learner) {
    let folder = tempdir().unwrap();
    let bundle = Bundle::open(EDGE.as_ref()).unwrap();
    let settings = Settings { keep_shots: true, ..Settings::default() };
    let mut learner = Learner::new(bundle, Store::new(folder.path()), settings).unwrap();
    let (views, inputs) = (learner.base_model().config.views, learner.base_model().head.inputs);
    let mut random = Random::new(1, "shots");
    let features = Array3::from_shape_fn((3, views, inputs), |_| random.unit());
    let pictures: Vec<RgbImage> =
        (0..3).map(|shade| RgbImage::from_fn(48, 32, |x, y| Rgb([x as u8, y as u8, 40 * shade]))).collect();
    learner.learn(&[("mug", Shots::Taken(features.view(), &pictures))], &mut ()).unwrap();
    assert_eq!(learner.kept_shots().shots, 3);
    (folder, learner)
}

fn written(learner: &Learner) -> (Vec<u8>, Contents) {
    let mut file = tempfile().unwrap();
    let contents = write(learner.bundle(), learner.store(), Duration::ZERO, &mut file).unwrap();
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, contents.bytes);
    (bytes, contents)
}

fn restored(bytes: &[u8], learner: &Learner, folder: &Path, over: Overruled) -> Result<Made<Contents>, BackupError> {
    let mut file = tempfile().unwrap();
    file.write_all(bytes).unwrap();
    restore(learner.bundle(), &Store::new(folder), Duration::ZERO, &mut file, over)
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

/// A backup of such entries whose checksum is right.
fn sealed(entries: &[(Header, Vec<u8>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    entries.iter().for_each(|(header, bytes)| tar.append(header, &bytes[..]).unwrap());
    codec::seal(Kind::Backup, 1, &[&tar.into_inner().unwrap()])
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
    let made = restored(&bytes, &learner, other.path(), Overruled::default()).unwrap();
    assert!(made.uncertain.is_none());
    assert_eq!(made.report, contents);
    let there = Learner::open(EDGE, other.path()).unwrap();
    assert_eq!((there.state(), there.history()), (learner.state(), learner.history()));
    assert_eq!(there.kept_shots(), learner.kept_shots());
    assert_eq!(written(&there), (bytes.clone(), contents), "a backup of it is another");
    let again = restored(&bytes, &learner, other.path(), Overruled::default());
    assert!(matches!(again, Err(BackupError::Occupied { classes: 1, changes: 1, .. })));
    restored(&bytes, &learner, other.path(), Overruled { occupied: true, ..Overruled::default() }).unwrap();
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
    restored(&bytes, &learner, other.path(), Overruled::default()).unwrap();
}

#[test]
fn hostile_backups_are_refused_and_leave_nothing_behind() {
    let (_folder, learner) = device();
    let (bytes, _) = written(&learner);
    let good = entries(&bytes);
    assert_eq!(good.len(), 5);
    let parent = tempdir().unwrap();
    let folder = parent.path().join("state");
    let refused = |what: &str, bytes: &[u8], expected: &str| {
        let error = restored(bytes, &learner, &folder, Overruled::default());
        let said = error.map(|_| ()).expect_err(what).to_string();
        assert!(said.contains(expected), "{what}: {said}");
        let there = Store::new(&folder).load(learner.bundle()).unwrap().saved;
        assert!(there.state.classes.is_empty(), "{what}");
        let pictures = Store::new(&folder).pictures(&learner.bundle().digest);
        assert!(pictures.exemplars().unwrap().is_empty(), "{what}: pictures are left");
        let names: Vec<_> = std::fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.is_empty(), "{what}: {names:?}");
    };
    for length in (0..bytes.len()).step_by(97) {
        refused("cut off", &bytes[..length], "it is no backup");
    }
    for bit in (0..8 * bytes.len()).step_by(1013) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        refused("a flipped bit", &flipped, "it is no backup");
    }
    let with = |more: (Header, Vec<u8>)| [plain(good.clone()), vec![more]].concat();
    let picture = good[2].clone();
    for name in ["../evil.png", "/etc/evil.png", "shots/../../evil.png", "shots/x.png", "slot", ".lock", ""] {
        let more = with((header(name, 1, EntryType::Regular), vec![1]));
        refused(name, &sealed(&more), "belongs to no shot");
    }
    let foreign = format!("shots/{}.png", "a".repeat(64));
    refused("no shot's", &sealed(&with((header(&foreign, 1, EntryType::Regular), vec![1]))), "belongs to no shot");
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Directory, EntryType::Fifo, EntryType::GNUSparse] {
        refused("no file", &sealed(&with((header(&picture.0, 0, kind), Vec::new()))), "no plain file");
    }
    for kind in [EntryType::GNULongName, EntryType::XHeader, EntryType::XGlobalHeader] {
        refused("another name", &sealed(&with((header("x", 3, kind), vec![1; 3]))), "belongs to no shot");
    }
    refused("twice", &sealed(&with(plain(vec![picture.clone()]).remove(0))), "twice");
    let mut noise = good.clone();
    noise[4].1 = vec![7; 100];
    refused("no picture", &sealed(&plain(noise)), "a picture in it is neither");
    let mut huge = plain(good.clone());
    huge[1].0 = header("slot", MAX_STATE + 1, EntryType::Regular);
    refused("a huge state", &sealed(&huge), "where 268435456 are the most");
    let mut promised = plain(good[..2].to_vec());
    promised[1].0 = header("slot", MAX_STATE, EntryType::Regular);
    refused("a state that is promised", &sealed(&promised), "cut off");
    refused("nothing", &sealed(&[]), "it holds no bundle.toml");
    refused("no state", &sealed(&plain(good[..1].to_vec())), "it holds no slot");
    refused("another order", &sealed(&plain(good.iter().rev().cloned().collect())), "something else where");
    let mut damaged = good.clone();
    damaged[1].1[200] ^= 1;
    refused("a damaged state", &sealed(&plain(damaged)), "makes no sense");
    let mut other = good.clone();
    other[0].1 = String::from_utf8(other[0].1.clone()).unwrap().replace("digest = \"", "digest = \"0").into_bytes();
    refused("another bundle's labels", &sealed(&plain(other)), "it belongs to another bundle");
    let mut labels = good.clone();
    labels[0].1 = String::from_utf8(labels[0].1.clone()).unwrap().replace("\"bear\"", "\"bare\"").into_bytes();
    refused("other labels", &sealed(&plain(labels)), "names other base classes");
    restored(&sealed(&plain(good)), &learner, &folder, Overruled::default()).unwrap();
}
