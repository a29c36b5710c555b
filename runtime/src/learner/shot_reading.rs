//! Reading the shots that a change learns from: their features, while their pictures are examined and kept.

use ndarray::ArrayView2;
use orco_state::label;
use orco_state::session::{self, NewClass};

use super::Learner;
use super::error::{ChangeError, ShotsError};
use super::observer::{ChangeStep, Observer};
use super::shot_examiner::ShotExaminer;
use super::shot_keeper::ShotKeeper;
use super::shots::Shots;
use crate::quality::BestClass;
use crate::store::{LockedStore, StoreError};

impl Learner {
    /// The keeper of the pictures of shots; `None` unless the settings keep them.
    pub(super) fn keeper<'a>(&self, locked: &'a LockedStore) -> Result<Option<ShotKeeper<'a>>, StoreError> {
        self.settings.keep_shots.then(|| ShotKeeper::begin(locked, &self.bundle)).transpose()
    }

    /// Features of the shots of every class, new ones or the `known` one; how many there are, and what is there
    /// already, is checked before any is computed. After a picture that cannot be used, or is not fit to be, the others
    /// are only checked, so that all of that kind are named at once.
    pub(super) fn read_shots(
        &mut self,
        classes: &[(&str, Shots<'_>)],
        known: Option<usize>,
        mut keeper: Option<&mut ShotKeeper<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<NewClass>, ChangeError> {
        for (label, shots) in classes {
            session::check_shot_count(self.state(), label, known, shots.count())?;
            shots.check(label, self.base_model().head.inputs)?;
        }
        let total = classes.iter().map(|(_, shots)| shots.count()).sum();
        keeper.as_ref().map_or(Ok(()), |keeper| keeper.check_room(total))?;
        let (mut done, mut broken) = (0, Vec::new());
        let mut examiner = ShotExaminer::new(self.settings.shot_checks);
        self.doubtful_shots.clear();
        self.in_different_places.clear();
        let mut new = Vec::with_capacity(classes.len());
        for (label, shots) in classes {
            let mut features = Vec::with_capacity(shots.count());
            for shot in 0..shots.count() {
                let is_wanted = broken.is_empty() && examiner.refused.is_empty();
                // A caller who computed the features has checked the pictures.
                let is_examined = examiner.is_on() && !shots.have_features();
                let shot_examiner = is_examined.then_some(&mut examiner);
                let read = if is_wanted {
                    self.read_shot(label, shots, shot, keeper.as_deref_mut(), shot_examiner)
                } else {
                    examine_shot(label, shots, shot, shot_examiner).map(|()| Vec::new())
                };
                match read {
                    Err(ChangeError::Shots(ShotsError::Pictures(another))) => broken.extend(another),
                    read => features.push(read?),
                }
                done += 1;
                if observer.step(ChangeStep::Shots { done, total }).is_break() {
                    return Err(ChangeError::Cancelled);
                }
            }
            new.push(NewClass { label: label::normal(label), shots: features });
        }
        if examiner.is_on() {
            // Frees the classifier's memory for learning.
            self.reset_classifier();
        }
        self.in_different_places = examiner.classes_in_different_places();
        self.doubtful_shots = examiner.doubtful;
        match (broken.is_empty(), examiner.refused.is_empty()) {
            (true, true) => Ok(new),
            (true, false) => Err(ShotsError::Unfit(examiner.refused).into()),
            (false, _) => Err(ShotsError::Pictures(broken).into()),
        }
    }

    /// Features of the views of one shot, whose picture is examined and kept where there is an examiner and a keeper.
    fn read_shot(
        &mut self,
        label: &str,
        shots: &Shots<'_>,
        shot: usize,
        keeper: Option<&mut ShotKeeper<'_>>,
        examiner: Option<&mut ShotExaminer>,
    ) -> Result<Vec<f32>, ChangeError> {
        let given = shots.features(shot);
        let Some(opened) = shots.open(shot)? else { return Ok(given.unwrap_or_default()) };
        let features = match given {
            Some(features) => features,
            None => self.shot_features(&opened.picture).map_err(ShotsError::Encode)?.into_raw_vec_and_offset().0,
        };
        if let Some(examiner) = examiner {
            let inputs = self.base_model().head.inputs;
            let clean = ArrayView2::from_shape((1, inputs), &features[..inputs]).expect("one row");
            let answer = self.classify_features(clean).swap_remove(0);
            let probability = answer.score.probability().filter(|_| !answer.is_unknown());
            let best = probability.map(|probability| BestClass { label: &answer.label, probability });
            examiner.examine(shots.name(shot, label), label, &opened, best);
        }
        if let Some(keeper) = keeper {
            let fitted = self.bundle.manifest.preprocessing.fit(&opened.picture);
            keeper.keep(&self.saved.state.exemplars, &features, &fitted)?;
        }
        Ok(features)
    }
}

/// Opens the picture of a shot and has it examined, where there is an examiner; nothing is learned from it.
fn examine_shot(
    label: &str,
    shots: &Shots<'_>,
    shot: usize,
    examiner: Option<&mut ShotExaminer>,
) -> Result<(), ChangeError> {
    if let (Some(opened), Some(examiner)) = (shots.open(shot)?, examiner) {
        examiner.examine(shots.name(shot, label), label, &opened, None);
    }
    Ok(())
}
