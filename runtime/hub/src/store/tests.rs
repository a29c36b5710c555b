//! What a hub keeps of devices, codes and packs, and what it refuses.

mod releases;

use std::time::Duration;

use orco_runtime::method::exemplar::ExemplarPrecision;
use orco_runtime::pack::PackOrigin;
use orco_runtime::state::bank::Bank;
use orco_runtime::state::sentence::with_causes;

use super::*;
use crate::merge::{MergeError, SameLabel};
use crate::protocol::*;
use crate::rollout::{DEFAULT_CHANNEL, RolloutStage};

const DAY: Duration = Duration::from_secs(86_400);
const NOW: UnixSeconds = 1_800_000_000;

/// A device by its key alone.
struct Caller {
    key: SigningKey,
    sequence: u64,
}

impl Caller {
    fn new() -> Self {
        Self { key: SigningKey::generate().unwrap(), sequence: 0 }
    }

    fn id(&self) -> DeviceId {
        self.key.verifying_key().device()
    }

    fn head(&mut self, path: &str, body: &[u8]) -> RequestHead {
        self.sequence += 1;
        RequestHead {
            method: "POST".into(),
            path: path.into(),
            range: None,
            device: self.id(),
            sequence: self.sequence,
            body: ObjectDigest::of(body),
        }
    }

    fn enrolment(&self, code: &EnrolmentCode, name: &str) -> Enrolment {
        let key = self.key.verifying_key();
        Enrolment { code: code.id(), key, name: name.into(), proof: ObjectDigest::new(code.key().prove(&key)) }
    }

    fn enrol(&mut self, hub: &HubStore, code: &EnrolmentCode, name: &str, now: UnixSeconds) -> Option<StoredAnswer> {
        let (head, enrolment) = (self.head(ENROL_PATH, b""), self.enrolment(code, name));
        hub.enrol(&head, &head.sign(&self.key), &enrolment, now).unwrap()
    }

    fn enrolled(hub: &HubStore, name: &str) -> Self {
        let mut caller = Self::new();
        let code = hub.new_code(DEFAULT_CHANNEL, DAY, NOW).unwrap();
        assert_eq!(caller.enrol(hub, &code, name, NOW).unwrap().status, 200);
        caller
    }

    fn push(&mut self, hub: &HubStore, label: &str, shade: f32) -> ObjectDigest {
        let bytes = pack(label, shade);
        let head = self.head(PACKS_PATH, &bytes);
        let answer = hub.receive_pack(&head, &bytes, NOW).unwrap().unwrap();
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        ObjectDigest::of(&bytes)
    }

    /// Reports classes of one shot each.
    fn report(&mut self, hub: &HubStore, labels: &[&str]) {
        let classes = labels.iter().map(|label| ClassReport { label: (*label).into(), shots: 1 }).collect();
        let report = DeviceReport { classes, ..DeviceReport::default() };
        let (head, device) = (self.head(REPORT_PATH, b""), self.id());
        let kept = hub.answer_once(&head, NOW, |transaction| {
            HubStore::keep_report(transaction, &device, &report)?;
            Ok(StoredAnswer::json(&labels))
        });
        assert_eq!(kept.unwrap().unwrap().status, 200);
    }
}

fn pack(label: &str, shade: f32) -> Vec<u8> {
    let mut exemplars = Bank::new(2, 1, ExemplarPrecision::F16);
    exemplars.push(0, &[shade, 1.0]);
    let origin = PackOrigin { bundle: "b".into(), ..PackOrigin::default() };
    let label = label.to_owned();
    let pack = orco_runtime::pack::Pack { label, bundle_digest: [7; 32], exemplars, thumbnails: Vec::new(), origin };
    orco_runtime::pack::seal(&pack.to_be_signed(), "")
}

fn hub() -> (tempfile::TempDir, HubStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = HubStore::open(folder.path().join("hub")).unwrap();
    (folder, store)
}

fn release(hub: &HubStore, packs: &[ObjectDigest], same_label: SameLabel) -> Result<Vec<ReleaseId>, HubError> {
    let stage = RolloutStage::All;
    hub.release_packs(&PackRelease { packs, channel: DEFAULT_CHANNEL, stage, same_label, key: None }, NOW)
}

/// What the channel holds for a device with the packs' bundle.
fn target(hub: &HubStore, device: &DeviceId) -> ChannelTarget {
    let bundle = ReportedBundle { name: "b".into(), release: 0, bundle_digest: ObjectDigest::new([7; 32]) };
    let report = DeviceReport { bundle: Some(bundle), ..DeviceReport::default() };
    HubStore::target(&hub.connection().unwrap(), device, &report).unwrap()
}

#[test]
fn the_key_and_devices_survive_a_restart() {
    let (folder, hub) = hub();
    let device = Caller::enrolled(&hub, "door 3");
    let key = hub.key().verifying_key();
    drop(hub);
    let hub = HubStore::open(folder.path().join("hub")).unwrap();
    assert_eq!(hub.key().verifying_key(), key);
    assert_eq!(hub.device(&device.id()).unwrap().unwrap().name, "door 3");
}

#[test]
fn a_code_enrols_one_device_and_may_be_repeated_by_it_alone() {
    let (_folder, hub) = hub();
    let code = hub.new_code("doors", DAY, NOW).unwrap();
    let mut device = Caller::new();
    let first = device.enrol(&hub, &code, "door 3", NOW).unwrap();
    assert_eq!(device.enrol(&hub, &code, "door 3", NOW + 999_999).unwrap(), first);
    assert_eq!(Caller::new().enrol(&hub, &code, "thief", NOW), None, "the code was used");
    assert_eq!(hub.devices().unwrap().len(), 1);
    assert_eq!(hub.devices().unwrap()[0].channel, "doors");
    // The device is told what holds now.
    hub.set_channel(&device.id(), "gates").unwrap();
    let answer = device.enrol(&hub, &code, "gate 3", NOW).unwrap();
    assert_eq!(serde_json::from_slice::<EnrolmentAnswer>(&answer.body).unwrap().channel, "gates");
    let known = hub.device(&device.id()).unwrap().unwrap();
    assert_eq!((known.name.as_str(), known.channel.as_str()), ("gate 3", "gates"));
    // As programs do that are older than the rule for names.
    assert_eq!(device.enrol(&hub, &code, "cam=1", NOW).unwrap().status, 200);
    assert_eq!(hub.device(&device.id()).unwrap().unwrap().name, "gate 3");
}

#[test]
fn wrong_and_expired_codes_say_nothing() {
    let (_folder, hub) = hub();
    let fingerprint = hub.key().verifying_key().fingerprint();
    let wrong = EnrolmentCode::generate(fingerprint).unwrap();
    assert_eq!(Caller::new().enrol(&hub, &wrong, "x", NOW), None);
    let code = hub.new_code(DEFAULT_CHANNEL, DAY, NOW).unwrap();
    assert_eq!(Caller::new().enrol(&hub, &code, "x", NOW + 86_401), None);
    // The proof of another device, and a signature by another key.
    let (mut device, mut thief) = (Caller::new(), Caller::new());
    let (head, stolen) = (thief.head(ENROL_PATH, b""), device.enrolment(&code, "x"));
    assert_eq!(hub.enrol(&head, &head.sign(&thief.key), &stolen, NOW).unwrap(), None);
    let key = thief.key.verifying_key();
    let stolen = Enrolment { key, ..stolen };
    assert_eq!(hub.enrol(&head, &head.sign(&thief.key), &stolen, NOW).unwrap(), None);
    let head = device.head(ENROL_PATH, b"");
    let enrolment = device.enrolment(&code, "x");
    assert_eq!(hub.enrol(&head, &head.sign(&thief.key), &enrolment, NOW).unwrap(), None);
    assert!(hub.devices().unwrap().is_empty());
    assert!(matches!(hub.new_code("No Channel", DAY, NOW), Err(HubError::Channel { .. })));
}

#[test]
fn a_request_counts_once_even_after_a_restart() {
    let (folder, hub) = hub();
    let mut device = Caller::enrolled(&hub, "door 3");
    let (one, two) = (device.head(REPORT_PATH, b"1"), device.head(REPORT_PATH, b"2"));
    let answer = |hub: &HubStore, head: &RequestHead, text: &str| {
        hub.answer_once(head, NOW, |_| Ok(StoredAnswer::json(&text))).unwrap().unwrap()
    };
    let first = answer(&hub, &one, "first");
    assert_eq!(answer(&hub, &one, "once more"), first, "a duplicate gets the stored answer");
    drop(hub);
    let hub = HubStore::open(folder.path().join("hub")).unwrap();
    assert_eq!(answer(&hub, &one, "once more"), first);
    answer(&hub, &two, "second");
    let refusal = StoredAnswer::refusal(RefusalKind::Replay { last: 3 }, "the sequence number was used before");
    assert_eq!(answer(&hub, &one, "replay"), refusal);
    // The number of the last request, with another body.
    let forged = RequestHead { body: ObjectDigest::of(b"other"), ..two.clone() };
    assert_eq!(answer(&hub, &forged, "forged"), refusal);
    let stranger = Caller::new().head(REPORT_PATH, b"");
    assert_eq!(hub.answer_once(&stranger, NOW, |_| Ok(StoredAnswer::json(&0))).unwrap(), None);
}

#[test]
fn a_failed_request_changes_nothing() {
    let (_folder, hub) = hub();
    let mut device = Caller::enrolled(&hub, "door 3");
    let head = device.head(REPORT_PATH, b"1");
    let failed = hub.answer_once(&head, NOW, |transaction| {
        transaction.execute("DELETE FROM device", [])?;
        Err(HubError::Random)
    });
    assert!(failed.is_err());
    let answer = hub.answer_once(&head, NOW, |_| Ok(StoredAnswer::json(&"first"))).unwrap().unwrap();
    assert_eq!(answer, StoredAnswer::json(&"first"));
}

#[test]
fn a_removed_device_is_a_stranger() {
    let (_folder, hub) = hub();
    let mut device = Caller::enrolled(&hub, "door 3");
    hub.remove_device(&device.id()).unwrap();
    let head = device.head(REPORT_PATH, b"");
    assert_eq!(hub.answer_once(&head, NOW, |_| Ok(StoredAnswer::json(&0))).unwrap(), None);
    assert!(matches!(hub.remove_device(&device.id()), Err(HubError::NoDevice { .. })));
}

/// As of a fleet that an older program enrolled.
#[test]
fn a_device_whose_name_can_be_no_part_of_a_label_is_enrolled_once_more() {
    let (_folder, hub) = hub();
    let code = hub.new_code(DEFAULT_CHANNEL, DAY, NOW).unwrap();
    for name in ["cam=1", ""] {
        assert_eq!(Caller::new().enrol(&hub, &code, name, NOW), None);
    }
    let mut device = Caller::enrolled(&hub, "cam 1");
    hub.connection().unwrap().execute("UPDATE device SET name = 'cam=1'", []).unwrap();
    let pushed = device.push(&hub, "mug", 1.0);
    let refused = release(&hub, &[pushed], SameLabel::Apart).unwrap_err();
    assert!(matches!(refused, HubError::Merge(MergeError::DeviceName { .. })), "{refused}");
    assert_eq!(device.enrol(&hub, &code, "cam 1", NOW).unwrap().status, 200, "the code is not used up");
    release(&hub, &[pushed], SameLabel::Apart).unwrap();
    assert_eq!(target(&hub, &device.id()).packs[0].label, "mug (cam 1)");
}

#[test]
fn what_makes_no_sense_is_refused_and_counts_as_answered() {
    let (_folder, hub) = hub();
    let mut device = Caller::enrolled(&hub, "door 3");
    let bytes = pack("mug", 1.0);
    let truncated = &bytes[..bytes.len() - 1];
    let head = device.head(PACKS_PATH, truncated);
    assert_eq!(hub.receive_pack(&head, truncated, NOW).unwrap().unwrap().status, 422);
    let head = device.head(PACKS_PATH, b"");
    let missing = hub.receive_picture(&head, &ObjectDigest::of(b""), b"no picture", NOW).unwrap().unwrap();
    assert_eq!(missing.status, 422);
    assert!(hub.packs().unwrap().is_empty());
}

fn picture(shade: u8) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::RgbImage::from_pixel(8, 8, image::Rgb([shade; 3])).write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

/// No device may fill the hub's disk, not by what is refused either.
#[test]
fn what_is_refused_takes_no_room() {
    let (_folder, hub) = hub();
    let mut device = Caller::enrolled(&hub, "door 3");
    let pushed = device.push(&hub, "mug", 1.0);
    let mut send = |pack: &ObjectDigest, shade| {
        let bytes = picture(shade);
        let head = device.head(PACKS_PATH, &bytes);
        let status = hub.receive_picture(&head, pack, &bytes, NOW).unwrap().unwrap().status;
        (status, hub.objects().holds(&ObjectDigest::of(&bytes)))
    };
    assert_eq!(send(&ObjectDigest::of(b"other"), 1), (404, false), "a picture of a pack that is not there");
    assert_eq!(send(&pushed, 2), (200, true));
    assert_eq!(send(&pushed, 3), (422, false), "the pack has one shot");
    assert_eq!(send(&pushed, 2), (200, true), "once more");
    // The device has pushed four gigabytes.
    hub.connection().unwrap().execute("UPDATE pack SET size = ?1", [4_i64 << 30]).unwrap();
    assert_eq!(send(&pushed, 2), (200, true), "what is there takes no room");
    std::fs::remove_file(hub.objects().path(&pushed)).unwrap();
    assert_eq!(device.push(&hub, "mug", 1.0), pushed, "what was lost takes the room that it had");
    assert!(hub.objects().holds(&pushed));
    let bytes = pack("cup", 2.0);
    let head = device.head(PACKS_PATH, &bytes);
    assert_eq!(hub.receive_pack(&head, &bytes, NOW).unwrap().unwrap().status, 422);
    assert!(!hub.objects().holds(&ObjectDigest::of(&bytes)));
    Caller::enrolled(&hub, "door 7").push(&hub, "cup", 3.0);
}

/// As after its key was replaced, or where it takes the place of a broken one.
#[test]
fn a_device_that_pushes_a_pack_of_a_removed_one_goes_on_with_the_class() {
    let (_folder, hub) = hub();
    let mut old = Caller::enrolled(&hub, "door 3");
    let packs = [old.push(&hub, "mug", 3.0), old.push(&hub, "mug", 3.5)];
    let cup = old.push(&hub, "cup", 4.0);
    release(&hub, &packs[..1], SameLabel::Refuse).unwrap();
    let lost = || hub.lost_packs(&hub.connection().unwrap(), &packs).unwrap();
    let share = |device: &mut Caller| {
        let bytes = picture(3);
        let head = device.head(PACKS_PATH, &bytes);
        hub.receive_picture(&head, &packs[1], &bytes, NOW).unwrap().unwrap()
    };
    let mut new = Caller::enrolled(&hub, "gate 3");
    new.push(&hub, "mug", 3.5);
    let refused = share(&mut new);
    assert_eq!((refused.status, lost().len()), (404, 0), "it is the other device's, which is in the fleet");
    assert!(String::from_utf8_lossy(&refused.body).contains("another device pushed the very same shots"));
    hub.remove_device(&old.id()).unwrap();
    assert_eq!(lost(), packs, "devices that know them are asked to push them again");
    new.push(&hub, "mug", 3.5);
    assert_eq!((share(&mut new).status, lost().len()), (200, 0));
    release(&hub, &packs[1..], SameLabel::Refuse).unwrap();
    let device_of = |pack| hub.pack(pack).unwrap().device_name;
    assert_eq!((device_of(&packs[0]), device_of(&cup)), ("gate 3".into(), "door 3".into()));
}

/// Else the trainer would get the same picture as two things.
#[test]
fn a_shared_picture_has_the_label_by_which_its_device_knows_it_now() {
    let (_folder, hub) = hub();
    let (mut device, mut other) = (Caller::enrolled(&hub, "door 3"), Caller::enrolled(&hub, "door 7"));
    let share = |device: &mut Caller, label: &str, shade: u8| {
        let pushed = device.push(&hub, label, f32::from(shade));
        let bytes = picture(shade);
        let head = device.head(PACKS_PATH, &bytes);
        assert_eq!(hub.receive_picture(&head, &pushed, &bytes, NOW).unwrap().unwrap().status, 200);
    };
    let labels =
        || -> Vec<String> { hub.shared_pictures().unwrap().into_iter().map(|picture| picture.label).collect() };
    share(&mut other, "plate", 7);
    share(&mut device, "mug", 3);
    assert_eq!(labels(), ["mug", "plate"]);
    share(&mut device, "cup", 3);
    assert_eq!(labels(), ["cup", "plate"], "the newest, while the device says nothing");
    device.report(&hub, &["mug"]);
    assert_eq!(labels(), ["mug", "plate"], "it has its first label again");
}

#[test]
fn what_was_pushed_is_purged_with_its_pictures_and_withdrawn_releases() {
    let (folder, hub) = hub();
    let [mut three, mut seven] = ["door 3", "door 7"].map(|name| Caller::enrolled(&hub, name));
    let (anna, other) = (three.push(&hub, "anna", 3.0), seven.push(&hub, "anna", 7.0));
    let bytes = picture(9);
    for (device, pack) in [(&mut three, anna), (&mut seven, other)] {
        let head = device.head(PACKS_PATH, &bytes);
        assert_eq!(hub.receive_picture(&head, &pack, &bytes, NOW).unwrap().unwrap().status, 200);
    }
    let id = release(&hub, &[anna, other], SameLabel::Merge).unwrap()[0];
    let merged = target(&hub, &three.id()).packs[0].digest;
    let held = hub.purge_packs(&[anna]).unwrap_err();
    assert!(matches!(held, HubError::Released { release, .. } if release == id), "{held}");
    hub.withdraw(id).unwrap();
    // Purged on the devices, which say so before it is purged here.
    for device in [&mut three, &mut seven] {
        device.report(&hub, &["anna"; 400]);
        device.report(&hub, &[]);
    }
    let purged = hub.purge_packs(&[anna, anna]).unwrap();
    assert_eq!(purged, HubPurge { packs: 1, pictures: 1, releases: 1 });
    let objects = [(anna, false), (merged, false), (other, true), (ObjectDigest::of(&bytes), true)];
    objects.iter().for_each(|(object, is_left)| assert_eq!(hub.objects().holds(object), *is_left, "{object}"));
    assert!(hub.releases().unwrap().is_empty());
    assert!(matches!(hub.purge_packs(&[anna]), Err(HubError::NoPack { .. })));
    hub.purge_packs(&[other]).unwrap();
    assert!(!hub.objects().holds(&ObjectDigest::of(&bytes)) && hub.packs().unwrap().is_empty());
    drop(hub);
    let database = std::fs::read(folder.path().join("hub").join(DATABASE)).unwrap();
    assert!(!database.windows(4).any(|bytes| bytes == b"anna"), "its label is in no page any more");
    assert_eq!(HubStore::open(folder.path().join("hub")).unwrap().devices().unwrap().len(), 2);
}

/// A purge that makes room on a full disk has removed by then what it should.
#[test]
fn a_log_that_cannot_be_emptied_is_a_warning() {
    let (_folder, hub) = hub();
    let connection = hub.connection().unwrap();
    assert_eq!(purge::fault_of_emptying_log(&connection), None);
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let fault = purge::fault_of_emptying_log(&connection);
    assert!(fault.as_ref().is_some_and(|fault| fault.contains("locked")), "{fault:?}");
}

#[test]
fn of_a_release_and_a_purge_at_the_same_moment_one_is_refused() {
    for _ in 0..8 {
        let (folder, hub) = hub();
        let mut device = Caller::enrolled(&hub, "door 3");
        let pack = device.push(&hub, "mug", 3.0);
        let start = std::sync::Barrier::new(2);
        let other = folder.path().join("hub");
        let (is_released, is_purged) = std::thread::scope(|scope| {
            let releasing = scope.spawn(|| {
                let hub = HubStore::open(other).unwrap();
                start.wait();
                release(&hub, &[pack], SameLabel::Refuse).is_ok()
            });
            start.wait();
            let is_purged = hub.purge_packs(&[pack]).is_ok();
            (releasing.join().unwrap(), is_purged)
        });
        assert_ne!(is_released, is_purged);
        assert_eq!(target(&hub, &device.id()).packs.len(), usize::from(is_released));
        assert_eq!(hub.objects().holds(&pack), is_released, "nothing is left of a purged pack, and all of a release");
    }
}

#[test]
fn a_lost_or_damaged_database_is_no_new_hub() {
    let (folder, hub) = hub();
    Caller::enrolled(&hub, "door 3").push(&hub, "mug", 1.0);
    drop(hub);
    let folder = folder.path().join("hub");
    let open = || HubStore::open(&folder).map(drop).unwrap_err();
    std::fs::remove_file(folder.join(DATABASE)).unwrap();
    assert!(matches!(open(), HubError::NoDatabase));
    assert!(matches!(open(), HubError::NoDatabase), "the first attempt made none");
    std::fs::write(folder.join(DATABASE), [0x55; 8192]).unwrap();
    let said = with_causes(&open());
    assert_eq!(
        said,
        "the hub's database cannot be used: file is not a database; restore the hub's folder from a backup"
    );
}

/// A device, or a code for one, knows the hub by its key, whether anything was pushed or not.
#[test]
fn a_hub_without_objects_that_lost_its_database_or_key_is_no_new_hub() {
    for is_enrolled in [true, false] {
        let (parent, hub) = hub();
        if is_enrolled {
            Caller::enrolled(&hub, "door 3");
        } else {
            hub.new_code(DEFAULT_CHANNEL, DAY, NOW).unwrap();
        }
        drop(hub);
        let folder = parent.path().join("hub");
        let open = || HubStore::open(&folder).map(drop).unwrap_err();
        let key = std::fs::read(folder.join(KEY)).unwrap();
        std::fs::remove_file(folder.join(KEY)).unwrap();
        assert!(matches!(open(), HubError::Key { .. }));
        assert!(matches!(open(), HubError::Key { .. }), "the first attempt made none");
        files::replace(&folder.join(KEY), &key).unwrap();
        HubStore::open(&folder).unwrap();
        std::fs::remove_file(folder.join(DATABASE)).unwrap();
        assert!(matches!(open(), HubError::NoDatabase));
        assert!(matches!(open(), HubError::NoDatabase), "the first attempt made none");
    }
}

/// As when the folder is restored from a backup under a hub that runs: what it then acknowledged would be gone at its
/// next start.
#[test]
#[cfg(unix)]
fn a_hub_whose_database_was_moved_or_replaced_takes_nothing_until_it_is_back() {
    let (folder, hub) = hub();
    let [home, away] = ["hub", "away"].map(|name| folder.path().join(name));
    let is_refused = || {
        let code = hub.new_code(DEFAULT_CHANNEL, DAY, NOW).map(drop);
        let outcomes = [hub.check(), code, hub.withdraw(ReleaseId(1)), hub.devices().map(drop)];
        outcomes.iter().all(|outcome| matches!(outcome, Err(HubError::Moved { .. })))
    };
    std::fs::rename(&home, &away).unwrap();
    assert!(is_refused(), "nothing is there");
    HubStore::open(&home).unwrap();
    assert!(is_refused(), "another hub is there");
    std::fs::remove_dir_all(&home).unwrap();
    std::fs::rename(&away, &home).unwrap();
    hub.check().unwrap();
    Caller::enrolled(&hub, "door 3");
}

/// As after a copy that kept no permissions.
#[test]
#[cfg(unix)]
fn a_key_that_others_may_read_is_refused() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let (parent, hub) = hub();
    drop(hub);
    let folder = parent.path().join("hub");
    for mode in [0o604, 0o644, 0o660] {
        set_permissions(folder.join(KEY), Permissions::from_mode(mode)).unwrap();
        let refused = HubStore::open(&folder).map(drop).unwrap_err();
        assert!(matches!(refused, HubError::KeyExposed { .. }), "{mode:o}: {refused}");
    }
    set_permissions(folder.join(KEY), Permissions::from_mode(0o600)).unwrap();
    HubStore::open(&folder).unwrap();
}

/// The power fails when a new hub has its database, but no key yet.
#[test]
fn a_hub_whose_first_start_was_cut_off_starts() {
    let (parent, hub) = hub();
    drop(hub);
    std::fs::remove_file(parent.path().join("hub").join(KEY)).unwrap();
    HubStore::open(parent.path().join("hub")).unwrap();
}

/// As after a device's folder was restored from a backup: what it said in between must not count once more.
#[test]
fn a_device_that_enrols_again_does_not_free_its_numbers() {
    let (_folder, hub) = hub();
    let mut device = Caller::enrolled(&hub, "door 3");
    device.sequence = 5;
    let old = device.head(REPORT_PATH, b"");
    let answer = |head: &RequestHead| hub.answer_once(head, NOW, |_| Ok(StoredAnswer::json(&0))).unwrap().unwrap();
    assert_eq!(answer(&old).status, 200);
    device.sequence = 1;
    let code = hub.new_code(DEFAULT_CHANNEL, DAY, NOW).unwrap();
    assert_eq!(device.enrol(&hub, &code, "door 3", NOW).unwrap().status, 200);
    assert_eq!(answer(&old).status, 409);
}

/// The service and commands of the operator work on one folder at the same time.
#[test]
fn processes_work_on_one_folder_at_the_same_time() {
    let (folder, hub) = hub();
    let devices: Vec<Caller> = (0..4).map(|number| Caller::enrolled(&hub, &format!("door {number}"))).collect();
    let path = folder.path().join("hub");
    std::thread::scope(|scope| {
        for (number, mut device) in devices.into_iter().enumerate() {
            let path = &path;
            scope.spawn(move || {
                let hub = HubStore::open(path).unwrap();
                for round in 0..10_u8 {
                    let pushed = device.push(&hub, &format!("thing {number}-{round}"), f32::from(round));
                    release(&hub, &[pushed], SameLabel::Refuse).unwrap();
                }
            });
        }
    });
    assert_eq!(hub.packs().unwrap().len(), 40);
    let numbers: std::collections::BTreeSet<i64> = hub.releases().unwrap().iter().map(|one| one.id.0).collect();
    assert_eq!(numbers.len(), 40);
}
