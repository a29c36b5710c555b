//! A learner on the shipped bundle, with features that are made up, so that no backbone runs.

mod shots;
mod upgrades;

use std::ops::ControlFlow;
use std::path::Path;

use ndarray::{Array2, Array3};
use orco_core::config::MethodConfig;
use orco_core::random::Random;
use orco_state::history::{EntryId, HistoryLimits, PurgeError};
use orco_state::session::{ExpectedAccuracy, LearnError, RepeatedShots};
use orco_state::state::Balance;

use super::*;
use crate::encoder::engine_choice::EngineChoice;
use crate::learner::{ChangeError, ChangeStep, Shots};
use crate::thumbnails::Thumbnails;

const EDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/cifar100-edge");

fn learner(state: &Path) -> Learner {
    let mut learner = Learner::open(EDGE, state).unwrap();
    let config = &mut learner.bundle.base_model.config;
    (config.epochs, config.warmup_epochs, config.answer) = (4, 2, MethodConfig::combined().answer);
    learner
}

/// Shots around one direction for each class, `[shots, views, features]`.
fn features(learner: &Learner, class: u64, shots: usize) -> Array3<f32> {
    let (mut direction, mut random) = (Random::new(class, "class"), Random::new(class, "shots"));
    let (views, inputs) = (learner.base_model().config.views, learner.base_model().head.inputs);
    let center: Vec<f32> = (0..inputs).map(|_| 3.0 * direction.normal().max(0.0)).collect();
    Array3::from_shape_fn((shots, views, inputs), |(_, _, feature)| (center[feature] + 0.3 * random.normal()).max(0.0))
}

#[test]
fn a_bundle_is_printed_without_its_backbone() {
    let printed = format!("{:?}", Bundle::open(EDGE).unwrap());
    assert!(printed.len() < 500 && printed.contains("cifar100-edge"), "{printed}");
}

#[test]
fn a_learner_may_be_sent_to_another_thread_and_be_read_by_several() {
    const fn is_shared<T: Send + Sync + 'static>() {}
    const { is_shared::<Learner>() }
}

/// Three pictures, of one shade each.
fn plain_pictures() -> [RgbImage; 3] {
    [0, 90, 180].map(|shade| RgbImage::from_pixel(48, 32, ::image::Rgb([shade; 3])))
}

fn learn(learner: &mut Learner, label: &str, class: u64) -> Result<ChangeOutcome, ChangeError> {
    let shots = features(learner, class, 3);
    learner.learn_many(&[(label, Shots::Features(shots.view()))], &mut ())
}

#[test]
fn a_change_is_kept_and_found_by_the_next_learner() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = learner(folder.path());
    let made = learn(&mut one, "mug", 1).unwrap();
    assert!(made.uncertain.is_none());
    assert_eq!(made.report.free_targets, 39);
    let mut other = learner(folder.path());
    assert_eq!(other.state(), one.state());
    let picture: Array2<f32> = features(&one, 1, 1).index_axis_move(ndarray::Axis(1), 0);
    assert_eq!(other.classify_features(picture.view())[0].label, "mug");
    // Both go on from what is in the store, not from what they read once.
    other.rename("mug", "teapot").unwrap().durable().unwrap();
    learn(&mut one, "duck", 2).unwrap().durable().unwrap();
    let labels: Vec<&str> = one.state().classes.iter().map(|class| class.label.as_str()).collect();
    assert_eq!(labels, ["teapot", "duck"]);
    let known: Vec<&str> = one.classes().map(|class| class.label.as_str()).collect();
    assert!(known.iter().enumerate().all(|(class, label)| one.label(class) == *label));
    assert_eq!(one.label(known.len()), "");
    assert!(other.state().classes.len() == 1);
    other.refresh().unwrap();
    assert_eq!(other.state(), one.state());
    one.rename("duck", "goose").unwrap().durable().unwrap();
    other.refresh_if_changed().unwrap();
    assert_eq!(other.state(), one.state());
}

#[test]
fn a_state_that_is_removed_under_a_learner_is_missed_and_not_begun_anew() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/state");
    let mut learner = learner(&folder);
    // A first change that is refused leaves nothing of the folders that were made for it.
    assert!(learner.rename("nobody", "somebody").is_err());
    assert!(!parent.path().join("a").exists());
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
    let aside = parent.path().join("aside");
    std::fs::rename(&folder, &aside).unwrap();
    let gone = learner.refresh().unwrap_err().to_string();
    assert!(gone.contains("is gone"), "{gone}");
    let refused = learn(&mut learner, "duck", 2).unwrap_err();
    assert!(matches!(refused, ChangeError::Store(StoreError::Gone { .. })), "{refused:?}");
    assert!(!folder.exists() && learner.state().classes.len() == 1);
    std::fs::rename(&aside, &folder).unwrap();
    learn(&mut learner, "duck", 2).unwrap().durable().unwrap();
    assert_eq!(learner.state().classes.len(), 2);
}

#[test]
fn shots_that_cannot_be_judged_promise_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    let one = features(&learner, 1, 1);
    let single = learner.learn_many(&[("spoon", Shots::Features(one.view()))], &mut ()).unwrap().report;
    assert_eq!(single.new_accuracy(), None, "nothing is left of the class without its one shot");
    assert!(
        matches!(single.expected, Some(ExpectedAccuracy { base: Some(_), learned: None, learned_range: None, .. })),
        "{:?}",
        single.expected
    );
    let mugs = learn(&mut learner, "mug", 2).unwrap().report;
    assert!(mugs.expected.unwrap().learned.is_some() && mugs.sharing_shots.is_empty());
    // The second of these shots is the first mug.
    let mut beakers = features(&learner, 3, 3);
    beakers.index_axis_mut(ndarray::Axis(0), 1).assign(&features(&learner, 2, 3).index_axis(ndarray::Axis(0), 0));
    let beakers = learner.learn_many(&[("beaker", Shots::Features(beakers.view()))], &mut ()).unwrap().report;
    assert_eq!(beakers.sharing_shots, [["mug", "beaker"]]);
    let judged = |label: &str| beakers.classes.iter().find(|class| class.label == label).unwrap().samples;
    assert_eq!((judged("spoon"), judged("mug"), judged("beaker")), (0, 2, 2));
    // One shot three times, alone or beside another one: it counts once, and is left out as often as it is there.
    let thrice = |class: u64, shots: usize| {
        let mut shots = features(&learner, class, shots);
        let first = shots.index_axis(ndarray::Axis(0), 0).to_owned();
        (1..3).for_each(|shot| shots.index_axis_mut(ndarray::Axis(0), shot).assign(&first));
        shots
    };
    let (glasses, jars) = (thrice(4, 4), thrice(5, 3));
    let glasses = learner.learn_many(&[("glass", Shots::Features(glasses.view()))], &mut ()).unwrap().report;
    assert_eq!(glasses.repeated, [RepeatedShots { label: "glass".into(), shots: 2 }]);
    assert!(beakers.repeated.is_empty());
    assert_eq!(glasses.classes.iter().find(|class| class.label == "glass").unwrap().samples, 2);
    let jars = learner.learn_many(&[("jar", Shots::Features(jars.view()))], &mut ()).unwrap().report;
    assert_eq!(jars.new_accuracy(), None, "one shot three times is one shot");
}

#[test]
fn among_what_was_learned_alone_a_set_needs_shots_that_support_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    let sets = |learner: &mut Learner| {
        learner.settings_mut().scope = AnswerScope::Learned;
        let pictures = features(learner, 1, 4).index_axis_move(ndarray::Axis(1), 0);
        let answers = learner.classify_features(pictures.view());
        assert!(answers.iter().all(|answer| !answer.label.is_empty()));
        answers.into_iter().map(|answer| (answer.known == Some(true), answer.set.len())).collect::<Vec<_>>()
    };
    let singles = [("mug", 1), ("kettle", 2), ("jar", 3)].map(|(label, class)| (label, features(&learner, class, 1)));
    let singles = singles.each_ref().map(|(label, shots)| (*label, Shots::Features(shots.view())));
    learner.learn_many(&singles, &mut ()).unwrap().durable().unwrap();
    assert!(sets(&mut learner).iter().all(|(_, labels)| *labels == 0), "nothing supports a set");
    for (label, class) in [("plate", 4), ("jug", 5), ("spoon", 6)] {
        learn(&mut learner, label, class).unwrap().durable().unwrap();
    }
    // Nine shots can be left out now.
    assert!(sets(&mut learner).iter().all(|&(is_known, labels)| is_known == (labels > 0)));
}

#[test]
fn a_change_that_is_refused_or_cancelled_leaves_everything_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
    let before = learner.state().clone();
    let again = learn(&mut learner, "mug", 1).unwrap_err();
    assert!(matches!(again, ChangeError::Learn(LearnError::LabelExists { .. })), "{again:?}");
    let second_shot = ChangeStep::Shots { done: 2, total: 3 };
    let mut stop_at_second =
        |step: ChangeStep| if step == second_shot { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let shots = features(&learner, 2, 3);
    let cancelled = learner.learn_many(&[("duck", Shots::Features(shots.view()))], &mut stop_at_second);
    assert!(matches!(cancelled, Err(ChangeError::Cancelled)));
    let mut epochs = 0;
    let mut observer = |step: ChangeStep| match step {
        ChangeStep::Epoch(progress) => {
            epochs = progress.epoch;
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    let cancelled = learner.forget("mug", &mut observer);
    // Nothing is left to be trained on when the only class goes: there is no epoch to be stopped at.
    assert!(cancelled.is_ok());
    learner.undo(1, &mut ()).unwrap().durable().unwrap();
    assert_eq!(learner.state().classes, before.classes);
    let shots = features(&learner, 3, 3);
    let cancelled = learner.add("mug", Shots::Features(shots.view()), &mut stop_at_second);
    assert!(matches!(cancelled, Err(ChangeError::Cancelled)));
    assert_eq!(learner.state().exemplars, before.exemplars);
    // What is kept stays kept: only the alignment is cancelled.
    let added = learner.add("mug", Shots::Features(shots.view()), &mut observer).unwrap();
    assert!(matches!(added.unaligned, Some(ChangeError::Cancelled)), "{:?}", added.unaligned);
    assert_eq!((epochs, learner.state().exemplars.len()), (1, before.exemplars.len() + 3));
    assert!(learner.awaits_alignment());
    let kept = learner.store().load(learner.bundle()).unwrap().saved;
    assert_eq!((&kept.state, &kept.history), (learner.state(), learner.history()));
}

#[test]
fn going_back_is_exact_whatever_the_seed() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learner.settings_mut().seed = 5;
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
    let then = learner.state().clone();
    learner.settings_mut().seed = 6;
    learn(&mut learner, "duck", 2).unwrap().durable().unwrap();
    let undone = learner.undo(1, &mut ()).unwrap().report;
    assert_eq!((undone.entry, undone.exact), (1, Some(true)));
    assert_eq!(*learner.state(), then);
    assert!(matches!(learner.undo(9, &mut ()), Err(ChangeError::NotEnoughToUndo { asked: 9, remembered: 1 })));
    assert!(matches!(learner.undo_to(3, &mut ()), Err(ChangeError::Present { number: 3 })));
    assert!(matches!(learner.undo_to(7, &mut ()), Err(ChangeError::NoEntry { number: 7 })));
    let id = |learner: &Learner, number: u32| learner.history().entry(number).unwrap().id();
    let (second, third) = (id(&learner, 2), id(&learner, 3));
    assert!(matches!(learner.undo_if_last(second, &mut ()), Err(ChangeError::NotLast { number: 2, last: 3 })));
    // Of a state that was begun anew.
    for (number, other) in [(3, EntryId { mark: second.mark, ..third }), (2, EntryId { mark: third.mark, ..second })] {
        let undone =
            if number == 3 { learner.undo_if_last(other, &mut ()) } else { learner.undo_to_entry(other, &mut ()) };
        assert!(matches!(undone, Err(ChangeError::OtherEntry { number: said }) if said == number), "{undone:?}");
    }
    assert_eq!(third.to_string().parse(), Ok(third));
    assert!("3".parse::<EntryId>().is_err() && "-1".parse::<EntryId>().is_err());
    assert!(matches!(learner.redo(2, &mut ()), Err(ChangeError::NotEnoughToRedo { asked: 2, undone: 1 })));
    assert!(matches!(learner.undo_to(1, &mut ()), Err(ChangeError::Present { number: 1 })));
    let redone = learner.redo_if_last(third, &mut ()).unwrap().report;
    assert_eq!((redone.entry, redone.exact), (2, Some(true)));
    assert!(matches!(learner.redo_if_last(third, &mut ()), Err(ChangeError::NotLast { number: 3, last: 4 })));
    // Undoing walks on through changes, not through what undoing left.
    let entries: Vec<u32> = (0..2).map(|_| learner.undo(1, &mut ()).unwrap().report.entry).collect();
    assert_eq!((entries, learner.state().classes.len()), (vec![1, 0], 0));
    assert_eq!(learner.redo(1, &mut ()).unwrap().report.exact, Some(true));
    assert_eq!(*learner.state(), then);
    learn(&mut learner, "teapot", 3).unwrap().durable().unwrap();
    assert!(matches!(learner.redo(1, &mut ()), Err(ChangeError::NotEnoughToRedo { asked: 1, undone: 0 })));
    assert_eq!(id(&learner, 3), third, "it stays what it is while others follow");
    learner.purge("duck", &mut ()).unwrap().durable().unwrap();
    assert!(!learner.store().mentions("duck").unwrap());
}

#[test]
fn a_balance_that_is_set_already_leaves_the_history_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
    learn(&mut learner, "duck", 2).unwrap().durable().unwrap();
    learner.undo(1, &mut ()).unwrap().durable().unwrap();
    learner.set_balance(Balance::Balanced, &mut ()).unwrap().durable().unwrap();
    assert!(learner.history().entry(4).is_none());
    assert_eq!(learner.redo(1, &mut ()).unwrap().report.entry, 2);
    learner.set_balance(Balance::KeepBase, &mut ()).unwrap().durable().unwrap();
    assert!(learner.history().entry(5).is_some());
}

#[test]
fn going_back_is_exact_from_the_same_class_that_was_learned_without_alignment() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learner.settings_mut().seed = 5;
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
    learner.forget("mug", &mut ()).unwrap().durable().unwrap();
    learner.settings_mut().seed = 7;
    learner.settings_mut().alignment = AlignmentTime::Later;
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
    learner.settings_mut().alignment = AlignmentTime::Now;
    let undone = learner.undo_to(1, &mut ()).unwrap().report;
    assert_eq!((undone.exact, learner.saved().seed()), (Some(true), 5));
    // And forth to what was left without a head, which is aligned with its own seed.
    learner.undo_to(3, &mut ()).unwrap().durable().unwrap();
    learner.align(&mut ()).unwrap().durable().unwrap();
    assert_eq!(learner.saved().seed(), 7);
}

#[test]
fn a_purge_takes_no_bytes_of_an_exemplar_for_a_label() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    let mut shots = features(&learner, 1, 3);
    // As int8, 127 and then what a stored label "B" is.
    shots.fill(0.0);
    for (feature, value) in [127.0, 1.0, 66.0].into_iter().enumerate() {
        shots.slice_mut(ndarray::s![.., .., feature]).fill(value);
    }
    learner.learn_many(&[("mug", Shots::Features(shots.view()))], &mut ()).unwrap().durable().unwrap();
    let slot = std::fs::read(folder.path().join("slot-a")).unwrap();
    assert!(slot.windows(2).any(|bytes| bytes == [1, b'B']));
    let aside = folder.path().join("kept-0123456789abcdef");
    std::fs::create_dir(&aside).unwrap();
    std::fs::write(aside.join("state"), &slot).unwrap();
    let refused = learner.purge("B", &mut ()).unwrap_err();
    assert!(matches!(refused, ChangeError::Purge(PurgeError::Unknown { .. })), "{refused:?}");
    assert!(aside.join("state").exists(), "the state that was kept aside is gone");
    assert!(learner.store().mentions("mug").unwrap());
}

#[test]
fn a_change_answers_at_once_and_an_alignment_later_gives_the_same_bytes() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [mut now, mut later] = [0, 1].map(|device| learner(folders[device].path()));
    later.settings_mut().alignment = AlignmentTime::Later;
    let mut epochs = 0;
    let mut count = |step: ChangeStep| {
        epochs += usize::from(matches!(step, ChangeStep::Epoch(_)));
        ControlFlow::Continue(())
    };
    for (label, class) in [("mug", 1), ("duck", 2)] {
        let shots = features(&now, class, 3);
        let new = [(label, Shots::Features(shots.view()))];
        now.learn_many(&new, &mut ()).unwrap().durable().unwrap();
        let learned = later.learn_many(&new, &mut count).unwrap().durable().unwrap();
        assert!(learned.losses.is_empty(), "nothing was trained yet");
        assert!(!now.awaits_alignment() && later.awaits_alignment());
        assert!(now.state().head.is_some() && later.state().head.is_none());
        let picture: Array2<f32> = features(&now, class, 1).index_axis_move(ndarray::Axis(1), 0);
        assert_eq!(later.classify_features(picture.view())[0].label, label, "known at once");
    }
    let aligned = later.align(&mut count).unwrap().durable().unwrap().unwrap();
    assert_eq!((epochs, aligned.losses.len()), (4, 4));
    assert!(later.align(&mut ()).unwrap().report.is_none(), "there is nothing left to do");
    assert_eq!(now.state(), later.state(), "the same bytes");
    // One entry for each change, each undone with its alignment, exactly.
    assert_eq!(now.history().entries().len(), 3);
    let (two, undone) = (now.state().clone(), now.undo(1, &mut ()).unwrap().report);
    assert_eq!((undone.exact, now.state().classes.len()), (Some(true), 1));
    let redone = now.redo(1, &mut ()).unwrap().report;
    assert_eq!((redone.exact, now.state()), (Some(true), &two));
    // What was left without a head comes back so at first, and is aligned when somebody asks for it.
    later
        .learn_many(&[("teapot", Shots::Features(features(&later, 3, 3).view()))], &mut ())
        .unwrap()
        .durable()
        .unwrap();
    later.undo(1, &mut ()).unwrap().durable().unwrap();
    assert!(later.awaits_alignment());
    later.align(&mut ()).unwrap().durable().unwrap();
    assert_eq!(later.state(), &two);
}

#[test]
fn a_class_travels_in_a_pack() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [mut one, mut other] = [0, 1].map(|device| learner(folders[device].path()));
    learn(&mut one, "mug", 1).unwrap().durable().unwrap();
    let pack = one.export("mug", PackOrigin::default()).unwrap();
    other.import(&[PackClass { pack: &pack, label: None }], &mut ()).unwrap().durable().unwrap();
    assert_eq!(other.state(), one.state());
    let again = other.import(&[PackClass { pack: &pack, label: Some("teapot") }], &mut ()).unwrap();
    assert_eq!(again.report.free_targets, 38);
    assert_eq!(one.export(" mug ", PackOrigin::default()).unwrap().label, "mug", "labels are compared as elsewhere");
    assert!(matches!(one.export("teapot", PackOrigin::default()), Err(ExportError::Class(_))));
}

#[test]
fn an_imprinted_class_is_known_at_once_and_until_the_state_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    let shots = features(&learner, 1, 4);
    learner.imprint("mug", shots.slice(ndarray::s![..3, .., ..])).unwrap();
    let picture: Array2<f32> = shots.slice(ndarray::s![3, ..1, ..]).to_owned();
    let answer = learner.classify_features(picture.view()).swap_remove(0);
    assert_eq!((answer.label.as_str(), answer.matches.len()), ("mug", 61));
    assert!(learner.state().classes.is_empty());
    let taken = learner.imprint("bear", shots.view());
    assert!(matches!(taken, Err(LearnError::BaseLabelExists { .. })), "{taken:?}");
    learner.refresh().unwrap();
    let answer = learner.classify_features(picture.view()).swap_remove(0);
    assert_eq!(answer.matches.len(), 60);
    assert_ne!(answer.label, "mug");
}

#[test]
fn a_change_whose_pictures_another_process_may_have_swept_away_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
    let shots = features(&learner, 2, 3);
    let pictures = plain_pictures();
    let lock = folder.path().join(".lock");
    let unlocked = |learner: &mut Learner, keep_shots: bool| {
        learner.settings_mut().keep_shots = keep_shots;
        let mut removes = |step: ChangeStep| {
            if step == (ChangeStep::Shots { done: 3, total: 3 }) {
                std::fs::remove_file(&lock).unwrap();
            }
            ControlFlow::Continue(())
        };
        learner
            .learn_many(&[("duck", Shots::WithFeatures { pictures: &pictures, features: shots.view() })], &mut removes)
    };
    let refused = unlocked(&mut learner, true);
    assert!(matches!(refused, Err(ChangeError::Store(StoreError::Overtaken { .. }))), "{refused:?}");
    assert_eq!((learner.state().classes.len(), learner.kept_pictures().bytes), (1, 0));
    // Where none are kept, nothing can be missing.
    unlocked(&mut learner, false).unwrap().durable().unwrap();
    assert_eq!(learner.state().classes.len(), 2);
}

#[test]
fn thumbnails_stay_as_long_as_the_history_can_bring_their_class_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
    learn(&mut learner, "duck", 2).unwrap().durable().unwrap();
    let thumbnails = Thumbnails::of(learner.store());
    for (class, pictures) in [(1, b"mug"), (2, b"cow")] {
        for shot in features(&learner, class, 3).outer_iter() {
            thumbnails.keep(&learner.state().exemplars, shot, pictures).unwrap();
        }
    }
    let digests: Vec<[u8; 32]> = (0..6).map(|exemplar| learner.state().exemplars.digest_of(exemplar)).collect();
    let mugs: Vec<[u8; 32]> =
        digests.iter().filter(|digest| thumbnails.read(digest).unwrap() == b"mug").copied().collect();
    assert_eq!(mugs.len(), 3);
    learner.forget("mug", &mut ()).unwrap().durable().unwrap();
    thumbnails.prune(learner.saved()).unwrap();
    assert!(digests.iter().all(|digest| thumbnails.has(digest)));
    learner.purge("mug", &mut ()).unwrap().durable().unwrap();
    let left: Vec<&[u8; 32]> = digests.iter().filter(|digest| thumbnails.has(digest)).collect();
    assert!(left.len() == 3 && left.iter().all(|digest| !mugs.contains(*digest)));
    let large = vec![0; crate::thumbnails::MAX_BYTES + 1];
    let shot = features(&learner, 3, 1);
    assert!(thumbnails.keep(&learner.state().exemplars, shot.index_axis(ndarray::Axis(0), 0), &large).is_err());
}

#[test]
fn a_change_removes_the_thumbnails_that_no_entry_needs_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    // The present class set, and one to go back to.
    learner.settings_mut().limits = HistoryLimits::default().entries(2);
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
    learn(&mut learner, "duck", 2).unwrap().durable().unwrap();
    let thumbnails = Thumbnails::of(learner.store());
    for shot in features(&learner, 1, 3).outer_iter() {
        thumbnails.keep(&learner.state().exemplars, shot, b"mug").unwrap();
    }
    // Another process is writing it.
    let unfinished = learner.store().folder().join("thumbnails/.orco-0123456789abcdef");
    std::fs::write(&unfinished, b"du").unwrap();
    learner.forget("mug", &mut ()).unwrap().durable().unwrap();
    assert_eq!(thumbnails.all().len(), 3);
    learner.rename("duck", "goose").unwrap().durable().unwrap();
    assert!(thumbnails.all().is_empty() && unfinished.exists());
}

#[test]
fn a_forgotten_class_that_had_replaced_a_base_class_can_be_purged() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    let base = learner.base_model().classes[0].label.clone();
    let shots = features(&learner, 1, 3);
    let purge = |learner: &mut Learner| learner.purge(&base, &mut ());
    let never = purge(&mut learner).unwrap_err();
    assert!(matches!(never, ChangeError::Learn(LearnError::BaseClass { .. })), "{never}");
    learner.add(&base, Shots::Features(shots.view()), &mut ()).unwrap().durable().unwrap();
    let given_shots = purge(&mut learner).unwrap_err();
    assert!(matches!(given_shots, ChangeError::Learn(LearnError::BaseClass { .. })), "{given_shots}");
    learner.undo(1, &mut ()).unwrap().durable().unwrap();
    learner.replace_base(&[(&base, Shots::Features(shots.view()))], &mut ()).unwrap().durable().unwrap();
    learner.forget(&base, &mut ()).unwrap().durable().unwrap();
    assert!(purge(&mut learner).unwrap().durable().unwrap().is_none());
    let nothing_left = purge(&mut learner).unwrap_err();
    assert!(matches!(nothing_left, ChangeError::Learn(LearnError::BaseClass { .. })), "{nothing_left}");
}

#[test]
fn the_shot_that_was_seen_is_moved_whatever_its_number_is_by_now() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
    learn(&mut learner, "duck", 2).unwrap().durable().unwrap();
    let digests = |learner: &Learner, label: &str| -> Vec<[u8; 32]> {
        let class = learner.classes().position(|class| class.label == label).unwrap();
        let bank = &learner.state().exemplars;
        bank.members(class as u32).map(|shot| bank.digest_of(shot)).collect()
    };
    let seen = digests(&learner, "mug");
    learner.move_shot_by_digest("mug", &seen[0], "duck", &mut ()).unwrap().durable().unwrap();
    // What was number 3 is number 2.
    learner.move_shot_by_digest("mug", &seen[2], "duck", &mut ()).unwrap().durable().unwrap();
    assert_eq!(digests(&learner, "mug"), [seen[1]]);
    let gone = learner.move_shot_by_digest("mug", &seen[0], "duck", &mut ());
    assert!(matches!(gone, Err(ChangeError::OtherShot { label }) if label == "mug"));
    assert_eq!(digests(&learner, "duck").len(), 5);
    let unknown = learner.move_shot_by_digest("jug", &seen[0], "duck", &mut ());
    assert!(matches!(unknown, Err(ChangeError::Learn(LearnError::UnknownLabel { .. }))), "{unknown:?}");
}

#[test]
fn another_engine_is_used_from_the_next_picture_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    let picture = &plain_pictures()[1];
    let engine = |learner: &mut Learner, choice, pictures_ahead| {
        let settings = learner.settings_mut();
        (settings.engine, settings.pictures_ahead) = (choice, pictures_ahead);
        learner.features(picture)?;
        learner.shot_features(picture)?;
        let works = [Workload::Pictures(pictures_ahead), Workload::Shots];
        let Learner { encoders, bundle, settings, .. } = learner;
        Ok(works.map(|work| encoders.get(bundle, settings, work).unwrap().engine()))
    };
    let is_rten = |engines: [String; 2]| engines.map(|name| name.starts_with("rten"));
    let few: Result<_, EncodeError> = engine(&mut learner, EngineChoice::Auto, 1);
    assert_eq!(is_rten(few.unwrap()), [true, true]);
    // Where it is not installed, that is an error, and no answer of the engine before.
    match engine(&mut learner, EngineChoice::OnnxRuntime, 1) {
        Ok(engines) => {
            assert_eq!(is_rten(engines), [false, false]);
            let many = engine(&mut learner, EngineChoice::Auto, 20).unwrap();
            assert_eq!(is_rten(many), [false, true], "shots have an engine of their own");
            // Asking which engine other work has changes nothing.
            engine(&mut learner, EngineChoice::Auto, 1).unwrap();
            assert!(!learner.engine(Workload::Pictures(20)).unwrap().name.starts_with("rten"));
            assert_eq!(is_rten(engine(&mut learner, EngineChoice::Auto, 1).unwrap()), [true, true]);
        }
        Err(error) => println!("ONNX Runtime is not there: {error}"),
    }
    assert_eq!(is_rten(engine(&mut learner, EngineChoice::Rten, 20).unwrap()), [true, true]);
}

#[test]
fn a_class_travels_whatever_its_bundle_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
    // A phone's heart, and a name longer than a pack's texts.
    learner.bundle.manifest.name = format!("home \u{2764}\u{fe0f}{}", "x".repeat(2000));
    let pack = learner.export("mug", PackOrigin::default()).unwrap();
    assert!(pack.is_sound() && pack.origin.bundle.starts_with("home \u{2764}xxx"), "{}", pack.origin.bundle);
}

#[test]
fn percentages_are_not_taken_for_shares() {
    let folder = tempfile::tempdir().unwrap();
    let settings = LearnerSettings::default();
    for share in [5.0, -0.1, f32::NAN] {
        let budget = settings.clone().forgetting_budget(Some(share)).check();
        assert!(matches!(budget, Err(SettingsError::ForgettingBudget(_))), "{share}");
        let alarms = settings.clone().false_alarms(share);
        assert!(matches!(alarms.check(), Err(SettingsError::FalseAlarms(_))), "{share}");
        let opened = Learner::new(Bundle::open(EDGE).unwrap(), Store::new(folder.path()), alarms);
        assert!(matches!(opened.err(), Some(OpenLearnerError::Settings(_))), "{share}");
    }
    let mut learner = learner(folder.path());
    learner.settings_mut().forgetting_budget = Some(5.0);
    let refused = learn(&mut learner, "mug", 1).unwrap_err();
    assert_eq!(refused.to_string(), "forgetting_budget is a share from 0 to 1, not 5");
    learner.settings_mut().forgetting_budget = Some(1.0);
    learn(&mut learner, "mug", 1).unwrap().durable().unwrap();
}
