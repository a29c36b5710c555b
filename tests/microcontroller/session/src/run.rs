//! A run: from power on until the outcome is handed over, or the power goes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Debug;
use core::ops::ControlFlow;

use orco_bare::session::{self, BareMemory, LEARNED_SHOTS};
use orco_core::align::Sampling;
use orco_core::config::MethodConfig;
use orco_core::workers::Serial;
use orco_state::classify::Classifier;
use orco_state::codec::{self, FileKind};
use orco_state::history::{ChangeKind, HistoryChange, HistoryLimits, SavedState};
use orco_state::session::{NewClass, Session, SessionMemory};
use orco_state::slots::{self, flash::Flash};
use orco_state::state::BaseModel;

use crate::board::Board;
use crate::chip::Chip;
use crate::exchange::{Order, Outcome, Part, Task, TaughtClass};

/// Seed of sessions.
const SEED: u64 = 1;

/// Files of a bundle, as they lie in the device's flash.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// `learner.postcard`.
    pub learner: &'a [u8],
    /// `statistics.postcard`.
    pub statistics: &'a [u8],
}

/// Notes what each part of a run takes.
struct Meter<'a> {
    board: &'a dyn Board,
    parts: Vec<Part>,
}

impl Meter<'_> {
    fn measure<T>(&mut self, name: &str, part: impl FnOnce() -> T) -> T {
        self.board.heap();
        let begin = self.board.instructions();
        let result = part();
        let instructions = self.board.instructions() - begin;
        // Before the note itself takes memory.
        let heap = self.board.heap();
        self.parts.push(Part { name: name.into(), instructions, heap });
        result
    }
}

/// Carries out an order on a bundle and a flash chip.
///
/// # Errors
/// A sentence that says what failed; a power cut is such a failure on a board that returns from it.
pub fn run(files: Files<'_>, order: &Order, chip: &mut [u8], board: &dyn Board) -> Result<Outcome, String> {
    let mut meter = Meter { board, parts: Vec::new() };
    let (base_model, digest) = meter.measure("open the bundle", || open(files))?;
    let range = 0..chip.len() as u32;
    let mut flash = Flash::new(Chip::new(chip, board, order.cut), range).map_err(failed("the flash"))?;
    let loaded = meter.measure("open the state", || slots::load_to_change(&mut flash, &base_model, digest));
    let loaded = loaded.map_err(failed("the state"))?;
    let mut generation = loaded.generation;
    let mut saved = loaded.saved.unwrap_or_else(|| SavedState::fresh(&base_model, digest));
    match &order.task {
        Task::Answer | Task::WithoutAllocator => {}
        Task::Learn(classes) => {
            saved = meter.measure("learn", || learn(&base_model, &saved, classes))?;
            let save = || slots::save(&mut flash, &base_model, &saved, generation);
            generation = meter.measure("save", save).map_err(failed("saving"))?.generation;
        }
    }
    let state = &saved.state;
    let classifier = meter.measure("prepare answers", || Classifier::new(&base_model, state));
    let answer = || order.questions.iter().map(|question| classifier.scores(question)).collect();
    let scores = meter.measure("answer", answer);
    let Chip { changes, written, erased, .. } = flash.free();
    let learned = state.classes.iter().map(|class| class.label.clone()).collect();
    let (ram, parts) = (board.ram(), meter.parts);
    Ok(Outcome { learned, generation, scores, changes, written, erased, ram, parts })
}

/// Runs the session that needs no allocator ([`orco_bare::session`]), in the memory that is lent; its only score is the
/// share of shots that are recognised.
///
/// # Errors
/// A sentence that says what failed. Memory that was taken from the heap is a failure, too.
pub fn run_without_allocator(memory: &mut BareMemory, board: &dyn Board) -> Result<Outcome, String> {
    let mut meter = Meter { board, parts: Vec::new() };
    // Twice: what the first call returns is the peak until now, what the second one returns is in use.
    board.heap();
    let in_use = board.heap();
    let recognised = meter.measure("learn and ask", || session::run(memory)).map_err(|error| error.to_string())?;
    let parts = meter.parts;
    if let Some(part) = parts.iter().find(|part| part.heap > in_use) {
        return Err(format!("{} took {} bytes of the heap", part.name, part.heap - in_use));
    }
    let learned = memory.labels().map(String::from).collect();
    let scores = [[recognised as f32 / LEARNED_SHOTS as f32].into()].into();
    let (generation, changes, written, erased) = (0, 0, 0, 0);
    Ok(Outcome { learned, generation, scores, changes, written, erased, ram: board.ram(), parts })
}

fn failed<E: Debug>(what: &str) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error:?}")
}

/// Opens the bundle's files, with preset `closed-form`.
fn open(files: Files<'_>) -> Result<(BaseModel, [u8; 32]), String> {
    let mut base_model: BaseModel =
        codec::decode(FileKind::Learner, files.learner).map_err(|error| error.to_string())?;
    base_model.config = MethodConfig::closed_form();
    if !base_model.is_sound() {
        return Err("the bundle makes no sense".into());
    }
    let statistics = base_model.decode_statistics(files.statistics).map_err(|error| error.to_string())?;
    base_model.statistics = Some(statistics);
    Ok((base_model, codec::digest(files.learner)))
}

fn learn(base_model: &BaseModel, saved: &SavedState, classes: &[TaughtClass]) -> Result<SavedState, String> {
    let new = |TaughtClass { label, shots }: &TaughtClass| NewClass { label: label.clone(), shots: shots.clone() };
    let new: Vec<NewClass> = classes.iter().map(new).collect();
    let (config, on_progress) = (&base_model.config, &mut |_| ControlFlow::Continue(()));
    // In two parts, so that the memory of the first is free in the second.
    let memory = &mut SessionMemory::default();
    let mut session = Session { base_model, config, seed: SEED, memory, workers: &Serial, on_progress };
    let admitted = session.admit(&saved.state, &new).map_err(|error| error.to_string())?;
    drop(new);
    *memory = SessionMemory::default();
    let mut session = Session { base_model, config, seed: SEED, memory, workers: &Serial, on_progress };
    let (state, _) =
        session.align(&saved.state, admitted, Sampling::seeded(SEED)).map_err(|error| error.to_string())?;
    let labels = classes.iter().map(|class| class.label.clone());
    Ok(saved.successor(state, &HistoryChange::new(ChangeKind::Learn, SEED).labels(labels), HistoryLimits::default()))
}
