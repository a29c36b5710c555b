//! Failures of libtorch, which arrive as panics with a trace of C++ calls, as one sentence.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};

use anyhow::Result;
use orco_state::sentence::byte_size;

use crate::platform::distributed::{ADVICE, LOST};

/// A failure inside libtorch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TorchError {
    /// An allocation failed.
    #[error("out of memory: libtorch could not get {wanted}; lower {setting}")]
    Memory {
        /// How much, as libtorch puts it.
        wanted: String,
        /// The setting of the recipe that decides how much is needed.
        setting: &'static str,
    },
    /// Another rank ended while this one needed it, in a backward pass say.
    #[error("{LOST}{reason}; {ADVICE}")]
    Ranks {
        /// What c10d said.
        reason: String,
    },
    /// Anything else.
    #[error("libtorch refused a computation: {reason}")]
    Other {
        /// The first line of its message.
        reason: String,
    },
}

/// Does the work; a failure of libtorch in it becomes an error that names `setting` where memory was short. Guards may
/// stand within each other: the innermost names its setting.
///
/// # Errors
/// What the work returns, or [`TorchError`].
///
/// # Panics
/// If the work panics for another reason.
pub fn catch_torch<T>(setting: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| match explain(&format!("{error:#}"), setting) {
            Some(short @ TorchError::Memory { .. }) => short.into(),
            _ => error,
        }),
        Err(panic) => match message(panic.as_ref()).and_then(|text| explain(text, setting)) {
            Some(error) => Err(error.into()),
            None => resume_unwind(panic),
        },
    }
}

/// Keeps the panics that [`catch_torch`] turns into errors from being printed as well.
pub fn silence_caught_panics() {
    let shown = take_hook();
    set_hook(Box::new(move |panic| {
        if message(panic.payload()).and_then(|text| explain(text, "")).is_none() {
            shown(panic);
        }
    }));
}

fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied())
}

/// What libtorch's message means, if it is one.
fn explain(text: &str, setting: &'static str) -> Option<TorchError> {
    if let Some(start) = text.find(LOST) {
        let line = text[start + LOST.len()..].split("\\n").next().unwrap_or_default();
        let line = line.lines().next().unwrap_or_default().trim_end_matches("\")");
        let reason = line.strip_suffix(ADVICE).unwrap_or(line).trim_end_matches("; ").to_owned();
        return Some(TorchError::Ranks { reason });
    }
    let lower = text.to_ascii_lowercase();
    let torch = text.contains("Torch(\"") || lower.contains("torch error");
    // The last is what cuBLAS and cuDNN say on a card that is nearly full.
    let short = ["can't allocate memory", "out of memory", "bad_alloc", "status_alloc_failed"];
    if torch && short.iter().any(|reason| lower.contains(reason)) {
        return Some(TorchError::Memory { wanted: amount(&lower), setting });
    }
    let start = text.find("Torch(\"")? + "Torch(\"".len();
    let line = text[start..].split("\\n").next().unwrap_or_default();
    Some(TorchError::Other { reason: line.trim_end_matches("\")").to_owned() })
}

/// The number behind "tried to allocate", in words.
fn amount(lower: &str) -> String {
    let mut words = lower.split("tried to allocate ").nth(1).unwrap_or_default().split_whitespace();
    match (words.next(), words.next()) {
        (Some(number), Some(unit)) if unit.starts_with("bytes") => {
            number.parse().map_or_else(|_| "more memory".into(), |bytes| format!("{} more", byte_size(bytes)))
        }
        (Some(number), Some(unit)) => {
            format!(
                "{number} {} more",
                unit.trim_end_matches('.').replace("ib", "iB").replace('g', "G").replace('m', "M")
            )
        }
        _ => "more memory".into(),
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::*;

    fn failure(work: impl FnOnce()) -> String {
        let result = catch_torch("pretrain.batch", || {
            work();
            Ok(())
        });
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_failed_allocation_is_one_sentence() {
        let expected = "out of memory: libtorch could not get 262144.0 GiB more; lower pretrain.batch";
        assert_eq!(failure(|| drop(Tensor::ones([1 << 46], (Kind::Float, Device::Cpu)))), expected);
        let returned = catch_torch("pretrain.batch", || Ok(Tensor::f_ones([1 << 46], (Kind::Float, Device::Cpu))?));
        assert_eq!(returned.unwrap_err().to_string(), expected);
    }

    #[test]
    fn messages_of_gpus_are_understood() {
        for (reason, wanted) in [
            ("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0", "2.50 GiB more"),
            ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "more memory"),
            ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "more memory"),
        ] {
            let text = format!("called `Result::unwrap()` on an `Err` value: Torch(\"{reason}\")");
            assert_eq!(
                explain(&text, "pretrain.batch").unwrap().to_string(),
                format!("out of memory: libtorch could not get {wanted}; lower pretrain.batch")
            );
        }
    }

    #[test]
    fn the_innermost_guard_names_the_setting() {
        let huge = || drop(Tensor::ones([1 << 46], (Kind::Float, Device::Cpu)));
        let nested = catch_torch("outside", || {
            catch_torch("inside", || {
                huge();
                Ok(())
            })
        });
        assert!(nested.unwrap_err().to_string().ends_with("lower inside"));
        let thrown = explain("called `Result::unwrap()` on an `Err` value: Torch(\"std::bad_alloc\")", "inside");
        assert_eq!(thrown.unwrap().to_string(), "out of memory: libtorch could not get more memory; lower inside");
    }

    #[test]
    fn a_lost_rank_is_told_from_a_failure_of_libtorch() {
        let thrown =
            r#"called `Result::unwrap()` on an `Err` value: Torch("lost the other ranks: closed by peer\nraised")"#;
        let said = explain(thrown, "batch").unwrap().to_string();
        assert_eq!(said, format!("{LOST}closed by peer; {ADVICE}"));
        let panicked = explain(&format!("rank 1 of 2 {LOST}closed by peer; {ADVICE}"), "batch").unwrap();
        assert_eq!(panicked.to_string(), said);
    }

    #[test]
    fn other_failures_keep_their_first_line() {
        let ones = |size: i64| Tensor::ones([size], (Kind::Float, Device::Cpu));
        let error = failure(|| drop(ones(2) + ones(3)));
        assert!(error.starts_with("libtorch refused a computation: The size of tensor a (2)"), "{error}");
        assert!(!error.contains('\n') && !error.contains("frame #"), "{error}");
    }

    #[test]
    #[should_panic(expected = "another reason")]
    fn other_panics_go_on() {
        let _ = catch_torch("", || -> Result<()> { panic!("another reason") });
    }
}
