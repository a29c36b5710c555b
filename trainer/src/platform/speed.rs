//! How fast phase 1 went, beside what the GPU could do.

use std::time::Duration;

use tch::Device;

use crate::platform::gpu;

/// Dense bf16 operations per second of known GPUs, as their makers publish them (NVIDIA's data sheets): every word must
/// be in the GPU's name, and the first entry that fits counts.
const PEAKS: [(&[&str], f64); 9] = [
    (&["H100", "PCIe"], 756e12),
    (&["H100", "NVL"], 835e12),
    (&["H100"], 989e12),
    (&["H200"], 989e12),
    (&["A100"], 312e12),
    (&["A10"], 125e12),
    (&["A30"], 165e12),
    (&["L4"], 121e12),
    (&["L40S"], 362e12),
];

/// Views that went forwards and backwards through a network, and the time they took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Speed {
    views: usize,
    time: Duration,
}

impl Speed {
    /// Counts views of some steps.
    pub fn add(&mut self, views: usize, time: Duration) {
        self.views += views;
        self.time += time;
    }

    /// What is said at the end, for a network of `multiply_adds` per view on the devices of `ranks` ranks; none
    /// if nothing was trained.
    ///
    /// A multiply-add is two operations, and the way back takes twice those of the way forward.
    pub fn sentence(&self, multiply_adds: i64, device: Device, ranks: usize) -> Option<String> {
        if self.views == 0 || self.time.is_zero() {
            return None;
        }
        let views = self.views as f64 / self.time.as_secs_f64();
        let operations = 3.0 * 2.0 * multiply_adds as f64 * views;
        let peak = device.is_cuda().then(gpu::used).flatten().and_then(|gpu| peak(&gpu.name));
        let share = peak.map_or_else(String::new, |peak| {
            let all = peak * ranks as f64;
            let (percent, tera) = (100.0 * operations / all, all / 1e12);
            let whose = if ranks == 1 { "the GPU has".into() } else { format!("{ranks} such GPUs have") };
            format!(", {percent:.1} % of the {tera:.0} TFLOP/s that {whose} in bf16")
        });
        Some(format!("{views:.0} views/s, {:.0} GFLOP/s{share}", operations / 1e9))
    }
}

/// The peak of a GPU.
fn peak(name: &str) -> Option<f64> {
    let words: Vec<&str> = name.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
    PEAKS.iter().find(|(needed, _)| needed.iter().all(|word| words.contains(word))).map(|(_, peak)| *peak)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_told_apart_by_whole_words() {
        for (name, expected) in [
            ("NVIDIA H100 80GB HBM3", Some(989e12)),
            ("NVIDIA H100 PCIe", Some(756e12)),
            ("NVIDIA H200", Some(989e12)),
            ("NVIDIA A100-SXM4-80GB", Some(312e12)),
            ("NVIDIA A10", Some(125e12)),
            ("NVIDIA L4", Some(121e12)),
            ("NVIDIA L40S", Some(362e12)),
            ("NVIDIA L40", None),
            ("Tesla T4", None),
        ] {
            assert_eq!(peak(name), expected, "{name}");
        }
    }

    #[test]
    fn a_processor_has_no_share() {
        let mut speed = Speed::default();
        assert_eq!(speed.sentence(1_000_000, Device::Cpu, 1), None);
        speed.add(3000, Duration::from_secs(2));
        speed.add(1000, Duration::from_secs(2));
        // 1000 views a second, each 3 * 2 * 10^6 operations.
        assert_eq!(speed.sentence(1_000_000, Device::Cpu, 1).unwrap(), "1000 views/s, 6 GFLOP/s");
    }
}
