//! What `orco-train doctor` tells: whether this machine has what training needs.

use std::fmt::Write as _;
use std::path::Path;

use orco_benchmark::machine;
use orco_runtime::memory;
use orco_runtime::threads::available_threads;
use orco_state::sentence::byte_size;

use super::{device, gpu, system};

/// Lines about libtorch, CUDA, driver and GPUs, threads, precisions, ONNX Runtime, memory, and the disk of `folder`.
pub fn report(folder: &Path) -> String {
    let libtorch = device::libtorch_version().unwrap_or_else(|| "of unknown version".into());
    let folder_of_libtorch =
        device::libtorch_folder().map_or_else(|| "linked in".into(), |folder| folder.display().to_string());
    let mut text = String::new();
    let mut line = |name: &str, value: String| writeln!(text, "{name:<13} {value}").expect("strings take text");
    line("orco-train", env!("CARGO_PKG_VERSION").into());
    line("libtorch", format!("{libtorch}, {folder_of_libtorch}"));
    line("CUDA", cuda());
    if let Some(gpu::NvidiaDriver { version, cuda }) = gpu::driver() {
        line("driver", format!("{version}, for CUDA up to {cuda}"));
        let gpus: Vec<gpu::Gpu> = (0..).map_while(gpu::numbered).collect();
        for (number, gpu) in gpus.iter().enumerate() {
            line(&format!("GPU {number}"), gpu.describe());
            line("", format!("precision {}", gpu.precisions().unwrap_or("unknown")));
        }
        if gpus.is_empty() {
            line("GPUs", "hidden, or different ones whose order is known with CUDA_DEVICE_ORDER=PCI_BUS_ID".into());
        }
    }
    line("threads", format!("{} of {} cores", tch::get_num_threads(), available_threads()));
    line("processor", machine::processor().unwrap_or_else(|| "unknown".into()));
    let (bf16, f16) = system::half_precisions();
    let told = |has: bool| if has { "in hardware" } else { "emulated, slow" };
    line("precision", format!("f32 in hardware, bf16 {}, f16 {}", told(bf16), told(f16)));
    line("ONNX Runtime", onnx_runtime());
    let amount = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".into(), byte_size);
    line("memory", format!("{} free of {}", amount(memory::available()), amount(memory::limit())));
    line("disk", format!("{} free in {}", amount(system::disk_free(folder)), folder.display()));
    text
}

fn cuda() -> String {
    match device::cuda_devices() {
        Ok(count) => {
            format!("{count} device(s), cuDNN {}", if tch::Cuda::cudnn_is_available() { "there" } else { "missing" })
        }
        Err(error) => error.to_string().split("; choose").next().unwrap_or_default().to_owned(),
    }
}

fn onnx_runtime() -> String {
    match orco_runtime::encoder::onnx::start() {
        Ok((version, library)) => format!("{version}, {}, telemetry off", library.display()),
        Err(error) => format!("{error}; `cargo xtask setup` fetches one on a workstation"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_subject_has_its_line() {
        let report = super::report(&std::env::temp_dir());
        for subject in ["libtorch", "CUDA", "threads", "processor", "precision", "ONNX Runtime", "memory", "disk"] {
            assert!(report.lines().any(|line| line.starts_with(subject)), "{subject} in {report}");
        }
    }
}
