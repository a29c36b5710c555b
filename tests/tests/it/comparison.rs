//! The paper's comparison on small made-up images: g alone beside f and g.

use orco_tests::tiny::{self, CLASSES, images};
use orco_trainer::data::dataset::Split;
use orco_trainer::data::digest::session_digest;
use orco_trainer::model::{Model, Norms, WeightFile};
use orco_trainer::run::{PRETRAIN_CHECKPOINT, Run};
use orco_trainer::train::base_align::align;
use orco_trainer::train::pretrain::pretrain;
use orco_trainer::train::training_loop::BaseSession;
use orco_trainer_lab::comparison::{compare, table};
use orco_trainer_lab::measurements::Experiment;
use tch::{Device, Tensor, no_grad};

#[test]
fn f_at_a_rate_of_0_equals_f_frozen_and_comparing_leaves_the_model_as_it_was() {
    if !orco_trials::heavy() {
        return orco_trials::skipped("the paper's comparison (ORCO_HEAVY is not set)");
    }
    let _turn = orco_trials::torch_generator();
    let (folder, images) = (tempfile::tempdir().unwrap(), images());
    let mut recipe = tiny::recipe(20);
    recipe.export.candidates_per_class = 8;
    // A head that sits firmly on its targets before the sessions begin, and sessions that move it gently: else one
    // class more or less is lost by rounding.
    recipe.head.hidden = 64;
    (recipe.align.epochs, recipe.align.learning_rate) = (300, 0.3);
    (recipe.learn.epochs, recipe.learn.batch, recipe.learn.learning_rate) = (60, 8, 0.03);
    // Features of all colours: to a backbone that never saw the new ones they would look like the others.
    let known = folder.path().join("known");
    let mut all = recipe.clone();
    (all.split.base_classes, all.split.sessions) = (CLASSES as usize, 0);
    let split = Split::new(&all.split, 8, &images, &images, None, all.seed).unwrap();
    let mut model = Model::new(&all, [3, 16, 16], Device::Cpu);
    let run = &Run::open(&known, &all).unwrap();
    pretrain(&mut model, &all.pretrain, &BaseSession { images: &images, split: &split, seed: all.seed, run }, None)
        .unwrap();
    let split = Split::new(&recipe.split, 8, &images, &images, None, recipe.seed).unwrap();
    let run = Run::open(&folder.path().join("run"), &recipe).unwrap();
    let mut model = Model::new(&recipe, [3, 16, 16], Device::Cpu);
    assert_eq!(
        model.load_weights(&WeightFile::read(&known.join(PRETRAIN_CHECKPOINT)).unwrap()).unwrap().norms,
        Norms::Whole
    );
    let base = BaseSession { images: &images, split: &split, seed: recipe.seed, run: &run };
    let targets = align(&mut model, (&recipe).into(), &base).unwrap();
    let data = tiny::data(&images, split);
    let before: Vec<Tensor> = model.tensors().iter().map(|(_, tensor)| no_grad(|| tensor.copy())).collect();
    let sessions = &session_digest(&data).unwrap();
    let experiment = Experiment { recipe: &recipe, data: &data, run: &run, sessions, draws: 2 };
    let mut measure = |shares: &[f64]| compare(&mut model, &targets, &experiment, shares).unwrap();
    // At five times the rate f changes so much that no rounding hides it.
    let summaries = measure(&[1.0, 0.0, 5.0]);
    let text = table(&summaries, 2);
    println!("{text}");
    let names: Vec<&str> = summaries.iter().map(|summary| summary.name.as_str()).collect();
    let expected = [
        "g, as on the device",
        "g, new views",
        "f and g, f at 1 of the rate",
        "f and g, f at 0 of the rate",
        "f and g, f at 5 of the rate",
    ];
    assert_eq!(names, expected);
    assert!(expected.iter().all(|name| text.contains(name)), "{text}");
    let [device, head, _both, still, moved] = &summaries[..] else { panic!("{names:?}") };
    for summary in &summaries {
        assert_eq!(summary.sessions.len(), 2);
        // Before anything is learned all are the same, but for the rounding of stored features.
        assert!((summary.sessions[0].base - device.sessions[0].base).abs() < 2.0, "{}", summary.name);
        let learned = summary.sessions[1].inc.unwrap() > 50.0;
        assert!(learned || summary == moved, "{}: {:?}", summary.name, summary.sessions[1]);
    }
    // On so few images a class counts for much.
    assert!((head.ahm - device.ahm).abs() < 30.0, "{:.1}, on the device {:.1}", head.ahm, device.ahm);
    assert_ne!(moved.sessions, head.sessions, "f was trained");
    assert_eq!(head.sessions, still.sessions, "f at a rate of 0 is f frozen");
    assert_eq!(measure(&[5.0])[2], *moved, "the same again gives the same");
    for ((name, after), before) in model.tensors().iter().zip(&before) {
        assert!(after.equal(before), "{name} was left changed");
    }
    assert_eq!(run.metrics("compare").len(), 5 + 3);
}
