//! Moving to another bundle.

use super::*;
use crate::learner::upgrade::UpgradeOptions;
use crate::release;

/// Learns `mug` from three pictures, which are kept.
fn learn_keeping_pictures(learner: &mut Learner) {
    learner.settings_mut().keep_shots = true;
    let (pictures, features) = (plain_pictures(), features(learner, 1, 3));
    let shots = Shots::WithFeatures { pictures: &pictures, features: features.view() };
    learner.learn_many(&[("mug", shots)], &mut ()).unwrap().durable().unwrap();
}

#[test]
fn an_upgrade_tells_how_many_pictures_it_has_read_and_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learn_keeping_pictures(&mut learner);
    let other = Bundle::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../models/everyday")).unwrap();
    let mut told = Vec::new();
    let mut observer = |step: ChangeStep| {
        told.push(step);
        if told.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let cancelled = upgrade::upgrade(
        &other,
        learner.store(),
        &LearnerSettings::default(),
        &UpgradeOptions::default(),
        &mut observer,
    );
    assert!(matches!(cancelled, Err(upgrade::UpgradeError::Cancelled)));
    assert_eq!(told, [1, 2].map(|done| ChangeStep::Pictures { done, total: 3 }));
    let kept = learner.store().load(learner.bundle()).unwrap().saved;
    assert_eq!(kept.state, *learner.state());
}

/// A picture is checked, and read again when it is learned from: whatever becomes of it between, no shot is lost
/// without a word.
#[test]
#[cfg(all(unix, feature = "rten"))]
fn an_upgrade_whose_pictures_change_meanwhile_is_refused() {
    use crate::learner::upgrade::UpgradeError;
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learn_keeping_pictures(&mut learner);
    let exemplar = learner.state().exemplars.digest_of(1);
    let picture = learner.store().pictures(&learner.bundle().digest).path(&exemplar);
    let sound = std::fs::read(&picture).unwrap();
    let mut other = crate::bundle::Bundle::open("../models/everyday").unwrap();
    other.manifest.release = 3;
    let is_used = || release::check(folder.path(), &other.manifest.name, 2).is_err();
    let before = learner.saved().clone();
    let upgrade = |act: &(dyn Fn() + Sync)| {
        let mut between = |step: ChangeStep| {
            if step == (ChangeStep::Pictures { done: 3, total: 3 }) {
                act();
            }
            ControlFlow::Continue(())
        };
        let settings = LearnerSettings {
            engine: crate::encoder::engine_choice::EngineChoice::Rten,
            compare_releases: true,
            ..LearnerSettings::default()
        };
        upgrade::upgrade(&other, learner.store(), &settings, &UpgradeOptions::default().force(true), &mut between)
    };
    let remove = || std::fs::remove_file(&picture).unwrap();
    let link = || {
        std::fs::rename(&picture, folder.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("moved"), &picture).unwrap();
    };
    let replace = || std::fs::write(&picture, b"no picture").unwrap();
    for act in [&remove as &(dyn Fn() + Sync), &link, &replace] {
        let refused = upgrade(act).map(|made| made.report.classes).unwrap_err();
        assert!(matches!(&refused, UpgradeError::Picture { path, .. } if *path == picture), "{refused}");
        let there = learner.store().load(learner.bundle()).unwrap().saved;
        assert_eq!(there, before);
        assert!(learner.store().pictures(&other.digest).exemplars().unwrap().is_empty(), "pictures are left");
        assert!(!is_used(), "the release of a refused bundle counts as used");
        let _ = std::fs::remove_file(&picture);
        std::fs::write(&picture, &sound).unwrap();
    }
    // What cannot be read from the start is refused, too; what is missing or damaged is a warning.
    link();
    assert!(matches!(upgrade(&|| ()), Err(UpgradeError::Picture { .. })));
    remove();
    let made = upgrade(&|| ()).unwrap();
    assert_eq!((made.report.classes[0].pictures, made.report.warnings.len()), (2, 1));
    assert!(is_used());
}

/// A class that was learned in the place of a base class is not mixed with the new bundle's pictures of it.
#[test]
#[cfg(feature = "rten")]
fn a_class_that_replaces_one_of_the_bundle_replaces_that_of_the_next_bundle_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learner.settings_mut().keep_shots = true;
    let (pictures, shots) = (plain_pictures(), [1, 2].map(|class| features(&learner, class, 3)));
    let with_pictures = |shots| Shots::WithFeatures { pictures: &pictures, features: shots };
    learner.add("cup", with_pictures(shots[0].view()), &mut ()).unwrap().durable().unwrap();
    learner.replace_base(&[("cup", with_pictures(shots[1].view()))], &mut ()).unwrap().durable().unwrap();
    let other = Bundle::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../models/everyday")).unwrap();
    assert!(other.base_model.classes.iter().any(|class| class.label == "cup"));
    let settings =
        LearnerSettings { engine: crate::encoder::engine_choice::EngineChoice::Rten, ..LearnerSettings::default() };
    let options = UpgradeOptions::default().force(true);
    // A bundle whose figures lead nowhere does not take the place of one that works.
    let mut senseless = other.clone();
    senseless.base_model.statistics.as_mut().unwrap().deviations = [f32::from_bits(1); 3];
    let refused = upgrade::upgrade(&senseless, learner.store(), &settings, &options, &mut ());
    let refused = refused.map(|made| made.report.classes).unwrap_err();
    assert!(matches!(refused, upgrade::UpgradeError::Store(StoreError::Write { .. })), "{refused}");
    let made = upgrade::upgrade(&other, learner.store(), &settings, &options, &mut ()).unwrap();
    let compared: Vec<(&str, usize, bool)> =
        made.report.classes.iter().map(|class| (&*class.label, class.pictures, class.merged)).collect();
    assert_eq!(compared, [("cup", 3, false)]);
    assert!(made.report.warnings.iter().any(|warning| warning.contains("since it was replaced")));
    let state = learner.store().load(&other).unwrap().saved.state;
    assert_eq!((state.classes.len(), state.exemplars.len()), (1, 3));
    let cup = other.base_model.classes.iter().position(|class| class.label == "cup").unwrap();
    assert!(state.replaced(&other.base_model)[cup]);
}
