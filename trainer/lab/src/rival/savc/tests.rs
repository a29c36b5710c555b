//! SAVC's parts, each against values computed by hand.

use tch::Device;

use super::*;
use crate::rival::tests::{model, recipe, rows};

#[test]
fn a_query_is_drawn_to_its_key_and_to_its_class_in_the_queue() {
    // Similarities over temperature: own key 0, queue ln 2 (its class), 0 and ln 3 (others), temperature 0.07.
    let at = |log: f64| (log * TEMPERATURE) as f32;
    let queue = rows(&[at(2f64.ln()), 0.5, 0.0, 0.5, at(3f64.ln()), 0.5]);
    let positive = Tensor::from_slice(&[1i64, 0, 0]).view([1, 3]).gt(0);
    let loss = labelled_contrast(&rows(&[1.0, 0.0]), &rows(&[0.0, 1.0]), &queue, &positive);
    // The others sum to 1 + 3: log(1 + 4 / 1) for the own key, log(1 + 4 / 2) for that of its class.
    let expected = (5f64.ln() + 3f64.ln()) / 2.0;
    assert!((loss.double_value(&[]) - expected).abs() < 1e-5, "{loss:?}, not {expected}");
}

#[test]
fn a_class_becomes_as_many_as_there_are_transformations() {
    let image = Tensor::arange(4, (Kind::Float, Device::Cpu)).view([1, 1, 2, 2]);
    let made = fantasised(&image);
    assert_eq!(Vec::<f32>::try_from(made.view(-1)).unwrap(), [0.0, 1.0, 2.0, 3.0, 3.0, 2.0, 1.0, 0.0]);
    let classes = fantasised_classes(&Tensor::from_slice(&[4i64, 0]), 5);
    assert_eq!(Vec::<i64>::try_from(classes).unwrap(), [4, 0, 9, 5]);
}

fn savc() -> (Model, Savc) {
    let recipe = recipe();
    let model = model(&recipe);
    let savc = Savc::new(&model, &recipe);
    (model, savc)
}

#[test]
fn the_key_network_begins_as_a_copy_and_follows_slowly() {
    let (model, mut savc) = savc();
    let keys = savc.followed.variables();
    let (own, key) = (&model.backbone.tensors(model.backbone.description.stem.as_ref().unwrap()).weight, "stem.weight");
    let key = &keys[&format!("key.backbone.{key}")];
    assert!(own.equal(key) && savc.projection.w2.equal(&savc.key_projection.w2));
    no_grad(|| own.shallow_clone().copy_(&(own + 2.0)));
    savc.follow(&model, MOMENTUM);
    let behind = (own - key).mean(Kind::Double).double_value(&[]);
    assert!((behind - 2.0 * MOMENTUM).abs() < 1e-5, "{behind}");
}

#[test]
fn the_queue_is_a_ring() {
    let (_, mut savc) = savc();
    let keys = |value: f64| Tensor::full([5000, KEY], value, (Kind::Float, Device::Cpu));
    let classes = |class: i64| Tensor::full([5000], class, (Kind::Int64, Device::Cpu));
    savc.push(&keys(1.0), &classes(3));
    savc.push(&keys(2.0), &classes(4));
    let at = |row: i64| (savc.queue.double_value(&[row, 7]), savc.classes.double_value(&[row]));
    let past = 10000 - QUEUE;
    assert_eq!(
        [at(past - 1), at(past), at(4999), at(5000), at(QUEUE - 1)],
        [(2.0, 4.0), (1.0, 3.0), (1.0, 3.0), (2.0, 4.0), (2.0, 4.0)]
    );
}

#[test]
fn an_answer_is_the_mean_over_the_transformations() {
    let (_, savc) = savc();
    let image = rows(&[1.0, 0.0, 0.6, 0.8]).view([1, 2, 2]);
    let classes = rows(&[1.0, 0.0, 0.0, 2.0, 0.0, 1.0, 3.0, 0.0]).view([2, 2, 2]);
    let scores = Vec::<f32>::try_from(savc.scores(&image, &classes, 2).view(-1)).unwrap();
    // Class 0: cosines 1 and 0.8; class 1: 0 and 0.6.
    assert!((scores[0] - 14.4).abs() < 1e-4 && (scores[1] - 4.8).abs() < 1e-4, "{scores:?}");
}
