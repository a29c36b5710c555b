//! Bundles by channel: a device moves to the new one, or stays with its own and says why.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use orco_hub::client::{HttpTransport, SyncError, SyncStep, WireAnswer, WireRequest};
use orco_hub::export;
use orco_hub::merge::SameLabel;
use orco_hub::protocol::OBJECTS_PATH;
use orco_hub::rollout::RolloutStage;
use orco_hub::store::{BundleRelease, HubStore, now};
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::{AnswerScope, Learner, LearnerSettings, OpenLearnerError, upgrade};
use orco_runtime::manifest::{BACKBONE, BENCHMARK, LEARNER, MANIFEST, hexadecimal};
use orco_runtime::release::ReleaseError;
use orco_runtime::state::codec::{self, FileKind};
use orco_runtime::store::{Store, StoreError};
use orco_trials::tmpfs::TmpfsMount;

use crate::support::{Changing, DeviceFiles, Fleet, code, refusal, release, shipped, teach_pictures};

/// The shipped bundle as another release.
fn release_of_shipped(folder: &Path, release: u32) -> PathBuf {
    let copy = folder.join(format!("release-{release}"));
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(shipped()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
    }
    let manifest = copy.join(MANIFEST);
    let text = fs::read_to_string(&manifest).unwrap();
    let name = "name = \"cifar100-edge\"\n";
    assert!(text.contains(name) && !text.contains("\nrelease = "));
    fs::write(manifest, text.replace(name, &format!("{name}release = {release}\n"))).unwrap();
    copy
}

/// The shipped bundle as after another training, release 3: it lacks one exemplar.
fn other_bundle(folder: &Path) -> PathBuf {
    let copy = release_of_shipped(folder, 3);
    let bundle = Bundle::open(&copy).unwrap();
    let mut base_model = bundle.base_model.clone();
    let kept: Vec<usize> = (1..base_model.exemplars.len()).collect();
    base_model.exemplars = base_model.exemplars.only(&kept);
    let learner = codec::encode(FileKind::Learner, &base_model);
    let text = fs::read_to_string(copy.join(MANIFEST)).unwrap();
    let old = hexadecimal(&bundle.digest);
    assert!(text.contains(&old));
    fs::write(copy.join(MANIFEST), text.replace(&old, &hexadecimal(&codec::digest(&learner)))).unwrap();
    fs::write(copy.join(LEARNER), learner).unwrap();
    copy
}

fn release_of(folder: &Path) -> BundleRelease<'_> {
    let (channel, stage) = ("next", RolloutStage::All);
    BundleRelease { folder, channel, stage, force: false, give_up_unkept: false, key: None }
}

/// A device of the channel `next` that was taught a class with kept pictures.
fn taught_device(fleet: &Fleet) -> (HubStore, HttpTransport, DeviceFiles) {
    let (store, mut network, device) = (fleet.hub.store(), fleet.network(), fleet.device("door 3"));
    device.enrol(&mut network, &store, "next");
    teach_pictures(&device);
    (store, network, device)
}

/// The device runs with that bundle, and refuses older releases than it used before.
fn demand_releases(device: &mut DeviceFiles, bundle: &Path) {
    device.bundle = Some(bundle.into());
    device.compare_releases = true;
}

/// The device's own check of release 3 fails.
fn fails_release_3(bundle: &Bundle) -> Result<(), String> {
    if bundle.manifest.release == 3 { Err("the engine fails".into()) } else { Ok(()) }
}

#[test]
fn a_device_moves_to_a_bundle_without_its_benchmark() {
    let fleet = Fleet::new();
    let (store, mut network, device) = (fleet.hub.store(), fleet.network(), fleet.device("door 3"));
    device.enrol(&mut network, &store, "next");
    let bundle = other_bundle(fleet.folder.path());
    fs::remove_file(bundle.join(BENCHMARK)).unwrap();
    store.release_bundle(&release_of(&bundle), now()).unwrap();
    device.sync(&mut network);
    assert_eq!(device.learner().bundle().digest, Bundle::open(&bundle).unwrap().digest);
    // It is not fetched once more.
    fleet.proxy.take();
    device.sync(&mut network);
    assert!(fleet.proxy.take() < 10_000);
}

/// What a device refuses does not count as used.
#[test]
fn a_device_moves_to_the_released_bundle_or_stays_and_says_why() {
    let fleet = Fleet::new();
    let (store, mut network) = (fleet.hub.store(), fleet.network());
    let mut devices = ["fresh", "pictures", "features", "failing"].map(|name| fleet.device(name));
    let second = release_of_shipped(fleet.folder.path(), 2);
    devices.iter_mut().for_each(|device| demand_releases(device, &second));
    devices[3].check = fails_release_3;
    devices.iter().for_each(|device| device.enrol(&mut network, &store, "next"));
    let [fresh, pictures, features, failing] = &devices;
    teach_pictures(pictures);
    features.teach("mug", 1);
    teach_pictures(failing);
    let before = failing.learner().saved().clone();
    let bundle = other_bundle(fleet.folder.path());
    let digest = Bundle::open(&bundle).unwrap().digest;
    let release = release_of(&bundle);
    store.release_bundle(&release, now()).unwrap();
    fleet.proxy.take();
    fresh.sync(&mut network);
    println!("a bundle takes {} bytes on the wire", fleet.proxy.take());
    [pictures, features, failing].iter().for_each(|device| drop(device.sync(&mut network)));

    for device in [fresh, pictures] {
        assert_eq!(device.learner().bundle().digest, digest, "{}", device.name);
        let old = Learner::new(Bundle::open(&second).unwrap(), Store::new(device.state()), device.settings());
        assert!(matches!(old.err(), Some(OpenLearnerError::Release(ReleaseError::Older { used: 3, .. }))));
    }
    assert_eq!(pictures.labels(), ["duck"]);
    for (device, reason) in [(features, "no pictures"), (failing, "the engine fails")] {
        assert_ne!(device.learner().bundle().digest, digest, "{}", device.name);
        let known = store.devices().unwrap().into_iter().find(|known| known.name == device.name).unwrap();
        let refused = known.report.unwrap().outcomes[0].refused.clone().unwrap();
        assert!(refused.contains(reason), "{refused}");
        // It is not tried again in every round.
        fleet.proxy.take();
        device.sync(&mut network);
        assert!(fleet.proxy.take() < 10_000);
    }
    assert_eq!(*failing.learner().saved(), before, "the old state came back changed");

    // An operator who accepts that: classes without pictures go, others stay.
    let accepted = BundleRelease { give_up_unkept: true, ..release };
    store.release_bundle(&accepted, now()).unwrap();
    [pictures, features].iter().for_each(|device| drop(device.sync(&mut network)));
    assert_eq!(features.learner().bundle().digest, digest);
    assert!(features.labels().is_empty());
    assert_eq!(pictures.labels(), ["duck"]);

    // A bundle that the device checks in vain costs no class; pictures that it shares come out for the trainer.
    let folders = fleet.folder.path().join("export");
    let exported = export::export(&store, &folders).unwrap();
    assert_eq!((exported.classes, exported.renamed.as_slice()), (1, &[][..]));
    check_layout(&folders);
    assert_eq!(exported.pictures, fs::read_dir(folders.join("duck")).unwrap().count());
    let bytes = fs::read(fs::read_dir(folders.join("duck")).unwrap().next().unwrap().unwrap().path()).unwrap();
    orco_runtime::image::decode(&bytes).unwrap();
    // One that the hub lost keeps no other back.
    let lost = store.shared_pictures().unwrap().remove(0).digest;
    fs::remove_file(store.objects().path(&lost)).unwrap();
    let rest = export::export(&store, &fleet.folder.path().join("rest")).unwrap();
    assert_eq!((rest.pictures, rest.unreadable.len()), (exported.pictures - 1, 1), "{rest:?}");
}

/// A hub that was restored from a backup gives a number again, to another bundle.
#[test]
fn another_bundle_under_the_number_of_a_refused_one_is_taken_up() {
    let fleet = Fleet::new();
    let (store, mut network) = (fleet.hub.store(), fleet.network());
    let bundle = other_bundle(fleet.folder.path());
    let digest = Bundle::open(&bundle).unwrap().digest;
    let devices = ["newer", "older"].map(|name| fleet.device(name));
    devices.iter().for_each(|device| device.enrol(&mut network, &store, "next"));
    let release = store.release_bundle(&release_of(&bundle), now()).unwrap();
    let manifest = "7".repeat(64);
    // An older program wrote no manifest.
    for (device, manifest) in devices.iter().zip([format!(r#","manifest":"{manifest}""#), String::new()]) {
        let refused = format!(r#"{{"release":{release},"reason":"worse"{manifest}}}"#);
        let progress = format!(r#"{{"learned":[],"pushed":[],"refused":[{refused}]}}"#);
        fs::write(device.fleet().path().join("progress.json"), progress).unwrap();
        assert_eq!(device.sync(&mut network).outcomes[0].refused, None);
        assert_eq!(device.learner().bundle().digest, digest);
    }
}

/// As from a hub of an older program, which did not look.
#[test]
fn a_bundle_with_files_of_other_places_is_refused_and_the_round_goes_on() {
    let fleet = Fleet::new();
    let (store, mut network) = (fleet.hub.store(), fleet.network());
    let device = fleet.device("door 3");
    device.enrol(&mut network, &store, "next");
    device.teach("mug", 1);
    store.release_bundle(&release_of(&other_bundle(fleet.folder.path())), now()).unwrap();
    let database = rusqlite::Connection::open(store.folder().join("hub.sqlite")).unwrap();
    let rename = "UPDATE release_file SET name = '../labels.txt' WHERE name = 'labels.txt'";
    assert_eq!(database.execute(rename, []).unwrap(), 1);
    let outcome = device.sync(&mut network);
    assert!(outcome.outcomes[0].refused.as_ref().is_some_and(|reason| reason.contains("../labels.txt")), "{outcome:?}");
    assert_eq!(outcome.pushed, ["mug"]);
}

/// A class without a picture is in the way until somebody forgets it.
#[test]
fn what_may_change_by_itself_is_tried_again() {
    let fleet = Fleet::new();
    let (store, mut network, device) = taught_device(&fleet);
    device.teach("mug", 1);
    let bundle = other_bundle(fleet.folder.path());
    store.release_bundle(&release_of(&bundle), now()).unwrap();
    assert!(device.sync(&mut network).outcomes[0].refused.as_ref().is_some_and(|reason| reason.contains("mug")));
    device.learner().forget("mug", &mut ()).unwrap().durable().unwrap();
    fleet.proxy.take();
    assert_eq!(device.sync(&mut network).outcomes[0].refused, None);
    let largest = fs::read_dir(&bundle).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).max().unwrap();
    assert!(fleet.proxy.take() < largest, "the bundle was fetched again");
    assert_eq!(device.learner().bundle().digest, Bundle::open(&bundle).unwrap().digest);
    assert_eq!(device.labels(), ["duck"]);
}

/// What trainer/src/data/dataset/folders.rs reads: a folder for each class, with .jpg files, and nothing beside them.
fn check_layout(data: &Path) {
    for class in fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()) {
        let files: Vec<PathBuf> = fs::read_dir(class).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.iter().all(|file| file.extension().is_some_and(|extension| extension == "jpg")), "{files:?}");
    }
}

/// A device without any bundle gets its first one from the hub, in parts that a power cut does not throw away.
#[test]
fn a_new_device_gets_its_first_bundle_through_power_cuts() {
    let fleet = Fleet::new();
    let (store, mut network) = (fleet.hub.store(), fleet.network());
    let mut device = fleet.device("new");
    device.bundle = None;
    device.enrol(&mut network, &store, "next");
    let bundle = shipped();
    let release = release_of(&bundle);
    store.release_bundle(&release, now()).unwrap();
    let mut rounds = 0;
    fleet.proxy.take();
    // The power fails after ever so many steps.
    loop {
        let mut left = 12;
        let mut power = |_| {
            left -= 1;
            if left == 0 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
        };
        rounds += 1;
        if device.device().sync(&mut network, &mut power).is_ok() {
            break;
        }
        assert!(rounds < 50, "no progress");
    }
    assert!(rounds > 1);
    let total: u64 = fs::read_dir(&bundle).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(fleet.proxy.take() < 2 * total, "parts were fetched again");
    assert!(device.fleet().current_bundle().join(MANIFEST).exists());
    assert_eq!(device.learner().bundle().manifest.name, "cifar100-edge");
}

/// As on exFAT, which has no links: something is in the way of the one that would lead to the new bundle.
#[test]
fn a_device_that_can_make_no_link_stays_with_its_bundle() {
    let fleet = Fleet::new();
    let (store, mut network, device) = taught_device(&fleet);
    let (before, bundle) = (device.learner().saved().clone(), other_bundle(fleet.folder.path()));
    store.release_bundle(&release_of(&bundle), now()).unwrap();
    let in_the_way = device.fleet().current_bundle().with_file_name(".current.new");
    fs::create_dir_all(&in_the_way).unwrap();
    let outcome = device.sync(&mut network);
    assert!(refusal(&outcome, 0).contains("no link can be made"), "{outcome:?}");
    assert_eq!(*device.learner().saved(), before, "the state moved");
    fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(device.sync(&mut network).outcomes[0].refused, None);
    assert_eq!(device.learner().bundle().digest, Bundle::open(&bundle).unwrap().digest);
}

/// As after `scp -r`, which copies what links lead to.
#[test]
fn a_folder_in_the_place_of_the_link_is_replaced() {
    let fleet = Fleet::new();
    let (store, mut network, device) = taught_device(&fleet);
    store.release_bundle(&release_of(&other_bundle(fleet.folder.path())), now()).unwrap();
    device.sync(&mut network);
    let link = device.fleet().current_bundle();
    fs::remove_file(&link).unwrap();
    fs::create_dir(&link).unwrap();
    fs::write(link.join(MANIFEST), "a copy").unwrap();
    assert_eq!(device.sync(&mut network).outcomes[0].refused, None);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(device.labels(), ["duck"]);
}

/// As where one card is prepared for all devices.
#[test]
fn settings_may_name_the_link_before_the_first_bundle_comes() {
    let fleet = Fleet::new();
    let (store, mut network, mut device) = (fleet.hub.store(), fleet.network(), fleet.device("new"));
    device.bundle = Some(device.fleet().current_bundle());
    device.enrol(&mut network, &store, "next");
    let without = device.device().sync(&mut network, &mut ()).unwrap_err();
    assert!(matches!(without, SyncError::NoBundle), "{without}");
    store.release_bundle(&release_of(&shipped()), now()).unwrap();
    assert_eq!(device.sync(&mut network).bundle.as_deref(), Some("cifar100-edge"));
    assert!(device.sync(&mut network).bundle.is_none());
}

/// As where a broken device's backup is restored on another one, which never had the channel's bundle.
#[test]
fn a_replacement_fetches_the_bundle_of_the_state_that_was_restored_on_it() {
    let fleet = Fleet::new();
    let (store, mut network, broken) = taught_device(&fleet);
    store.release_bundle(&release_of(&other_bundle(fleet.folder.path())), now()).unwrap();
    broken.sync(&mut network);
    let replacement = fleet.device("replacement");
    fs::create_dir_all(replacement.state()).unwrap();
    for slot in ["slot-a", "slot-b"] {
        fs::copy(broken.state().join(slot), replacement.state().join(slot)).unwrap();
    }
    replacement.enrol(&mut network, &store, "empty");
    let without = replacement.device().sync(&mut network, &mut ()).unwrap_err();
    let is_said = matches!(without, SyncError::Learner(OpenLearnerError::Store(StoreError::OtherBundle { .. })));
    assert!(is_said, "{without}");
    replacement.enrol(&mut network, &store, "next");
    assert_eq!(replacement.sync(&mut network).outcomes[0].refused, None);
    assert!(replacement.fleet().current_bundle().is_symlink());
    assert_eq!(replacement.learner().saved(), broken.learner().saved());
}

/// The power fails when the state has moved to the new bundle, but the link still leads to the old one.
#[test]
fn a_power_cut_between_the_state_and_the_link_is_made_good() {
    let fleet = Fleet::new();
    let (store, mut network) = (fleet.hub.store(), fleet.network());
    let mut devices = ["going", "failing"].map(|name| fleet.device(name));
    let second = release_of_shipped(fleet.folder.path(), 2);
    let bundle = other_bundle(fleet.folder.path());
    let digest = Bundle::open(&bundle).unwrap().digest;
    for device in &mut devices {
        demand_releases(device, &second);
        device.enrol(&mut network, &store, "next");
        teach_pictures(device);
    }
    let before = devices[1].learner().saved().clone();
    // A service that runs all the time.
    let mut running = devices[0].learner();
    store.release_bundle(&release_of(&bundle), now()).unwrap();
    let cut = |step: SyncStep| {
        if step == SyncStep::SwitchBundle { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    for device in &devices {
        let stopped = device.device().sync(&mut network, &mut { cut }).unwrap_err();
        assert!(matches!(stopped, SyncError::Stopped), "{stopped}");
        assert!(!device.fleet().current_bundle().exists());
        let old = Learner::new(Bundle::open(&second).unwrap(), Store::new(device.state()), device.settings());
        let error = old.expect_err("the state has not moved");
        assert!(matches!(error, OpenLearnerError::Store(StoreError::OtherBundle { .. })), "{error}");
    }
    // The running service neither answers as if nothing had happened nor harms the state.
    assert!(running.refresh().is_err());
    assert!(running.forget("duck", &mut ()).is_err());

    devices[1].check = fails_release_3;
    let outcomes = devices.each_ref().map(|device| device.sync(&mut network).outcomes);
    assert_eq!(devices[0].learner().bundle().digest, digest);
    assert_eq!(devices[0].labels(), ["duck"]);
    assert_eq!(outcomes[0][0].refused, None);
    assert_eq!(*devices[1].learner().saved(), before, "the old state came back changed");
    assert!(outcomes[1][0].refused.as_ref().is_some_and(|reason| reason.contains("the engine fails")));
    assert!(devices[1].sync(&mut network).bundle.is_none());

    // The link of the device that moved gets lost, and its first bundle is too old by now.
    fs::remove_file(devices[0].fleet().current_bundle()).unwrap();
    devices[0].sync(&mut network);
    assert_eq!(devices[0].learner().bundle().digest, digest);
}

#[test]
fn a_bundle_without_room_has_to_wait_and_does_not_fill_the_disk() {
    let Some(disk) = TmpfsMount::new("size=8m") else {
        orco_trials::skipped("a device with a small disk (mounting needs root)");
        return;
    };
    let fleet = Fleet::new();
    let (store, mut network) = (fleet.hub.store(), fleet.network());
    let device = DeviceFiles::new(disk.path(), "door 3");
    device.enrol(&mut network, &store, "next");
    teach_pictures(&device);
    let bundle = other_bundle(fleet.folder.path());
    store.release_bundle(&release_of(&bundle), now()).unwrap();
    let parts = || {
        let objects = fs::read_dir(device.fleet().path().join("objects")).unwrap();
        objects.filter(|entry| entry.as_ref().unwrap().path().extension().is_some()).count()
    };
    let outcome = device.sync(&mut network);
    assert!(outcome.outcomes[0].refused.as_ref().is_some_and(|reason| reason.contains("no room")), "{outcome:?}");
    assert_eq!((outcome.pushed, parts()), (vec!["duck".to_owned()], 0));

    // Somebody else fills the disk while parts come.
    disk.remount("size=40m");
    let (mut answers, mut ballast) = (0, None);
    let fill = |request: &mut WireRequest, answer: Option<&mut WireAnswer>| {
        answers += usize::from(answer.is_some() && request.path.starts_with(OBJECTS_PATH));
        if answers == 4 && ballast.is_none() {
            ballast = Some(disk.fill());
        }
    };
    let outcome = device.sync(&mut Changing(fleet.network(), fill));
    assert!(outcome.outcomes[0].refused.as_ref().is_some_and(|reason| reason.contains(".part")), "{outcome:?}");
    assert_eq!(parts(), 0);
    fs::remove_file(ballast.unwrap()).unwrap();
    assert_eq!(device.sync(&mut network).outcomes[0].refused, None);
    assert_eq!(device.labels(), ["duck"]);
}

/// As where a card of memory fails.
#[test]
fn a_damaged_bundle_is_reported_and_fetched_again() {
    let fleet = Fleet::new();
    let (store, mut network, device) = taught_device(&fleet);
    let bundle = other_bundle(fleet.folder.path());
    let first = store.release_bundle(&release_of(&bundle), now()).unwrap();
    device.sync(&mut network);
    let known = device.learner().saved().clone();
    let damage = |name: &str| {
        let path = device.fleet().current_bundle().join(name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x80;
        fs::write(&path, bytes).unwrap();
    };
    for name in [BACKBONE, MANIFEST] {
        damage(name);
        let outcome = device.sync(&mut network);
        assert_eq!(outcome.outcomes[0].refused, None);
        assert_eq!(*device.learner().saved(), known);
    }

    // The hub hears of it even if the channel has no bundle to offer; or the power fails when it was removed.
    damage(BACKBONE);
    store.withdraw(first).unwrap();
    let error = device.device().sync(&mut network, &mut ()).unwrap_err();
    assert!(matches!(error, SyncError::NoBundle), "{error}");
    let report = store.devices().unwrap().remove(0).report.unwrap();
    assert!(report.health.warnings.iter().any(|warning| warning.contains("is damaged")), "{report:?}");
    fs::remove_dir_all(fs::canonicalize(device.fleet().current_bundle()).unwrap()).unwrap();
    store.release_bundle(&release_of(&bundle), now()).unwrap();
    device.sync(&mut network);
    assert_eq!(*device.learner().saved(), known);
    device.sync(&mut network);
    assert!(store.devices().unwrap().remove(0).report.unwrap().health.warnings.is_empty());
}

/// What the device says to do when it is to follow another hub costs neither its state nor the bundle that this needs.
#[test]
fn a_device_that_enrols_with_another_hub_goes_on_with_its_bundle() {
    let (fleet, other) = (Fleet::new(), Fleet::new());
    let (store, mut network, device) = taught_device(&fleet);
    store.release_bundle(&release_of(&other_bundle(fleet.folder.path())), now()).unwrap();
    device.sync(&mut network);
    let known = device.learner().saved().clone();
    let code = code(&other.hub.store(), "next");
    let refused = device.device().enrol(&mut other.network(), &code, "door 3", &mut ()).unwrap_err();
    let advice = refused.to_string();
    let named: Vec<PathBuf> = fs::read_dir(device.fleet().path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some() && advice.contains(path.file_name().unwrap().to_str().unwrap()))
        .collect();
    assert_eq!(named.len(), 2, "{advice}");
    named.iter().for_each(|path| fs::remove_file(path).unwrap());
    // The other hub may have lied about the numbers that it had seen.
    fs::write(device.fleet().path().join("sequence.json"), u64::MAX.to_string()).unwrap();
    device.device().enrol(&mut other.network(), &code, "door 3", &mut ()).unwrap();
    assert_eq!(device.sync(&mut other.network()).pushed, ["duck"]);
    assert_eq!(*device.learner().saved(), known);
}

#[test]
fn damaged_files_of_a_device_are_named_with_what_to_do() {
    let fleet = Fleet::new();
    let (store, mut network) = (fleet.hub.store(), fleet.network());
    let device = fleet.device("door 3");
    device.enrol(&mut network, &store, "next");
    device.sync(&mut network);
    let path = |name: &str| device.fleet().path().join(name);
    let identity = fs::read_to_string(path("identity.json")).unwrap();
    let without_key = identity.replace("\"key\":\"", "\"key\":\"AAAA");
    for (name, text) in [("sequence.json", "?"), ("progress.json", "?"), ("identity.json", &without_key)] {
        fs::write(path(name), text).unwrap();
        let refused = device.device().sync(&mut network, &mut ()).unwrap_err().to_string();
        assert!(refused.starts_with(&path(name).display().to_string()), "{refused}");
        assert_eq!(refused.contains("enrol again"), name == "identity.json", "{refused}");
        fs::remove_file(path(name)).unwrap();
        if name != "identity.json" {
            device.sync(&mut network);
        }
    }
}

/// A person goes back to the bundle that the device was set up with.
#[test]
fn a_device_whose_bundle_a_person_changed_follows_its_channel_again() {
    let fleet = Fleet::new();
    let (store, mut network, device) = taught_device(&fleet);
    let bundle = other_bundle(fleet.folder.path());
    store.release_bundle(&release_of(&bundle), now()).unwrap();
    device.sync(&mut network);
    let old = Bundle::open(shipped()).unwrap();
    upgrade::undo_upgrade(&old, &Store::new(device.state()), &LearnerSettings::default()).unwrap().durable().unwrap();
    device.sync(&mut network);
    assert_eq!(device.learner().bundle().digest, Bundle::open(&bundle).unwrap().digest);
    assert_eq!(device.labels(), ["duck"]);
}

#[test]
fn a_picture_that_cannot_be_shared_keeps_no_other_back() {
    let fleet = Fleet::new();
    let (store, mut network, device) = taught_device(&fleet);
    let learner = device.learner();
    let (kept, exemplars) = (learner.store().pictures(&learner.bundle().digest), &learner.state().exemplars);
    let files: Vec<PathBuf> = (0..exemplars.len()).map(|shot| kept.path(&exemplars.digest_of(shot))).collect();
    fs::write(&files[0], b"no picture").unwrap();
    fs::remove_file(&files[1]).unwrap();
    fs::create_dir(&files[1]).unwrap();
    let outcome = device.sync(&mut network);
    assert_eq!((outcome.pushed, outcome.pictures), (vec!["duck".to_owned()], files.len() - 2));
    assert_eq!(store.shared_pictures().unwrap().len(), files.len() - 2);
    let warnings = store.devices().unwrap().remove(0).report.unwrap().health.warnings;
    assert_eq!(warnings.iter().filter(|warning| warning.contains("a picture of \"duck\"")).count(), 2, "{warnings:?}");
    assert_eq!(device.sync(&mut network).pictures, 0, "they are not sent again in every round");
}

#[test]
fn packs_are_learned_again_when_the_channel_returns_to_their_bundle() {
    let fleet = Fleet::new();
    let (store, mut network) = (fleet.hub.store(), fleet.network());
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    [&giver, &taker].iter().for_each(|device| device.enrol(&mut network, &store, "next"));
    giver.teach("mug", 1);
    giver.sync(&mut network);
    release(&store, "next", &[store.packs().unwrap()[0].digest], SameLabel::Refuse);
    assert_eq!(taker.sync(&mut network).imported, ["mug"]);
    let (first, other) = (shipped(), other_bundle(fleet.folder.path()));
    for (bundle, imported) in [(&other, &[][..]), (&first, &["mug"][..])] {
        store.release_bundle(&BundleRelease { give_up_unkept: true, ..release_of(bundle) }, now()).unwrap();
        // The one that pushed it gave it up like the other.
        for device in [&giver, &taker] {
            let outcome = device.sync(&mut network);
            assert!(outcome.bundle.is_some());
            assert_eq!(outcome.imported, imported);
            assert_eq!(device.labels(), imported);
        }
    }
    assert!(taker.sync(&mut network).imported.is_empty());
}

/// Else it would count as the channel's, and go when its release is taken back.
#[test]
fn a_class_that_a_person_brings_back_with_its_bundle_is_still_the_devices_own() {
    let fleet = Fleet::new();
    let (store, mut network, giver) = (fleet.hub.store(), fleet.network(), fleet.device("giver"));
    giver.enrol(&mut network, &store, "next");
    giver.teach("mug", 1);
    giver.sync(&mut network);
    release(&store, "next", &[store.packs().unwrap()[0].digest], SameLabel::Refuse);
    let bundle = other_bundle(fleet.folder.path());
    let id = store.release_bundle(&BundleRelease { give_up_unkept: true, ..release_of(&bundle) }, now()).unwrap();
    assert!(giver.sync(&mut network).bundle.is_some());
    assert!(giver.labels().is_empty());
    store.withdraw(id).unwrap();
    let old = Bundle::open(shipped()).unwrap();
    upgrade::undo_upgrade(&old, &Store::new(giver.state()), &LearnerSettings::default()).unwrap().durable().unwrap();
    giver.sync(&mut network);
    store.releases().unwrap().iter().for_each(|release| store.withdraw(release.id).unwrap());
    assert!(giver.sync(&mut network).forgotten.is_empty());
    assert_eq!(giver.labels(), ["mug"]);
}

/// As where the next bundle was trained on what the fleet learned, and devices have classes of packs.
#[test]
fn a_bundle_that_brings_what_was_learned_needs_no_pictures() {
    let fleet = Fleet::new();
    let (store, mut network, device) = (fleet.hub.store(), fleet.network(), fleet.device("door 3"));
    device.enrol(&mut network, &store, "next");
    device.teach("mug", 1);
    let everyday = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/everyday");
    store.release_bundle(&release_of(&everyday), now()).unwrap();
    let outcome = device.sync(&mut network);
    assert!(refusal(&outcome, 0).contains("released with --give-up-unkept"), "{outcome:?}");
    device.learner().forget("mug", &mut ()).unwrap().durable().unwrap();
    device.teach("flamingo", 1);
    let outcome = device.sync(&mut network);
    assert_eq!(outcome.bundle.as_deref(), Some("everyday"), "{outcome:?}");
    assert!(device.learner().base_model().classes.iter().any(|class| class.label == "flamingo"));
    assert!(device.labels().is_empty());
    // Nor does the way back, which would lose the class if it were learned again.
    let back = store.release_bundle(&release_of(&shipped()), now()).unwrap();
    let outcome = device.sync(&mut network);
    assert_eq!(outcome.bundle.as_deref(), Some("cifar100-edge"), "{outcome:?}");
    assert_eq!(device.labels(), ["flamingo"]);
    // What is taught while the device is about to go back stays.
    store.withdraw(back).unwrap();
    assert_eq!(device.sync(&mut network).bundle.as_deref(), Some("everyday"));
    store.release_bundle(&release_of(&shipped()), now()).unwrap();
    let mut teaching = |step: SyncStep| {
        if step == SyncStep::Upgrade {
            device.teach("mug", 1);
        }
        ControlFlow::Continue(())
    };
    let outcome = device.device().sync(&mut network, &mut teaching).unwrap();
    assert!(refusal(&outcome, 0).contains("released with --give-up-unkept"), "{outcome:?}");
    assert_eq!(device.labels(), ["mug"]);
}

/// A class that the next bundle brings is none of those that answers name, while others are still learned.
#[test]
fn the_hub_hears_of_classes_with_shots_that_no_answer_names() {
    let fleet = Fleet::new();
    let (store, mut network, mut device) = (fleet.hub.store(), fleet.network(), fleet.device("door 3"));
    device.enrol(&mut network, &store, "next");
    device.teach("mug", 1);
    device.add_shot("apple");
    for (scope, expected) in [(AnswerScope::All, false), (AnswerScope::Learned, true)] {
        device.scope = scope;
        device.sync(&mut network);
        let warnings = store.devices().unwrap().remove(0).report.unwrap().health.warnings;
        let is_said = warnings.iter().any(|warning| warning.contains("no answer names \"apple\""));
        assert_eq!(is_said, expected, "{warnings:?}");
    }
}

/// Two devices with copies of one card push the very same pack.
#[test]
fn a_copy_of_a_device_pushes_the_same_pack_without_harm() {
    let fleet = Fleet::new();
    let (store, mut network) = (fleet.hub.store(), fleet.network());
    for name in ["one", "two"] {
        let device = fleet.device(name);
        device.enrol(&mut network, &store, "next");
        teach_pictures(&device);
        assert_eq!(device.sync(&mut network).pushed, ["duck"]);
        assert!(device.sync(&mut network).pushed.is_empty());
    }
    assert_eq!(store.packs().unwrap().len(), 1);
}
