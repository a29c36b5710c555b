//! One incremental session trained from images (protocol, phase 3).

use anyhow::{Result, bail};
use orco_core::config::{MethodConfig, SampleViews};
use orco_core::random::Random;
use orco_state::target;
use orco_trainer::config::{AugmentConfig, Precision};
use orco_trainer::data::augment::random_view;
use orco_trainer::data::dataset::Images;
use orco_trainer::model::Model;
use orco_trainer::model::backbone::{ForwardMode, unit};
use orco_trainer::model::store::Parameter;
use orco_trainer::platform::device::values;
use orco_trainer::platform::interrupt;
use orco_trainer::train::loss::unit_class_means;
use orco_trainer::train::objective::{Objective, ObjectiveConfig, Targets};
use orco_trainer::train::optimiser::{Sgd, SgdConfig, gradients, step_groups};
use tch::{Device, Tensor, no_grad};

use super::{TrainedParts, features};

/// The exemplars and targets of a session, and how it is trained.
pub(super) struct ComparedSession<'a> {
    pub(super) train: &'a Images,
    pub(super) config: &'a MethodConfig,
    pub(super) augment: &'a AugmentConfig,
    /// Precision of the backbone in training.
    pub(super) precision: Precision,
    /// The image of every exemplar, class after class.
    pub(super) exemplars: Vec<usize>,
    /// Number of base classes.
    pub(super) base: i64,
    /// The pseudo-targets, and those of the known classes.
    pub(super) targets: Targets,
}

/// A sample of an epoch.
struct SessionSample {
    image: usize,
    /// Whether it is shown under an augmented view.
    augmented: bool,
}

impl ComparedSession<'_> {
    /// Adds new classes: their shots become exemplars, and the class means of these, projected by `model`, are assigned
    /// to free targets.
    pub(super) fn admit(&mut self, model: &Model, shots: &[usize]) {
        let classes: Vec<i64> = shots.iter().map(|&image| self.class(image)).collect();
        let z = no_grad(|| model.head.project(&features(model, self.train, shots)));
        let known = self.targets.assignment.len() as i64;
        let new = known..classes.iter().map(|class| class + 1).max().unwrap_or(known);
        let (means, _) = unit_class_means(&z, &Tensor::from_slice(&classes).to_device(model.device()), new);
        let (free, rows) = (self.targets.free(), self.targets.free_rows());
        let chosen = target::assign_by_cosine(&values(&means), &values(&free), model.head.dimension() as usize);
        self.targets.assignment.extend(chosen.into_iter().map(|index| rows[index]));
        self.exemplars.extend_from_slice(shots);
    }

    fn class(&self, image: usize) -> i64 {
        self.train.labels[image].into()
    }

    /// Trains the model on all exemplars; calls `on_epoch` after every epoch.
    pub(super) fn train(
        &self,
        model: &Model,
        trained: TrainedParts,
        seed: u64,
        on_epoch: &mut dyn FnMut(),
    ) -> Result<()> {
        let config = self.config;
        let objective = Objective::of_session(&self.targets, ObjectiveConfig::from(config), self.base);
        let settings = SgdConfig {
            momentum: f64::from(config.momentum),
            dampening: f64::from(config.dampening),
            weight_decay: f64::from(config.weight_decay),
            nesterov: false,
        };
        // Weight decay covers the head's biases too, as in the runtime; of the backbone, the norms go without.
        let layer = |names: [&str; 2]| {
            let parameters = names.iter().flat_map(|name| model.parameters(name));
            Sgd::new(parameters.map(|parameter| Parameter { decays: true, ..parameter }).collect(), settings)
        };
        let [hidden, last] = config.layer_rates.map(f64::from);
        let mut groups = vec![(layer(["head.w1", "head.b1"]), hidden), (layer(["head.w2", "head.b2"]), last)];
        if let TrainedParts::Both(share) = trained {
            groups.push((Sgd::new(model.parameters("backbone"), settings), share));
        }
        tch::manual_seed(seed as i64);
        let mut random = Random::new(seed, "comparison");
        let schedule = config.schedule();
        for epoch in 0..config.epochs {
            interrupt::check()?;
            let mut sum = 0.0;
            for batch in self.epoch(&mut random).chunks(config.batch) {
                let classes: Vec<i64> = batch.iter().map(|sample| self.class(sample.image)).collect();
                let input = model.channels.normalise(&self.views(batch, model.device()));
                let forward = || model.backbone.forward(&input, self.precision, ForwardMode::Inference);
                let features = if trained == TrainedParts::Head { no_grad(forward) } else { forward() };
                let z = unit(&model.head.forward(&features));
                let loss = objective.loss(&z, &Tensor::from_slice(&classes).to_device(model.device()));
                sum += loss.double_value(&[]);
                // Without contrast and orthogonality a batch of base classes alone has no gradient.
                if loss.requires_grad() {
                    let gradients = gradients(&loss, groups.iter().flat_map(|(group, _)| group.parameters()));
                    let rate = schedule.rate(epoch);
                    step_groups(groups.iter_mut().map(|(group, share)| (group, *share * rate)), &gradients);
                }
            }
            if !sum.is_finite() {
                bail!("the loss of the comparison became {sum} in epoch {}; lower learn.learning_rate", epoch + 1);
            }
            on_epoch();
        }
        Ok(())
    }

    /// The samples of an epoch, shuffled: as many as there are exemplars. Where the settings balance, a class with
    /// fewer exemplars than the average comes as often as the average, repetitions under augmented views.
    fn epoch(&self, random: &mut Random) -> Vec<SessionSample> {
        let count = self.exemplars.len();
        let classes = || self.exemplars.chunk_by(|&a, &b| self.class(a) == self.class(b));
        let average = if self.config.balanced { count / classes().count().max(1) } else { 0 };
        let mut order: Vec<SessionSample> = Vec::new();
        for own in classes() {
            for sample in 0..own.len().max(average) {
                order.push(SessionSample { image: own[sample % own.len()], augmented: sample >= own.len() });
            }
        }
        random.shuffle(&mut order);
        order.truncate(self.config.samples_of_epoch(count));
        order.iter_mut().for_each(|sample| sample.augmented |= random.unit() < self.config.augmented);
        order
    }

    /// Views of a batch in 0..1: both, first then second, or the one that the sample says.
    fn views(&self, batch: &[SessionSample], device: Device) -> Tensor {
        let indices: Vec<usize> = batch.iter().map(|sample| sample.image).collect();
        let images = self.train.batch(&indices, device);
        match self.config.sample {
            SampleViews::Pair => {
                Tensor::cat(&[random_view(&images, self.augment), random_view(&images, self.augment)], 0)
            }
            SampleViews::One => {
                let augmented: Vec<bool> = batch.iter().map(|sample| sample.augmented).collect();
                let mask = Tensor::from_slice(&augmented).view([-1, 1, 1, 1]).to_device(device);
                random_view(&images, self.augment).where_self(&mask, &images)
            }
        }
    }
}
