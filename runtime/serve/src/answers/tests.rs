//! Changes that arrive while the answering thread opens its learner, or while shots wait.

use std::thread;
use std::time::{Duration, Instant};

use orco_runtime::bundle::Bundle;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::state::Balance;

use super::*;
use crate::event::Events;
use crate::tests::telemetry;

#[test]
fn a_change_while_the_thread_opens_its_learner_is_taken_up() {
    let bundle = Bundle::open("../../models/cifar100-edge").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let inbox = Inbox::new(&bundle.base_model, 9, Events::default());
    let theirs = store.clone();
    let open = move || {
        let learner = || Learner::new(bundle.clone(), theirs.clone(), LearnerSettings::default()).unwrap();
        let opened = learner();
        // Another program, after the state was read.
        learner().set_balance(Balance::KeepBase, &mut ()).unwrap().durable().unwrap();
        Ok(opened)
    };
    let answers = Answers::start(open, store, inbox, telemetry(folder.path())).unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while answers.knowledge().generation == 0 {
        assert!(Instant::now() < end, "the change is never seen");
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(answers.knowledge().balance, Balance::KeepBase);
}

#[test]
fn a_class_that_was_learned_while_its_shots_waited_is_no_warning() {
    let bundle = Bundle::open("../../models/cifar100-edge").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let inbox = Inbox::new(&bundle.base_model, 9, Events::default());
    let (label, inputs) = (bundle.base_model.classes[0].label.clone(), bundle.base_model.head.inputs);
    let theirs = store.clone();
    let open = move || Ok(Learner::new(bundle.clone(), theirs.clone(), LearnerSettings::default()).unwrap());
    let answers = Answers::start(open, store, inbox, telemetry(folder.path())).unwrap();
    let (sender, receiver) = mpsc::channel();
    let call = move |thread: &mut AnswerThread| {
        crate::tests::warnings();
        thread.imprint(&label, &Array3::zeros((1, 1, inputs)));
        sender.send(crate::tests::warnings()).unwrap();
    };
    assert!(answers.calls.send(Box::new(call)).is_ok());
    assert_eq!(receiver.recv().unwrap(), Vec::<String>::new());
}
