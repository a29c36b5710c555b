//! Objects that are damaged or gone on the hub.

use orco_hub::merge::SameLabel;
use orco_hub::rollout::DEFAULT_CHANNEL;
use orco_trials::folder::copy_folder;

use crate::support::{Fleet, refusal, release, release_mug, teach_pictures};

#[test]
fn a_damaged_object_is_fetched_again() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    let store = release_mug(&fleet, &giver, [&taker]);
    let object = store.objects().path(&store.releases().unwrap()[0].identity);
    let whole = std::fs::read(&object).unwrap();
    let mut other = whole.clone();
    other[whole.len() / 2] ^= 1;
    for damaged in [&whole[..whole.len() / 2], &other] {
        std::fs::write(&object, damaged).unwrap();
        let outcome = taker.sync(&mut fleet.network());
        assert!(refusal(&outcome, 0).contains("came damaged"), "{outcome:?}");
        assert!(taker.labels().is_empty());
    }
    std::fs::write(&object, whole).unwrap();
    assert_eq!(taker.sync(&mut fleet.network()).imported, ["mug"]);
}

/// The round goes on with what else its channel holds and with what it may share, and the hub hears of it.
#[test]
fn an_object_that_is_damaged_or_gone_keeps_no_other_back() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    let store = release_mug(&fleet, &giver, [&taker]);
    giver.teach("gadget", 3);
    giver.sync(&mut fleet.network());
    let gadget = store.packs().unwrap().into_iter().find(|pack| pack.label == "gadget").unwrap().digest;
    release(&store, DEFAULT_CHANNEL, &[gadget], SameLabel::Refuse);
    let mug = store.releases().unwrap().into_iter().find(|release| release.name == "mug").unwrap().identity;
    let object = store.objects().path(&mug);
    let whole = std::fs::read(&object).unwrap();
    std::fs::write(&object, b"damaged").unwrap();
    taker.teach("duck", 4);
    let outcome = taker.sync(&mut fleet.network());
    assert_eq!((&outcome.imported[..], &outcome.pushed[..]), (&["gadget".to_owned()][..], &["duck".to_owned()][..]));
    let reported = || {
        let known = store.devices().unwrap().into_iter().find(|known| known.name == "taker").unwrap();
        known.report.unwrap().outcomes.iter().find_map(|outcome| outcome.refused.clone()).unwrap_or_default()
    };
    assert!(reported().contains("came damaged"), "{}", reported());
    std::fs::remove_file(&object).unwrap();
    taker.sync(&mut fleet.network());
    assert!(reported().contains("the hub lost the object"), "{}", reported());
    std::fs::write(&object, whole).unwrap();
    assert_eq!(taker.sync(&mut fleet.network()).imported, ["mug"]);
    assert_eq!(reported(), "");
}

/// A hub whose folder was restored from a backup, and one that lost the file alone.
#[test]
fn a_pack_that_the_hub_lost_is_pushed_again() {
    let fleet = Fleet::new();
    let (giver, hub) = (fleet.device("giver"), &fleet.hub);
    giver.enrol(&mut fleet.network(), &hub.store(), DEFAULT_CHANNEL);
    giver.teach("mug", 1);
    hub.kill();
    let backup = fleet.folder.path().join("backup");
    copy_folder(&hub.folder, &backup);
    hub.restart();
    let pushed = || giver.sync(&mut fleet.network()).pushed;
    assert_eq!((pushed(), pushed()), (vec!["mug".to_owned()], Vec::new()));
    hub.kill();
    copy_folder(&backup, &hub.folder);
    assert!(hub.store().packs().unwrap().is_empty());
    hub.restart();
    assert_eq!((pushed(), pushed()), (vec!["mug".to_owned()], Vec::new()), "restored");
    let store = hub.store();
    let packs = store.packs().unwrap();
    assert_eq!(packs.len(), 1);
    let object = store.objects().path(&packs[0].digest);
    std::fs::remove_file(&object).unwrap();
    assert_eq!((pushed(), pushed()), (vec!["mug".to_owned()], Vec::new()), "without the file");
    assert!(object.is_file());
}

/// A hub that lost one file, and one whose backup was made before the pictures came.
#[test]
fn pictures_that_the_hub_lost_are_pushed_again() {
    let fleet = Fleet::new();
    let (giver, store) = (fleet.device("giver"), fleet.hub.store());
    giver.enrol(&mut fleet.network(), &store, DEFAULT_CHANNEL);
    teach_pictures(&giver);
    let pushed = || giver.sync(&mut fleet.network()).pictures;
    let shared = pushed();
    assert!(shared > 0 && pushed() == 0, "{shared}");
    let picture = store.objects().path(&store.shared_pictures().unwrap()[0].digest);
    std::fs::remove_file(&picture).unwrap();
    assert_eq!((pushed(), pushed()), (shared, 0), "without the file");
    assert!(picture.is_file());
    let database = rusqlite::Connection::open(store.folder().join("hub.sqlite")).unwrap();
    assert_eq!(database.execute("DELETE FROM picture", []).unwrap(), shared);
    assert_eq!((pushed(), pushed()), (shared, 0), "restored");
    assert_eq!(store.shared_pictures().unwrap().len(), shared);
}
