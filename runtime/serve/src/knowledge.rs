//! What is known at a moment: classes, stored shots, history.

use orco_runtime::learner::{AnswerScope, Learner};
use orco_runtime::state::history::{HistoryEntry, Timeline};
use orco_runtime::state::label;
use orco_runtime::state::session::ExpectedAccuracy;
use orco_runtime::state::{Balance, Class};

use crate::refusal::{ErrorCode, Refusal};

/// What is known at a moment. All answers of that moment follow from it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Knowledge {
    /// Rises whenever knowledge is published: after the state was read, or which classes are answered has changed.
    pub version: u64,
    /// How often the state was saved; 0 if nothing was saved yet.
    pub generation: u64,
    /// Why the state can no longer be used, in a sentence: answers go on from what was known before.
    pub problem: Option<String>,
    /// Number of base classes, which come first.
    pub base_classes: usize,
    /// All classes.
    pub classes: Vec<Class>,
    /// Which classes are answered, as it is set.
    pub scope: AnswerScope,
    /// Whether base classes are kept out of answers.
    pub is_learned_only: bool,
    /// For every base class, whether a learned class replaces it.
    pub replaced: Vec<bool>,
    /// Number of stored shots of every class, without those of the bundle.
    pub shots: Vec<usize>,
    /// SHA-256 of each of them, by which thumbnails are found; the shot that came to the class last stands last.
    pub digests: Vec<Vec<[u8; 32]>>,
    /// Pseudo-targets that no class has.
    pub free_targets: usize,
    /// How base classes and learned classes are weighed against each other.
    pub balance: Balance,
    /// The accuracies to be expected, where answers have a border between base classes and learned ones.
    pub expected: Option<ExpectedAccuracy>,
    /// Whether answers follow in closed form until a head is aligned to the last change.
    pub awaits_alignment: bool,
    /// How many changes have taught new classes since the bundle.
    pub sessions: u32,
    /// The changes that are remembered, oldest first.
    pub history: Vec<HistoryEntry>,
    /// Where among them the present class set stands.
    pub timeline: Timeline,
}

impl Knowledge {
    /// Whether a learned class replaces the class of an index.
    pub fn is_replaced(&self, class: usize) -> bool {
        self.replaced.get(class) == Some(&true)
    }

    /// Index of the class of that label: the learned one where it replaces a base class.
    ///
    /// # Errors
    /// [`Refusal`] if no class has it.
    pub fn class(&self, label: &str) -> Result<usize, Refusal> {
        let index = self.classes.iter().rposition(|class| label::same(&class.label, label));
        index.ok_or_else(|| Refusal::unknown_class(label))
    }

    /// The name of the balance, where answers have a border.
    pub fn balance_name(&self) -> Option<&'static str> {
        self.expected.map(|_| self.balance.name())
    }

    /// Makes sure that a new class has a target.
    ///
    /// # Errors
    /// [`Refusal`] if none is free.
    pub fn check_free_target(&self) -> Result<(), Refusal> {
        if self.free_targets > 0 {
            return Ok(());
        }
        let sentence = "no free target is left: forget a class first";
        Err(Refusal::new(ErrorCode::NoFreeTarget, sentence).with("wanted", 1).with("free", 0))
    }

    pub(crate) fn of(learner: &Learner, version: u64, problem: Option<String>) -> Self {
        let (base_model, state) = (learner.base_model(), learner.state());
        let classes: Vec<Class> = learner.classes().cloned().collect();
        let mut digests = vec![Vec::new(); classes.len()];
        for (exemplar, class) in state.exemplars.classes().iter().enumerate() {
            digests[*class as usize].push(state.exemplars.digest_of(exemplar));
        }
        let shots = digests.iter().map(Vec::len).collect();
        Self {
            version,
            generation: learner.generation(),
            problem,
            base_classes: base_model.classes.len(),
            classes,
            scope: learner.settings().scope,
            is_learned_only: learner.is_learned_only(),
            replaced: state.replaced(base_model),
            shots,
            digests,
            free_targets: state.free_targets(base_model).len(),
            balance: state.balance,
            expected: ExpectedAccuracy::of(base_model, state),
            awaits_alignment: learner.awaits_alignment(),
            sessions: state.sessions,
            history: learner.history().entries().to_vec(),
            timeline: learner.history().timeline(),
        }
    }
}
