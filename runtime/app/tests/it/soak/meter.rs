//! What a process holds, watched over time.

use std::fs;

use orco_trials::median;
use orco_trials::system::status;

/// What a process holds at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Resident memory, KiB.
    memory: u64,
    descriptors: u64,
    threads: u64,
}

/// Samples of a process.
pub struct Meter {
    process: u32,
    samples: Vec<Sample>,
}

/// A figure's medians over the first and the last third of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trend {
    pub first: u64,
    pub last: u64,
}

impl Trend {
    fn of(values: &[u64]) -> Self {
        let third = values.len() / 3;
        assert!(third > 0, "too few samples: {values:?}");
        Self { first: median(values[..third].to_vec()), last: median(values[values.len() - third..].to_vec()) }
    }

    /// Whether it grew by no more than so much.
    pub fn is_flat(self, tolerance: u64) -> bool {
        self.last <= self.first + tolerance
    }
}

impl Meter {
    pub fn of(process: u32) -> Self {
        Self { process, samples: Vec::new() }
    }

    /// Looks at the process now.
    pub fn sample(&mut self) {
        let place = format!("/proc/{}", self.process);
        let descriptors = fs::read_dir(format!("{place}/fd")).unwrap().count() as u64;
        self.samples.push(Sample {
            memory: status(self.process, "VmRSS"),
            descriptors,
            threads: status(self.process, "Threads"),
        });
    }

    /// Resident memory in KiB.
    pub fn memory(&self) -> Trend {
        self.trend(|sample| sample.memory)
    }

    /// Open descriptors.
    pub fn descriptors(&self) -> Trend {
        self.trend(|sample| sample.descriptors)
    }

    /// Threads.
    pub fn threads(&self) -> Trend {
        self.trend(|sample| sample.threads)
    }

    fn trend(&self, figure: impl Fn(&Sample) -> u64) -> Trend {
        Trend::of(&self.samples.iter().map(figure).collect::<Vec<_>>())
    }
}

#[test]
fn a_figure_that_rises_is_not_flat() {
    let flat = Trend::of(&[10, 12, 10, 11, 10, 12, 11, 10, 11]);
    assert!(flat.is_flat(1), "{flat:?}");
    let leak = Trend::of(&[10, 11, 12, 13, 14, 15, 16, 17, 18]);
    assert_eq!(leak, Trend { first: 11, last: 17 });
    assert!(!leak.is_flat(5));
    // One that jumps and falls back is none.
    assert!(Trend::of(&[10, 10, 10, 99, 99, 99, 10, 99, 10]).is_flat(0));
}
