//! What the host and the device hand each other, as postcard.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::board::Ram;

/// What a run is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// What is done before the questions are answered.
    pub task: Task,
    /// Features of pictures to classify, `[inputs]` each.
    pub questions: Vec<Vec<f32>>,
    /// When the power goes, if it does.
    pub cut: Option<Cut>,
}

/// What changes in a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Nothing.
    Answer,
    /// One session with these classes, kept on flash.
    Learn(Vec<TaughtClass>),
    /// A session of made-up classes without an allocator, in static memory. Nothing is kept.
    WithoutAllocator,
}

/// A class to learn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaughtClass {
    /// Its name.
    pub label: String,
    /// For each shot the features of its views, `[views, inputs]`, the clean one first.
    pub shots: Vec<Vec<f32>>,
}

/// A power cut while flash is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Words written and pages erased before.
    pub after: usize,
    /// What becomes of the next word or page.
    pub fate: WriteFate,
}

/// What a power cut does to the word or page that was being changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteFate {
    /// Nothing yet.
    Before,
    /// Some bits, at random.
    Amid,
    /// All of it.
    After,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Labels of the learned classes.
    pub learned: Vec<String>,
    /// Saves counted by the state.
    pub generation: u64,
    /// For each question the scores of all known classes, base classes first.
    pub scores: Vec<Vec<f32>>,
    /// Words written and pages erased.
    pub changes: usize,
    /// Bytes written to flash.
    pub written: usize,
    /// Pages erased.
    pub erased: usize,
    /// Most bytes of RAM in use.
    pub ram: Ram,
    /// The cost of each part, in order.
    pub parts: Vec<Part>,
}

/// The cost of a part of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    /// What the part did, for people.
    pub name: String,
    /// Instructions that it took.
    pub instructions: u64,
    /// Most bytes of the heap in use.
    pub heap: usize,
}
