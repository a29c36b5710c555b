//! Where tensors live: the processor, or a CUDA device whose library is opened when the program starts.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use tch::{Cuda, Device, Kind, Tensor};

use crate::platform::distributed::RankGroup;
use crate::platform::gpu;

/// The part of libtorch that knows CUDA. It is opened at run time, so that one program serves machines with and
/// without a GPU.
const LIBRARY: &str = "libtorch_cuda.so";

/// The device that the user asks for: `auto`, `cpu`, `cuda` or `cuda:1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum DeviceChoice {
    /// The first CUDA device if there is one, else the processor.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// A CUDA device by its number.
    Cuda(usize),
}

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no such kind of device.
    #[error("there is no device {name:?}; choose auto, cpu, cuda or cuda:N")]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// No CUDA device can be used.
    #[error("no CUDA device can be used: {reason}; choose --device cpu, or run `orco-train doctor`")]
    NoCuda {
        /// What is missing.
        reason: String,
    },
    /// There are fewer CUDA devices.
    #[error("there is no CUDA device {number}: this machine has {count}, counted from 0")]
    TooFew {
        /// What was asked for.
        number: usize,
        /// How many there are.
        count: usize,
    },
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(name: &str) -> Result<Self, DeviceError> {
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => {
                let number = name.strip_prefix("cuda:").and_then(|number| number.parse().ok());
                number.map(Self::Cuda).ok_or_else(|| DeviceError::Unknown { name: name.into() })
            }
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Cpu => formatter.write_str("cpu"),
            Self::Cuda(number) => write!(formatter, "cuda:{number}"),
        }
    }
}

impl From<DeviceChoice> for String {
    fn from(wanted: DeviceChoice) -> Self {
        wanted.to_string()
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = DeviceError;

    fn try_from(name: String) -> Result<Self, DeviceError> {
        name.parse()
    }
}

/// The device asked for, ready for use.
///
/// # Errors
/// [`DeviceError`] if there is no such CUDA device.
pub fn open(wanted: DeviceChoice) -> Result<Device, DeviceError> {
    let number = match wanted {
        DeviceChoice::Cpu => return Ok(Device::Cpu),
        DeviceChoice::Auto => match cuda_devices() {
            Ok(_) => 0,
            Err(error) => {
                if let Some(driver) = gpu::driver().filter(|_| !gpu::hidden()) {
                    let version = driver.version;
                    log::warn!(
                        "this machine has NVIDIA's driver {version}, but training runs on the processor: {error}"
                    );
                }
                return Ok(Device::Cpu);
            }
        },
        DeviceChoice::Cuda(number) => match cuda_devices()? {
            count if number < count => number,
            count => return Err(DeviceError::TooFew { number, count }),
        },
    };
    // Batches keep their shape, so looking for the fastest convolution pays.
    Cuda::cudnn_set_benchmark(true);
    gpu::compute_on(number);
    Ok(Device::Cuda(number))
}

/// The device asked for as a rank of several takes it: of each machine's GPUs, counted from the one that was named, the
/// rank's own number there.
///
/// # Errors
/// [`DeviceError`] if there is no such CUDA device.
pub fn open_for(wanted: DeviceChoice, group: &RankGroup) -> Result<Device, DeviceError> {
    group.local().map_or_else(|| open(wanted), |local| open_at(wanted, local))
}

/// The device asked for as the rank of this number on its machine takes it.
pub(crate) fn open_at(wanted: DeviceChoice, local: usize) -> Result<Device, DeviceError> {
    match wanted {
        DeviceChoice::Cpu => open(wanted),
        DeviceChoice::Cuda(first) => open(DeviceChoice::Cuda(first + local)),
        DeviceChoice::Auto if cuda_devices().is_ok() => open(DeviceChoice::Cuda(local)),
        DeviceChoice::Auto => open(wanted),
    }
}

/// The tensor on a device. Unlike [`Tensor::to_device`] it does not wait for what the device still computes: numbers on
/// their way to it are put into its queue.
pub fn send(tensor: &Tensor, device: Device) -> Tensor {
    // The other way nobody may read them before they have arrived.
    let queued = tensor.device() == Device::Cpu;
    tensor.to_device_(device, tensor.kind(), queued, false)
}

/// The numbers of a tensor as f32, row-major; waits for the device.
pub fn values(tensor: &Tensor) -> Vec<f32> {
    let flat = tensor.detach().to_device(Device::Cpu).to_kind(Kind::Float).contiguous().view(-1);
    Vec::try_from(flat).expect("a flat f32 tensor")
}

/// Number of CUDA devices, at least one.
///
/// # Errors
/// [`DeviceError::NoCuda`] if there is none, with what is missing.
pub fn cuda_devices() -> Result<usize, DeviceError> {
    let missing = |reason: String| DeviceError::NoCuda { reason };
    load_cuda().map_err(missing)?;
    match usize::try_from(Cuda::device_count()).unwrap_or(0) {
        count if count > 0 && Cuda::is_available() => Ok(count),
        _ if tch::utils::has_cudart() => {
            Err(missing("libtorch's CUDA library is loaded, but it finds no device or no driver".into()))
        }
        _ => Err(missing("libtorch did not take its CUDA library in, which was opened too late".into())),
    }
}

/// Opens [`LIBRARY`] once per process, unless it is there already.
///
/// libtorch looks for its CUDA half when it is first asked for anything of CUDA's, a seed included, and remembers for
/// good if there was none. So this comes before every such question, and asks none itself.
fn load_cuda() -> Result<(), String> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    LOADED
        .get_or_init(|| {
            if mapped(LIBRARY).is_some() {
                return Ok(());
            }
            let path = cuda_library().ok_or_else(|| {
                let folder = libtorch_folder().map_or(String::new(), |folder| format!(" ({})", folder.display()));
                format!("{LIBRARY} was found neither beside libtorch{folder} nor in LD_LIBRARY_PATH")
            })?;
            open_for_all(&path).map_err(|error| format!("{} cannot be opened: {error}", path.display()))
        })
        .clone()
}

/// Opens a library whose symbols the ones already open may use; it stays open.
#[cfg(unix)]
fn open_for_all(path: &Path) -> Result<(), libloading::Error> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: opening libtorch's own CUDA half runs its static registrations and nothing else, and happens before the
    // first call that could need them.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL)? };
    std::mem::forget(library);
    Ok(())
}

#[cfg(not(unix))]
fn open_for_all(_: &Path) -> Result<(), &'static str> {
    Err("only done on Unix")
}

/// Where [`LIBRARY`] lies: beside libtorch, else in a folder of `LD_LIBRARY_PATH`.
fn cuda_library() -> Option<PathBuf> {
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = libtorch_folder().into_iter().chain(std::env::split_paths(&listed));
    folders.map(|folder| folder.join(LIBRARY)).find(|path| path.is_file())
}

/// The folder of the libtorch that this process uses.
pub fn libtorch_folder() -> Option<PathBuf> {
    mapped("libtorch_cpu.so")?.parent().map(Path::to_owned)
}

/// Path of a library that this process has open.
fn mapped(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut paths = maps.lines().filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
    paths.find(|path| path.file_name().is_some_and(|file| file == name)).map(Path::to_owned)
}

/// Version of the libtorch that this process uses, from its headers or its folder's `build-version`.
pub fn libtorch_version() -> Option<String> {
    let root = libtorch_folder()?.parent()?.to_owned();
    if let Ok(version) = std::fs::read_to_string(root.join("build-version")) {
        return Some(version.trim().to_owned());
    }
    let header = std::fs::read_to_string(root.join("include/torch/headeronly/version.h"))
        .or_else(|_| std::fs::read_to_string(root.join("include/torch/csrc/api/include/torch/version.h")))
        .ok()?;
    let part = |name: &str| {
        let line = header.lines().find(|line| line.split_whitespace().nth(1) == Some(name))?;
        line.split_whitespace().nth(2).map(str::to_owned)
    };
    Some([part("TORCH_VERSION_MAJOR")?, part("TORCH_VERSION_MINOR")?, part("TORCH_VERSION_PATCH")?].join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for (name, wanted) in
            [("auto", DeviceChoice::Auto), ("cpu", DeviceChoice::Cpu), ("cuda:2", DeviceChoice::Cuda(2))]
        {
            assert_eq!(name.parse::<DeviceChoice>().unwrap(), wanted);
            assert_eq!(wanted.to_string(), name);
        }
        assert_eq!("cuda".parse::<DeviceChoice>().unwrap(), DeviceChoice::Cuda(0));
        let error = "gpu".parse::<DeviceChoice>().unwrap_err().to_string();
        assert_eq!(error, "there is no device \"gpu\"; choose auto, cpu, cuda or cuda:N");
    }

    #[test]
    fn a_missing_device_is_one_sentence() {
        assert_eq!(open(DeviceChoice::Cpu).unwrap(), Device::Cpu);
        match cuda_devices() {
            Ok(count) => assert!(matches!(open(DeviceChoice::Cuda(count)), Err(DeviceError::TooFew { .. }))),
            Err(_) => {
                assert_eq!(open(DeviceChoice::Auto).unwrap(), Device::Cpu);
                let error = open(DeviceChoice::Cuda(0)).unwrap_err().to_string();
                assert!(error.starts_with("no CUDA device can be used: ") && error.contains("--device cpu"), "{error}");
                assert!(!error.contains('\n'), "{error}");
            }
        }
    }
}
