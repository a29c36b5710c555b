//! A projection head trained so that every sample's projection comes to a goal of its own on the unit sphere.

use orco_core::config::MethodConfig;
use orco_core::math::dot;
use orco_core::projection::{HeadBatch, HeadShape, SgdUpdate, TrainableHead};
use orco_core::random::Random;
use orco_core::schedule::Schedule;
use orco_core::workers::Workers;
use orco_state::head::Head;
use orco_state::session::{LearnError, OnProgress};

use super::report_epoch;

/// What draws a projection z to its goal g, both of unit length.
#[derive(Clone, Copy, Debug)]
pub(super) enum GoalLoss {
    /// (g . z - 1)^2 / 2: the dot-regression loss (NC-FSCIL).
    DotRegression,
    /// -g . z.
    Cosine,
}

impl GoalLoss {
    /// The gradient with respect to z is the goal times this number.
    fn slope(self, cosine: f32) -> f32 {
        match self {
            Self::DotRegression => cosine - 1.0,
            Self::Cosine => -1.0,
        }
    }
}

/// SGD with momentum 0.9, the rate falling to zero along a cosine.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoalSettings {
    pub(super) epochs: usize,
    pub(super) batch: usize,
    pub(super) rate: f64,
}

/// Samples, each with its goal.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoalSamples<'a> {
    /// `[n, inputs]`.
    pub(super) features: &'a [f32],
    /// Where each is to be projected, unit rows `[n, outputs]`.
    pub(super) goals: &'a [f32],
}

/// A head in training.
pub(super) struct GoalTrainer<'a> {
    shape: HeadShape,
    parameters: Vec<f32>,
    workers: &'a dyn Workers,
}

impl<'a> GoalTrainer<'a> {
    pub(super) fn new(head: &Head, workers: &'a dyn Workers) -> Self {
        let shape = head.shape();
        let mut parameters = vec![0.0; shape.parameters()];
        shape.load(head.as_parameters(), &mut parameters);
        Self { shape, parameters, workers }
    }

    /// The head as trained so far.
    pub(super) fn head(&self) -> Head {
        let mut head = Head::zeros(self.shape);
        self.shape.store(&self.parameters, head.as_parameters_mut());
        head
    }

    /// Trains the head, without momentum at first; returns the operations of its matrix products.
    pub(super) fn train(
        &mut self,
        GoalSamples { features, goals }: GoalSamples<'_>,
        loss: GoalLoss,
        settings: GoalSettings,
        random: &mut Random,
        on_progress: OnProgress<'_>,
    ) -> Result<f64, LearnError> {
        let Self { shape, workers, .. } = *self;
        let (width, samples) = (shape.width(), features.len() / shape.inputs);
        let most = settings.batch.min(samples);
        let mut momenta = vec![0.0; shape.parameters()];
        let mut scratch = vec![0.0; shape.scratch(most)];
        let mut hidden = vec![0.0; shape.activations(most)];
        let (mut z, mut norms) = (vec![0.0; most * width], vec![0.0; most]);
        let mut gradient = vec![0.0; most * width];
        let mut order: Vec<usize> = (0..samples).collect();
        let schedule = Schedule { steps: settings.epochs, warmup: 0, start: 0.0, peak: settings.rate, end: 0.0 };
        let MethodConfig { weight_decay: decay, .. } = MethodConfig::published();
        for epoch in 0..settings.epochs {
            random.shuffle(&mut order);
            let rate = schedule.rate(epoch) as f32;
            for rows in order.chunks(most) {
                let count = rows.len();
                let own = |row: &usize| &features[row * shape.inputs..][..shape.inputs];
                let batch: Vec<f32> = rows.iter().flat_map(own).copied().collect();
                let mut pass = HeadBatch {
                    features: &batch,
                    hidden: &mut hidden[..shape.activations(count)],
                    z: &mut z[..count * width],
                    norms: &mut norms[..count],
                };
                shape.forward(&self.parameters, &mut pass, workers);
                let gradient = &mut gradient[..count * width];
                gradient.fill(0.0);
                for ((row, z), to) in rows.iter().zip(pass.z.chunks(width)).zip(gradient.chunks_mut(width)) {
                    let goal = &goals[row * shape.outputs..][..shape.outputs];
                    let slope = loss.slope(dot(goal, &z[..shape.outputs])) / count as f32;
                    to.iter_mut().zip(goal).for_each(|(to, goal)| *to = slope * goal);
                }
                shape.backward_normalisation(&pass, gradient);
                let update = SgdUpdate { rate, last_rate: rate, momentum: 0.9, gradient_scale: 1.0, decay };
                let (parameters, momenta) = (&mut self.parameters, &mut momenta);
                let mut head = TrainableHead { parameters, momenta, scratch: &mut scratch };
                shape.backward(&mut head, &mut pass, gradient, update, workers);
            }
            report_epoch(epoch, settings.epochs, on_progress)?;
        }
        let cost = shape.forward_cost() + shape.backward_cost();
        Ok(2.0 * cost as f64 * (samples * settings.epochs) as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use orco_core::math::normalise_rows;
    use orco_core::workers::Serial;

    use super::*;

    #[test]
    fn dot_regression_pulls_less_the_nearer_the_goal_is() {
        // z = (0.6, 0.8), g = (1, 0): g . z = 0.6, the loss 0.4^2 / 2 = 0.08, its gradient -0.4 g.
        assert!((GoalLoss::DotRegression.slope(0.6) + 0.4).abs() < 1e-6);
        assert_eq!(GoalLoss::DotRegression.slope(1.0), 0.0);
        assert_eq!(GoalLoss::Cosine.slope(1.0), -1.0);
        // The slope is the loss's derivative.
        let loss = |cosine: f32| (cosine - 1.0).powi(2) / 2.0;
        let difference = (loss(0.61) - loss(0.59)) / 0.02;
        assert!((difference - GoalLoss::DotRegression.slope(0.6)).abs() < 1e-4);
    }

    #[test]
    fn projections_come_to_their_goals() {
        let shape = HeadShape { inputs: 4, hidden: 16, outputs: 3 };
        let mut random = Random::new(1, "head");
        let mut head = Head::zeros(shape);
        for values in head.parameters_mut() {
            values.iter_mut().for_each(|value| *value = 0.5 * random.normal());
        }
        let features: Vec<f32> = (0..12).map(|_| random.normal()).collect();
        let mut goals: Vec<f32> = (0..9).map(|_| random.normal()).collect();
        normalise_rows(&mut goals, 3);
        for loss in [GoalLoss::DotRegression, GoalLoss::Cosine] {
            let mut trainer = GoalTrainer::new(&head, &Serial);
            let settings = GoalSettings { epochs: 1000, batch: 2, rate: 0.2 };
            let on_progress = &mut |_| ControlFlow::Continue(());
            trainer
                .train(GoalSamples { features: &features, goals: &goals }, loss, settings, &mut random, on_progress)
                .unwrap();
            let projected = trainer.head().project(&features);
            for (z, goal) in projected.chunks(3).zip(goals.chunks(3)) {
                assert!(dot(z, goal) > 0.98, "{loss:?}: {}", dot(z, goal));
            }
        }
    }
}
