//! Classifying.

use std::ffi::{CString, c_char};

use orco_runtime::image_rs::RgbImage;

use crate::learner::OrcoLearner;
use crate::pointer::{borrow, c_string, free_handle, read_bytes, read_path, write_handle};
use crate::shots::{from_bytes, from_file, from_rgb};
use crate::status::{OrcoStatus, StatusError, guard};

/// What a picture shows: known classes with their scores, highest first. Any number of threads may read it.
#[derive(Debug)]
pub struct OrcoAnswer {
    matches: Vec<(CString, f32)>,
    known: bool,
}

impl OrcoAnswer {
    /// The first `most` classes for a picture.
    fn to(learner: &OrcoLearner, picture: &RgbImage, most: usize) -> Result<Self, StatusError> {
        let mut learner = learner.lock()?;
        let answer = learner.classify(picture)?;
        let matches = answer.matches.iter().take(most);
        let named = matches.map(|found| (c_string(learner.label(found.class)), found.score.value()));
        Ok(Self { matches: named.collect(), known: !answer.is_unknown() })
    }
}

/// Says what a JPEG, PNG or WebP file shows: `answer` gets the `most` likeliest classes, fewer if fewer may be
/// answered (orco_set_scope()). It is to be freed with orco_answer_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_classify_file(
    learner: *const OrcoLearner,
    path: *const c_char,
    most: usize,
    answer: *mut *mut OrcoAnswer,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        write_handle(answer, "answer", || {
            OrcoAnswer::to(borrow(learner, "learner")?, &from_file(read_path(path, "path")?)?, most)
        })
    })
}

/// As orco_classify_file(), for the bytes of a JPEG, PNG or WebP file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_classify_bytes(
    learner: *const OrcoLearner,
    data: *const u8,
    length: usize,
    most: usize,
    answer: *mut *mut OrcoAnswer,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        write_handle(answer, "answer", || {
            OrcoAnswer::to(borrow(learner, "learner")?, &from_bytes(read_bytes(data, length, "data")?)?, most)
        })
    })
}

/// As orco_classify_file(), for a picture in memory, as orco_shots_add_rgb() takes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_classify_rgb(
    learner: *const OrcoLearner,
    rows: *const u8,
    width: u32,
    height: u32,
    stride: usize,
    most: usize,
    answer: *mut *mut OrcoAnswer,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        write_handle(answer, "answer", || {
            OrcoAnswer::to(borrow(learner, "learner")?, &from_rgb(rows, width, height, stride)?, most)
        })
    })
}

/// How many classes an answer has; 0 if it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_answer_count(answer: *const OrcoAnswer) -> usize {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { answer.as_ref() }.map_or(0, |answer| answer.matches.len())
}

/// Whether the picture is like anything that may be answered (orco_set_scope()); false if the answer is NULL. Where it
/// is not, the label is just the likeliest, or NULL if none may be answered. Of known pictures, five in a hundred are
/// taken for unknown; where answers do not use the bundle's statistics, nothing is unknown.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_answer_known(answer: *const OrcoAnswer) -> bool {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { answer.as_ref() }.is_some_and(|answer| answer.known)
}

/// The label of an answer's class, 0 the likeliest; it lives as long as the answer. NULL if there is no such class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_answer_label(answer: *const OrcoAnswer, index: usize) -> *const c_char {
    // SAFETY: the caller keeps what the header says of pointers.
    let found = unsafe { answer.as_ref() }.and_then(|answer| answer.matches.get(index));
    found.map_or(std::ptr::null(), |(label, _)| label.as_ptr())
}

/// Its score: the probability of the class, 0 to 1, where answers use the bundle's statistics, as with all shipped
/// bundles, else a similarity, -1 to 1. NAN if there is no such class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_answer_score(answer: *const OrcoAnswer, index: usize) -> f32 {
    // SAFETY: the caller keeps what the header says of pointers.
    let found = unsafe { answer.as_ref() }.and_then(|answer| answer.matches.get(index));
    found.map_or(f32::NAN, |(_, score)| *score)
}

/// Frees an answer; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_answer_free(answer: *mut OrcoAnswer) {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { free_handle(answer) };
}
