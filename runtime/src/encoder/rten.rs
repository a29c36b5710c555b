//! The backbone in rten, an ONNX engine in pure Rust. It is a part of the program and starts at once. It panics on some
//! attributes that make no sense to it; such a panic becomes an error of the model and does not end the program.

use std::fmt;
use std::mem;
use std::sync::{Arc, OnceLock};

use ndarray::{Array2, ArrayView4};
use rten::{Model, RunOptions, ThreadPool};
use rten_tensor::{AsView, NdTensorView, Tensor};

use super::audit::bounds::Bounds;
use super::{EncodeError, Encoder, rows, time_limit};
use crate::image::Preprocessing;
use crate::threads::{Process, catch_panic, usable_threads};

/// A backbone in rten.
pub struct Rten {
    model: Model,
    bounds: Bounds,
}

impl fmt::Debug for Rten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rten").finish_non_exhaustive()
    }
}

impl Rten {
    /// Loads a model from its bytes, after [`Bounds`] has told what it may cost, within [`time_limit::LIMIT`].
    ///
    /// # Errors
    /// [`EncodeError::Refused`] if it is suspicious or costs too much, [`EncodeError::Model`] if rten refuses it,
    /// [`EncodeError::Input`] if it takes other pictures, [`EncodeError::Slow`] if it takes too long,
    /// [`EncodeError::Busy`] while another one does, [`EncodeError::Forked`] if this process was forked from one in
    /// which rten computes.
    pub fn open(model: &[u8], input: &Preprocessing) -> Result<Self, EncodeError> {
        let bounds = Bounds::of(model, input)?;
        ensure_pool()?;
        let model = model.to_vec();
        let load = move |_: &time_limit::Cancel| {
            ensure_pool()?;
            let loaded = catch_panic(|| Model::load(model)).map_err(|why| EncodeError::Model(panicked(&why)))?;
            loaded.map_err(|error| EncodeError::Model(error.to_string()))
        };
        Ok(Self { model: time_limit::within_limit(load)??, bounds })
    }
}

impl Encoder for Rten {
    fn engine(&self) -> String {
        String::from("rten (pure Rust)")
    }

    fn encode(&mut self, images: ArrayView4<'_, f32>) -> Result<Array2<f32>, EncodeError> {
        self.bounds.admit(images.shape())?;
        ensure_pool()?;
        let images = images.as_standard_layout();
        let view = NdTensorView::from_data(images.dim().into(), images.as_slice().expect("the standard layout"));
        let options = RunOptions::default().with_thread_pool(own_pool());
        let run = catch_panic(|| self.model.run_one(view.into(), Some(options)));
        let run = run.map_err(|why| EncodeError::Run(panicked(&why)))?;
        let output = run.map_err(|error| EncodeError::Run(error.to_string()))?;
        let features: Tensor<f32> =
            output.try_into().map_err(|_| EncodeError::Run(String::from("the output is no f32 tensor")))?;
        rows(images.dim().0, features.to_vec())
    }
}

/// Error text of a panic in rten.
fn panicked(why: &str) -> String {
    format!("rten panicked: {why}")
}

/// The pool to compute on where it is not rten's. That one has a thread for each core of the machine, also where this
/// process may use fewer of them, as in a container; its threads then only load the model.
fn own_pool() -> Option<Arc<ThreadPool>> {
    static POOL: OnceLock<Option<Arc<ThreadPool>>> = OnceLock::new();
    POOL.get_or_init(|| smaller_pool(usable_threads())).clone()
}

/// A pool of `threads` threads, if rten's has more.
fn smaller_pool(threads: usize) -> Option<Arc<ThreadPool>> {
    let is_larger = rten::thread_pool().run(rayon::current_num_threads) > threads;
    let pool = is_larger.then(|| ThreadPool::with_num_threads(threads));
    // Where the system starts no more threads, it would run work on the calling one.
    pool.filter(|pool| pool.run(is_in_pool)).map(Arc::new)
}

/// Whether the calling thread is one of a pool.
fn is_in_pool() -> bool {
    rayon::current_thread_index().is_some()
}

/// Makes sure that rten finds a pool of threads. Where its own could not be started, because the process may have no
/// more threads, it would ask rayon for one, which panics; then the calling thread becomes a pool of its own, once.
fn ensure_pool() -> Result<(), EncodeError> {
    /// The process that has rten's threads.
    static PROCESS: OnceLock<Process> = OnceLock::new();
    if !PROCESS.get_or_init(Process::this).is_this() {
        return Err(EncodeError::Forked);
    }
    if rten::thread_pool().run(is_in_pool) || is_in_pool() {
        return Ok(());
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    let pool = pool.map_err(|error| EncodeError::Start(format!("rten needs threads: {error}")))?;
    // The thread belongs to the pool until it ends.
    mem::forget(pool);
    log::warn!("rten cannot start threads, so it computes on one: the process may have no more");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_may_use_fewer_cores_computes_on_as_many_threads() {
        assert!(smaller_pool(usize::MAX).is_none());
        let theirs = rten::thread_pool().run(rayon::current_num_threads);
        assert!(smaller_pool(theirs).is_none());
        match smaller_pool(1) {
            Some(pool) => assert_eq!(pool.run(rayon::current_num_threads), 1),
            None => assert_eq!(theirs, 1),
        }
    }
}
