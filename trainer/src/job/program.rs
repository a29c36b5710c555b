//! How a program that trains starts, and how it ends.

#[cfg(unix)]
use std::sync::Arc;

use anyhow::Result;
use orco_runtime::encoder::telemetry;
use orco_runtime::threads;
use orco_state::escape;

use crate::platform::failure::{self, catch_torch};
use crate::platform::interrupt::{self, Interrupted};
use crate::platform::{mkl, system};

/// Sets up memory, the log and what libraries print: to be called first, while the process has one thread.
pub fn set_up() {
    // Before any other thread. Where it fails, ONNX Runtime is not loaded, and that is said when it is wanted.
    let _ = telemetry::turn_off();
    system::keep_memory();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info,ort=warn"))
        .format_target(false)
        .init();
    failure::silence_caught_panics();
    outlive_file_limits();
}

/// Has a write beyond the limit of file sizes (`ulimit -f`) fail, as on a full disk, rather than end the process.
fn outlive_file_limits() {
    #[cfg(unix)]
    {
        // A caught signal no longer ends the process. Nothing reads the flag.
        if let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()) {
            log::warn!("a limit of file sizes may end the process: {error}");
        }
    }
}

/// Runs a command on this many threads, by default on all cores. An error ends the process with one sentence.
pub fn run(threads: Option<i32>, command: impl FnOnce() -> Result<()>) {
    if let Some(threads) = threads {
        // What computes without libtorch; before libtorch starts threads of its own.
        if let Err(error) = threads::set_limit(threads as usize) {
            log::warn!("--threads counts for training alone: {error}");
        }
        tch::set_num_threads(threads);
    }
    mkl::warm_up();
    // Within it, phases name the settings that they take memory for.
    let all = "backbone.width, head.hidden, data.image_size or the number of images";
    let result = interrupt::watch().and_then(|()| catch_torch(all, command));
    if let Err(error) = result {
        if let Some(stopped) = error.chain().find_map(|cause| cause.downcast_ref::<Interrupted>()) {
            eprintln!("{stopped}");
            std::process::exit(interrupt::EXIT_STATUS);
        }
        eprintln!("error: {}", escape::multiline(&format!("{error:#}")));
        std::process::exit(1);
    }
}
