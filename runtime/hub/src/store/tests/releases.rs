//! Releases: packs that are merged or kept apart, stages, bundles.

use orco_runtime::bundle::OpenError;
use orco_runtime::manifest::{BENCHMARK, LEARNER, MANIFEST, SIGNATURE};
use orco_runtime::signature::SecretKey;

use super::*;
use crate::tests::path_in_checkout;

#[test]
fn packs_are_merged_or_kept_apart_and_updates_take_the_place_of_the_old() {
    let (_folder, hub) = hub();
    let (mut three, mut seven) = (Caller::enrolled(&hub, "door 3"), Caller::enrolled(&hub, "door 7"));
    let (of_three, of_seven) = (three.push(&hub, "mug", 3.0), seven.push(&hub, "mug", 7.0));
    let labels = || -> Vec<String> { target(&hub, &three.id()).packs.into_iter().map(|pack| pack.label).collect() };
    assert!(labels().is_empty(), "nothing goes to others before a person releases it");
    release(&hub, &[of_three], SameLabel::Refuse).unwrap();
    let refused = release(&hub, &[of_seven], SameLabel::Refuse).unwrap_err();
    assert!(matches!(refused, HubError::Merge(MergeError::Undecided { count: 2, .. })), "{refused}");
    release(&hub, &[of_seven], SameLabel::Merge).unwrap();
    let merged = target(&hub, &seven.id());
    assert_eq!(merged.packs.len(), 1);
    let mut both = vec![of_three, of_seven];
    both.sort();
    assert_eq!(merged.packs[0].origins, both);
    release(&hub, &[of_seven], SameLabel::Apart).unwrap();
    assert_eq!(labels(), ["mug", "mug (door 7)"]);
    // A newer pack of the same device, beside the other's.
    let newer = seven.push(&hub, "mug", 7.5);
    release(&hub, &[newer], SameLabel::Merge).unwrap();
    let origins: Vec<_> = target(&hub, &three.id()).packs.into_iter().map(|pack| pack.origins).collect();
    assert_eq!(labels(), ["mug"], "what was kept apart is part of it");
    assert!(origins[0].contains(&newer) && origins[0].contains(&of_three) && !origins[0].contains(&of_seven));
}

/// Else devices would know the same shots by two labels.
#[test]
fn packs_that_are_kept_apart_take_the_place_of_the_release_that_they_were_part_of() {
    let (_folder, hub) = hub();
    let [mut three, mut seven] = ["door 3", "door 7"].map(|name| Caller::enrolled(&hub, name));
    let other = Caller::enrolled(&hub, "door 9");
    let packs = [three.push(&hub, "mug", 3.0), seven.push(&hub, "mug", 7.0)];
    let cup = three.push(&hub, "cup", 4.0);
    let labels = || -> Vec<String> { target(&hub, &other.id()).packs.into_iter().map(|pack| pack.label).collect() };
    release(&hub, &[cup], SameLabel::Refuse).unwrap();
    release(&hub, &packs[..1], SameLabel::Refuse).unwrap();
    assert_eq!(labels(), ["cup", "mug"]);
    let apart = release(&hub, &packs, SameLabel::Apart).unwrap();
    let mut shown = labels();
    shown.sort();
    assert_eq!(shown, ["cup", "mug (door 3)", "mug (door 7)"]);
    // A person who releases it once more means it.
    let again = release(&hub, &packs[..1], SameLabel::Refuse).unwrap();
    assert_eq!(labels(), ["cup", "mug (door 7)", "mug"]);
    assert_eq!(release(&hub, &packs[..1], SameLabel::Refuse).unwrap(), again, "it is the newest now");
    again.into_iter().chain(apart).for_each(|id| hub.withdraw(id).unwrap());
    assert_eq!(labels(), ["cup", "mug"], "taken back, they leave it its place");
}

#[test]
fn a_release_whose_place_newer_ones_took_for_all_devices_is_replaced() {
    let (_folder, hub) = hub();
    let [mut three, mut seven] = ["door 3", "door 7"].map(|name| Caller::enrolled(&hub, name));
    let packs = [three.push(&hub, "mug", 3.0), seven.push(&hub, "mug", 7.0)];
    let cup = three.push(&hub, "cup", 4.0);
    let replaced = || -> Vec<ReleaseId> {
        let releases = hub.replaced(&hub.releases().unwrap()).unwrap();
        releases.into_iter().collect()
    };
    let first = release(&hub, &packs[..1], SameLabel::Refuse).unwrap();
    release(&hub, &[cup], SameLabel::Refuse).unwrap();
    let (channel, stage, same_label) = (DEFAULT_CHANNEL, RolloutStage::Quarter, SameLabel::Merge);
    let merge = PackRelease { packs: &packs, channel, stage, same_label, key: None };
    let merged = hub.release_packs(&merge, NOW).unwrap();
    assert!(replaced().is_empty(), "three of four devices still get the first");
    hub.set_stage(merged[0], RolloutStage::All).unwrap();
    assert_eq!(replaced(), first);
    let apart = release(&hub, &packs, SameLabel::Apart).unwrap();
    assert_eq!(replaced(), [first[0], merged[0]], "its class has other labels now");
    hub.withdraw(apart[0]).unwrap();
    assert_eq!(replaced(), first, "what was merged comes back");
}

/// As by somebody without the key, or over HTTP, to widen it: devices that have the public key refuse what is unsigned.
#[test]
fn a_pack_that_is_released_once_more_without_the_key_stays_signed() {
    let (_folder, hub) = hub();
    let mut device = Caller::enrolled(&hub, "door 3");
    let packs = [device.push(&hub, "mug", 3.0)];
    let key = SecretKey::generate().unwrap().secret;
    let (channel, same_label) = (DEFAULT_CHANNEL, SameLabel::Refuse);
    let signed = PackRelease { packs: &packs, channel, stage: RolloutStage::First, same_label, key: Some(&key) };
    let first = hub.release_packs(&signed, NOW).unwrap();
    assert_eq!(release(&hub, &packs, same_label).unwrap(), first);
    assert_eq!(hub.releases().unwrap()[0].stage, RolloutStage::All);
    let newer = device.push(&hub, "mug", 3.5);
    assert_ne!(release(&hub, &[newer], same_label).unwrap(), first, "another pack needs a signature of its own");
}

/// What covers a release may itself lose its place.
#[test]
fn a_release_that_devices_get_again_is_not_made_twice() {
    let (_folder, hub) = hub();
    let [mut three, mut seven] = ["door 3", "door 7"].map(|name| Caller::enrolled(&hub, name));
    let packs = [three.push(&hub, "mug", 3.0), seven.push(&hub, "mug", 7.0)];
    let first = release(&hub, &packs[..1], SameLabel::Refuse).unwrap();
    release(&hub, &packs, SameLabel::Apart).unwrap();
    let own = three.push(&hub, "mug (door 3)", 9.0);
    release(&hub, &[own], SameLabel::Refuse).unwrap();
    assert!(target(&hub, &seven.id()).packs.iter().any(|pack| first.contains(&pack.release)));
    assert_eq!(release(&hub, &packs[..1], SameLabel::Refuse).unwrap(), first);
}

#[test]
fn what_was_replaced_itself_still_keeps_older_releases_of_its_label_away() {
    let (_folder, hub) = hub();
    let [mut three, mut seven] = ["door 3", "door 7"].map(|name| Caller::enrolled(&hub, name));
    let own = three.push(&hub, "mug (door 3)", 9.0);
    let first = release(&hub, &[own], SameLabel::Refuse).unwrap();
    let packs = [three.push(&hub, "mug", 3.0), seven.push(&hub, "mug", 7.0)];
    let apart = release(&hub, &packs, SameLabel::Apart).unwrap();
    release(&hub, &packs, SameLabel::Merge).unwrap();
    assert_eq!(target(&hub, &three.id()).packs.len(), 1);
    let replaced: Vec<ReleaseId> = hub.replaced(&hub.releases().unwrap()).unwrap().into_iter().collect();
    assert_eq!(replaced, [first, apart].concat());
}

#[test]
fn two_people_who_release_one_label_at_the_same_moment_merge_with_each_other() {
    for _ in 0..8 {
        let (folder, hub) = hub();
        let [mut three, mut seven] = ["door 3", "door 7"].map(|name| Caller::enrolled(&hub, name));
        let pushed = [three.push(&hub, "mug", 3.0), seven.push(&hub, "mug", 7.0)];
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for pack in pushed {
                let (folder, start) = (folder.path().join("hub"), &start);
                scope.spawn(move || {
                    let hub = HubStore::open(folder).unwrap();
                    start.wait();
                    release(&hub, &[pack], SameLabel::Merge).unwrap();
                });
            }
        });
        let mut both = pushed.to_vec();
        both.sort();
        assert_eq!(target(&hub, &three.id()).packs[0].origins, both, "neither takes the other's place");
    }
}

#[test]
fn stages_widen_and_never_narrow() {
    let (_folder, hub) = hub();
    let mut device = Caller::enrolled(&hub, "door 3");
    let packs = [device.push(&hub, "mug", 1.0)];
    let (channel, stage, same_label) = (DEFAULT_CHANNEL, RolloutStage::First, SameLabel::Refuse);
    let release = PackRelease { packs: &packs, channel, stage, same_label, key: None };
    let id = hub.release_packs(&release, NOW).unwrap()[0];
    hub.set_stage(id, RolloutStage::Quarter).unwrap();
    hub.set_stage(id, RolloutStage::Quarter).unwrap();
    let stale = hub.set_stage(id, RolloutStage::First).unwrap_err();
    assert!(matches!(stale, HubError::StaleStage { present: 25, .. }), "{stale}");
    hub.set_stage(id, RolloutStage::All).unwrap();
    assert_eq!(target(&hub, &device.id()).packs.len(), 1);
    hub.withdraw(id).unwrap();
    assert!(target(&hub, &device.id()).packs.is_empty());
    assert!(matches!(hub.set_stage(id, RolloutStage::All), Err(HubError::Withdrawn { .. })));
    assert!(matches!(hub.set_stage(ReleaseId(99), RolloutStage::All), Err(HubError::NoRelease { .. })));
}

/// Withdrawing one of two alike would leave the other.
#[test]
fn a_pack_that_is_released_again_stays_one_release() {
    let (_folder, hub) = hub();
    let [mut three, mut seven] = ["door 3", "door 7"].map(|name| Caller::enrolled(&hub, name));
    let packs = [three.push(&hub, "mug", 3.0), seven.push(&hub, "mug", 7.0)];
    let release = |channel: &str, packs: &[ObjectDigest], stage: RolloutStage| {
        let same_label = SameLabel::Merge;
        hub.release_packs(&PackRelease { packs, channel, stage, same_label, key: None }, NOW).unwrap()[0]
    };
    let stages = || hub.releases().unwrap().iter().map(|release| release.stage).collect::<Vec<_>>();
    let first = release(DEFAULT_CHANNEL, &packs, RolloutStage::First);
    assert_eq!(release(DEFAULT_CHANNEL, &packs, RolloutStage::Quarter), first);
    assert_eq!(release(DEFAULT_CHANNEL, &packs, RolloutStage::First), first);
    assert_eq!(stages(), [RolloutStage::Quarter], "it widens, and never narrows");
    for pack in packs {
        let merged = release(DEFAULT_CHANNEL, &[pack], RolloutStage::All);
        assert_eq!(merged, first, "with what the channel has, it makes the same pack");
    }
    assert_ne!(release("gates", &packs, RolloutStage::All), first, "another channel has its own");
    hub.withdraw(first).unwrap();
    assert!(target(&hub, &three.id()).packs.is_empty());

    let again = release(DEFAULT_CHANNEL, &packs, RolloutStage::All);
    let newer = release(DEFAULT_CHANNEL, &[three.push(&hub, "mug", 3.5)], RolloutStage::All);
    let back = release(DEFAULT_CHANNEL, &packs, RolloutStage::All);
    assert!(first < again && again < newer && newer < back, "each takes the place of the one before");
    assert_eq!(target(&hub, &three.id()).packs[0].release, back);
}

#[test]
fn devices_read_what_their_channel_holds_and_nothing_else() {
    let (_folder, hub) = hub();
    let (mut giver, other) = (Caller::enrolled(&hub, "door 3"), Caller::enrolled(&hub, "door 7"));
    let pushed = giver.push(&hub, "mug", 1.0);
    let may = |object: &ObjectDigest| HubStore::may_read(&hub.connection().unwrap(), &other.id(), object).unwrap();
    assert!(!may(&pushed), "nobody has released it");
    let id = release(&hub, &[pushed], SameLabel::Refuse).unwrap()[0];
    let object = target(&hub, &other.id()).packs[0].digest;
    assert!(may(&object));
    hub.set_channel(&other.id(), "gates").unwrap();
    assert!(!may(&object));
    hub.set_channel(&other.id(), DEFAULT_CHANNEL).unwrap();
    hub.withdraw(id).unwrap();
    assert!(!may(&object));
}

/// The shipped bundle in the hub's parent folder, with a further line of `[files]` in its manifest. None in a package,
/// which has no bundle.
fn bundle_with(folder: &Path, line: &str) -> Option<PathBuf> {
    let shipped = path_in_checkout("models/cifar100-edge", "a release of a bundle")?;
    let copy = folder.join("bundle");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(shipped).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        std::fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
    }
    let text = std::fs::read_to_string(copy.join(MANIFEST)).unwrap();
    assert!(text.contains("\n[files]\n"));
    std::fs::write(copy.join(MANIFEST), text.replace("\n[files]\n", &format!("\n[files]\n{line}\n"))).unwrap();
    Some(copy)
}

#[test]
fn a_bundle_that_no_device_would_take_is_not_released() {
    let many: Vec<String> = (0..MAX_FILES).map(|number| format!("\"{number}.txt\" = \"\"")).collect();
    let digest = ObjectDigest::of(b"whole");
    let truncated = format!("\"further.onnx\" = \"{digest}\"");
    for line in ["\"../hub/key\" = \"\"", "\"sub/file\" = \"\"", &many.join("\n"), &truncated] {
        let (folder, hub) = hub();
        let Some(bundle) = bundle_with(folder.path(), line) else { return };
        std::fs::write(bundle.join("further.onnx"), b"whol").unwrap();
        let (channel, stage) = (DEFAULT_CHANNEL, RolloutStage::All);
        let release = BundleRelease { folder: &bundle, channel, stage, force: false, give_up_unkept: false, key: None };
        let refused = hub.release_bundle(&release, NOW).unwrap_err();
        let expected = if line == truncated {
            matches!(refused, HubError::Bundle(OpenError::Digest { .. }))
        } else {
            matches!(refused, HubError::BundleFiles { .. })
        };
        assert!(expected, "{refused}");
        assert!(!hub.objects().is_used(), "{line}");
        assert!(hub.releases().unwrap().is_empty());
        std::fs::write(bundle.join("further.onnx"), b"whole").unwrap();
        assert_eq!(hub.release_bundle(&release, NOW).is_ok(), line == truncated);
    }
}

/// As where a stranger's bundle has a link to the hub's key there.
#[test]
fn a_bundle_gives_no_secret_away_in_the_place_of_its_signature() {
    let (folder, hub) = hub();
    let Some(bundle) = bundle_with(folder.path(), "") else { return };
    std::fs::copy(hub.folder().join("key"), bundle.join(SIGNATURE)).unwrap();
    let (channel, stage) = (DEFAULT_CHANNEL, RolloutStage::All);
    let release = BundleRelease { folder: &bundle, channel, stage, force: false, give_up_unkept: false, key: None };
    let refused = hub.release_bundle(&release, NOW).unwrap_err();
    assert!(matches!(refused, HubError::BundleFiles { .. }) && !hub.objects().is_used(), "{refused}");
}

/// Devices need none. The Debian package leaves it out, too, though the manifest lists it.
#[test]
fn a_bundle_is_released_without_its_benchmark() {
    let (folder, hub) = hub();
    let Some(bundle) = bundle_with(folder.path(), "") else { return };
    let benchmark = std::fs::read(bundle.join(BENCHMARK)).unwrap();
    let (channel, stage) = (DEFAULT_CHANNEL, RolloutStage::All);
    let release = BundleRelease { folder: &bundle, channel, stage, force: false, give_up_unkept: false, key: None };
    hub.release_bundle(&release, NOW).unwrap();
    assert!(!hub.objects().holds(&ObjectDigest::of(&benchmark)));
    std::fs::remove_file(bundle.join(BENCHMARK)).unwrap();
    hub.release_bundle(&release, NOW).unwrap();
    std::fs::write(bundle.join(LEARNER), b"damaged").unwrap();
    let refused = hub.release_bundle(&release, NOW).unwrap_err();
    assert!(matches!(refused, HubError::Bundle(OpenError::Digest { .. })), "{refused}");
}

/// Releases a bundle to all devices.
fn release_bundle(hub: &HubStore, folder: &Path) -> Result<ReleaseId, HubError> {
    let (channel, stage) = (DEFAULT_CHANNEL, RolloutStage::All);
    hub.release_bundle(&BundleRelease { folder, channel, stage, force: false, give_up_unkept: false, key: None }, NOW)
}

/// Else a purge of the packs would leave it, shots and label included.
#[test]
fn a_release_that_is_refused_leaves_no_object() {
    let (_folder, hub) = hub();
    let [mut three, mut seven] = ["door 3", "door 7"].map(|name| Caller::enrolled(&hub, name));
    let (cup, of_three) = (three.push(&hub, "cup", 4.0), three.push(&hub, "mug", 3.0));
    let packs = [cup, seven.push(&hub, "mug", 7.0)];
    release(&hub, &[of_three], SameLabel::Refuse).unwrap();
    let count = || -> usize {
        let folders = std::fs::read_dir(hub.folder().join("objects")).unwrap();
        folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum()
    };
    let before = count();
    // Signed, the first pack is another object than the one that was pushed.
    let key = SecretKey::generate().unwrap().secret;
    let (channel, stage, same_label) = (DEFAULT_CHANNEL, RolloutStage::All, SameLabel::Refuse);
    let both = PackRelease { packs: &packs, channel, stage, same_label, key: Some(&key) };
    let refused = hub.release_packs(&both, NOW).unwrap_err();
    assert!(matches!(refused, HubError::Merge(MergeError::Undecided { count: 2, .. })), "{refused}");
    assert_eq!(count(), before);
}

/// Else the others would stay when one is withdrawn.
#[test]
fn a_bundle_that_is_released_twice_stays_one_release() {
    let (folder, hub) = hub();
    let Some(bundle) = bundle_with(folder.path(), "") else { return };
    let (channel, stage) = (DEFAULT_CHANNEL, RolloutStage::First);
    let narrow = BundleRelease { folder: &bundle, channel, stage, force: false, give_up_unkept: false, key: None };
    let first = hub.release_bundle(&narrow, NOW).unwrap();
    assert_eq!(release_bundle(&hub, &bundle).unwrap(), first);
    assert_eq!(hub.release_bundle(&narrow, NOW).unwrap(), first);
    assert_eq!(hub.releases().unwrap()[0].stage, RolloutStage::All, "a stage never narrows");
    // Devices that refused it try these.
    let forced = hub.release_bundle(&BundleRelease { force: true, ..narrow }, NOW).unwrap();
    assert_ne!(forced, first);
    hub.withdraw(forced).unwrap();
    let manifest = std::fs::read(bundle.join(MANIFEST)).unwrap();
    let signature = SecretKey::generate().unwrap().secret.sign(&manifest, "release 1").unwrap();
    std::fs::write(bundle.join(SIGNATURE), signature).unwrap();
    let signed = release_bundle(&hub, &bundle).unwrap();
    assert_ne!(signed, first);
    hub.withdraw(signed).unwrap();
    assert_ne!(release_bundle(&hub, &bundle).unwrap(), signed, "what was taken back stays so");
}

#[test]
fn withdrawn_bundles_are_purged_except_files_that_others_have() {
    let (folder, hub) = hub();
    let Some(bundle) = bundle_with(folder.path(), "") else { return };
    let device = Caller::enrolled(&hub, "door 3");
    let manifest = || std::fs::read(bundle.join(MANIFEST)).unwrap();
    let files = || target(&hub, &device.id()).bundle.unwrap().files;
    let held = |files: &[ReleasedFile]| files.iter().filter(|file| hub.objects().holds(&file.digest)).count();
    let one = HubPurge { releases: 1, ..HubPurge::default() };
    let first = release_bundle(&hub, &bundle).unwrap();
    let of_first = files();
    std::fs::write(bundle.join(MANIFEST), [manifest(), b"\n# another\n".to_vec()].concat()).unwrap();
    let second = release_bundle(&hub, &bundle).unwrap();
    let of_second = files();
    assert_eq!(hub.purge_bundles().unwrap(), HubPurge::default(), "devices may have to go back to the first");
    hub.withdraw(first).unwrap();
    assert_eq!(hub.purge_bundles().unwrap(), one);
    assert_eq!((held(&of_first), held(&of_second)), (of_first.len() - 1, of_second.len()), "they share all but one");
    hub.withdraw(second).unwrap();
    assert_eq!(hub.purge_bundles().unwrap(), one);
    assert_eq!((held(&of_first), held(&of_second)), (0, 0));
    assert!(hub.releases().unwrap().is_empty());
    assert!(release_bundle(&hub, &bundle).unwrap() > second);
    assert_eq!(held(&of_second), of_second.len());
}

#[test]
fn a_bundle_that_is_released_while_it_is_purged_is_whole() {
    let (folder, hub) = hub();
    let Some(bundle) = bundle_with(folder.path(), "") else { return };
    let device = Caller::enrolled(&hub, "door 3");
    hub.withdraw(release_bundle(&hub, &bundle).unwrap()).unwrap();
    for _ in 0..8 {
        let start = std::sync::Barrier::new(2);
        let released = std::thread::scope(|scope| {
            let releasing = scope.spawn(|| {
                let hub = HubStore::open(folder.path().join("hub")).unwrap();
                start.wait();
                release_bundle(&hub, &bundle).unwrap()
            });
            start.wait();
            hub.purge_bundles().unwrap();
            releasing.join().unwrap()
        });
        let files = target(&hub, &device.id()).bundle.unwrap().files;
        assert!(files.iter().all(|file| hub.objects().holds(&file.digest)));
        hub.withdraw(released).unwrap();
    }
}

/// As where the disk gets full: what was written of it would take room for good.
#[test]
fn a_bundle_that_cannot_be_kept_leaves_only_files_of_other_releases() {
    let (folder, hub) = hub();
    let Some(bundle) = bundle_with(folder.path(), "") else { return };
    let read = |name: &str| std::fs::read(bundle.join(name)).unwrap();
    let holds_learner = || hub.objects().holds(&ObjectDigest::of(&read(LEARNER)));
    let fail_at = |name: &str| {
        let blocked = hub.objects().path(&ObjectDigest::of(&read(name)));
        std::fs::create_dir_all(&blocked).unwrap();
        let refused = release_bundle(&hub, &bundle).unwrap_err();
        assert!(matches!(refused, HubError::File { .. }), "{refused}");
        std::fs::remove_dir(&blocked).unwrap();
    };
    // The manifest is written after the files that it lists.
    fail_at(MANIFEST);
    assert!(!holds_learner());
    // As left by a hub that was killed; the backbone is written first, and cannot be removed.
    hub.objects().put(&read(LEARNER)).unwrap();
    fail_at("backbone.onnx");
    assert!(!holds_learner());
    release_bundle(&hub, &bundle).unwrap();
    std::fs::write(bundle.join(MANIFEST), [read(MANIFEST), b"\n# another\n".to_vec()].concat()).unwrap();
    fail_at(MANIFEST);
    assert!(holds_learner());
}
