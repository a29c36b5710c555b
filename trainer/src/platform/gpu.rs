//! What NVIDIA's driver tells of the GPUs, by its management library (NVML), which is opened where there is one.

use std::sync::OnceLock;

use nvml_wrapper::{Device, Nvml};
use orco_state::sentence::byte_size;

/// A GPU.
#[derive(Debug)]
pub struct Gpu {
    /// Its name: `NVIDIA H100 80GB HBM3`.
    pub name: String,
    device: Device<'static>,
}

/// Versions of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvidiaDriver {
    /// Its own: `580.159.04`.
    pub version: String,
    /// The newest CUDA that it serves: `13.0`.
    pub cuda: String,
}

/// The GPU that the program computes on, once it does.
static USED: OnceLock<Option<Gpu>> = OnceLock::new();

/// Remembers the GPU of CUDA's device of that number as the one that computes; the first stays.
pub fn compute_on(number: usize) {
    USED.get_or_init(|| numbered(number));
}

/// The GPU that computes, if one does and its driver tells which.
pub fn used() -> Option<&'static Gpu> {
    USED.get()?.as_ref()
}

/// The GPU that CUDA numbers so. None without a driver, and where the numbers of GPUs that differ are not known.
pub fn numbered(number: usize) -> Option<Gpu> {
    let library = library()?;
    let device = match locator(number, visible().as_deref())? {
        Locator::Name(name) => library.device_by_uuid(name).ok()?,
        Locator::Number(number) => {
            let count = library.device_count().ok()?;
            let names: Vec<String> =
                (0..count).filter_map(|each| library.device_by_index(each).ok()?.name().ok()).collect();
            let alike = names.windows(2).all(|pair| pair[0] == pair[1]);
            // CUDA counts the fastest GPU first, NVML along the bus.
            let same = alike || std::env::var("CUDA_DEVICE_ORDER").is_ok_and(|order| order == "PCI_BUS_ID");
            same.then(|| library.device_by_index(number).ok()).flatten()?
        }
    };
    Some(Gpu { name: device.name().ok()?, device })
}

/// Whether the user hides all GPUs from CUDA.
pub fn hidden() -> bool {
    visible().is_some_and(|visible| locator(0, Some(&visible)).is_none())
}

/// The GPUs that CUDA may see, where the user says so.
fn visible() -> Option<String> {
    std::env::var("CUDA_VISIBLE_DEVICES").ok()
}

/// The driver, if there is one.
pub fn driver() -> Option<NvidiaDriver> {
    let library = library()?;
    let cuda = library.sys_cuda_driver_version().ok()?;
    Some(NvidiaDriver {
        version: library.sys_driver_version().ok()?,
        cuda: format!("{}.{}", cuda / 1000, cuda % 1000 / 10),
    })
}

impl Gpu {
    /// Bytes of its memory that are free, and that it has.
    pub fn memory(&self) -> Option<(u64, u64)> {
        self.device.memory_info().ok().map(|memory| (memory.free, memory.total))
    }

    /// Name, compute capability and memory in words.
    pub fn describe(&self) -> String {
        let capability = self.device.cuda_compute_capability().ok();
        let capability =
            capability.map_or_else(String::new, |it| format!(", compute capability {}.{}", it.major, it.minor));
        let memory = self.memory();
        let memory =
            memory.map_or_else(String::new, |(free, all)| format!(", {} free of {}", byte_size(free), byte_size(all)));
        format!("{}{capability}{memory}", self.name)
    }

    /// The arithmetic that it has units for.
    pub fn precisions(&self) -> Option<&'static str> {
        Some(match self.device.cuda_compute_capability().ok()?.major {
            8.. => "f32, bf16 and f16 in hardware",
            7 => "f32 and f16 in hardware, bf16 emulated, slow",
            _ => "f32 in hardware, bf16 and f16 slow",
        })
    }
}

fn library() -> Option<&'static Nvml> {
    static LIBRARY: OnceLock<Option<Nvml>> = OnceLock::new();
    LIBRARY.get_or_init(|| Nvml::init().inspect_err(|error| log::debug!("no NVML: {error}")).ok()).as_ref()
}

/// How NVML finds a GPU.
#[derive(Debug, PartialEq, Eq)]
enum Locator<'a> {
    Number(u32),
    Name(&'a str),
}

/// Which GPU CUDA's device `number` is, among those that `CUDA_VISIBLE_DEVICES` shows: none from the first on that no
/// GPU has.
fn locator(number: usize, visible: Option<&str>) -> Option<Locator<'_>> {
    let Some(visible) = visible else {
        return Some(Locator::Number(number.try_into().ok()?));
    };
    let mut shown = visible.split(',').map(str::trim).take_while(|entry| !matches!(*entry, "" | "-1"));
    let entry = shown.nth(number)?;
    Some(entry.parse().map_or(Locator::Name(entry), Locator::Number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_cards_that_are_shown() {
        assert_eq!(locator(1, None), Some(Locator::Number(1)));
        assert_eq!(locator(1, Some("3, 2")), Some(Locator::Number(2)));
        assert_eq!(locator(0, Some("GPU-8f1a")), Some(Locator::Name("GPU-8f1a")));
        assert_eq!(locator(2, Some("3,2")), None);
        for hidden in ["", "-1", " -1,0"] {
            assert_eq!(locator(0, Some(hidden)), None);
        }
        assert_eq!((locator(0, Some("2,-1,1")), locator(2, Some("2,-1,1"))), (Some(Locator::Number(2)), None));
    }

    #[test]
    fn a_machine_tells_of_its_cards_or_has_none() {
        let Some(gpu) = numbered(0) else {
            assert!(library().is_none_or(|library| library.device_count().is_ok()));
            return;
        };
        let (free, all) = gpu.memory().unwrap();
        assert!(free <= all && gpu.describe().starts_with(&gpu.name) && driver().is_some());
    }
}
