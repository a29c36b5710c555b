//! What samples of known classes say of states: their answers, and how probable these are.

use super::*;
use crate::answer::{Predictor, ValidationSamples};
use crate::state::Calibration;
use crate::statistics::Statistics;

/// Three base classes with statistics of samples of theirs.
fn with_statistics() -> BaseModel {
    let mut base_model = base_model(3);
    let mut random = Random::new(5, "statistics");
    let one_view = |rows: &[Vec<f32>]| {
        let mut bank = Bank::new(INPUTS, 1, ExemplarPrecision::F16);
        rows.iter().enumerate().for_each(|(class, row)| bank.push(class as u32, row));
        bank
    };
    let means: Vec<Vec<f32>> = (0..3).map(|class| feature(class, &mut random)).collect();
    let mut axis: Vec<f32> = (0..INPUTS).map(|_| random.normal()).collect();
    normalise(&mut axis);
    let mut set_aside = Bank::new(INPUTS, 1, ExemplarPrecision::Int8);
    (0..12).for_each(|sample| set_aside.push(sample % 3, &feature(sample as usize % 3, &mut random)));
    base_model.statistics = Some(Statistics {
        centre: means[0].clone(),
        root_centre: means[1].clone(),
        axes: one_view(&[axis]),
        damping: [0.4].into(),
        factor: 1.1,
        directions: one_view(&means),
        whitened: one_view(&means),
        deviations: [1.0; 3],
        start: 0.1,
        set_aside,
    });
    base_model.config.answer = Config::discriminant().answer;
    base_model
}

#[test]
fn earlier_answers_are_the_same_whether_computed_or_read_off() {
    for epochs in [0, 4] {
        let mut base_model = with_statistics();
        (base_model.config.epochs, base_model.config.warmup_epochs) = (epochs, epochs.min(2));
        let scoring = base_model.scoring(&base_model.config).unwrap();
        let fresh = State::fresh(&base_model, [0; 32]);
        let learn = |state: &State, new: &[NewClass]| learn_on(&base_model, state, new, 1, &mut proceed).unwrap().0;
        let two = learn(&fresh, &[new_class(3, 5), new_class(4, 1)]);
        let three = learn(&two, &[new_class(5, 5)]);
        let further = NewClass { label: label(3), ..new_class(9, 2) };
        let more = within(&base_model, 1, |session| session.add_shots(&two, &further));
        let more = more.unwrap().0;
        // Whether all that scores the earlier state's classes is as it was: not where the head was trained on.
        for (before, after, unchanged) in
            [(&fresh, &two, epochs == 0), (&two, &three, epochs == 0), (&two, &more, false), (&three, &two, false)]
        {
            let known =
                |state: &State| state.known_classes(&base_model).map(|class| class.label.clone()).collect::<Vec<_>>();
            let earlier = known(before);
            let indices: Vec<Option<usize>> =
                known(after).iter().map(|label| earlier.iter().position(|known| known == label)).collect();
            let samples = ValidationSamples::of(&base_model, after, scoring);
            assert_eq!(samples.unchanged(before, &indices).is_some(), unchanged);
            let classes = samples.classes();
            let own = |sample: usize| indices[classes[sample] as usize];
            let computed = samples.answers(before, &own, 0..classes.len());
            assert_eq!(samples.evaluate(before, &indices).earlier, computed);
        }
    }
}

#[test]
fn probabilities_fit_before_anything_is_learned() {
    let base_model = with_statistics();
    let scoring = base_model.scoring(&base_model.config).unwrap();
    let (answerer, rows) = Predictor::with_samples(&base_model, &State::fresh(&base_model, [0; 32]), scoring);
    assert_eq!(rows.len(), 12);
    let likelihood = |probabilities: &dyn Fn(&mut [f32])| -> f32 {
        let each = rows.iter().map(|sample| {
            let mut row = sample.scores.clone();
            probabilities(&mut row);
            row[sample.class as usize].max(1e-6).ln()
        });
        each.sum()
    };
    let at_usual_temperature = |row: &mut [f32]| {
        row.iter_mut().for_each(|score| *score = (*score / Calibration::TEMPERATURE).exp());
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|score| *score /= sum);
    };
    let (chosen, usual) =
        (likelihood(&|row: &mut [f32]| answerer.probabilities(row)), likelihood(&at_usual_temperature));
    assert!(chosen > usual, "{chosen} {usual}");
}
