//! Metrics of the process itself, under the names that Prometheus's client libraries share.

use std::fmt;

use procfs::process::{LimitValue, Process};
use procfs::{CurrentSI, KernelStats, ProcResult, WithCurrentSystemInfo};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// A registry with these metrics.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessCollector));
    registry
}

/// Reads them whenever somebody asks for the metrics.
#[derive(Debug)]
struct ProcessCollector;

/// What the system tells of the process.
struct ProcessFacts {
    /// CPU time, in seconds.
    cpu: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_files: u64,
    /// `None` if there is no limit.
    max_files: Option<u64>,
    threads: i64,
    /// In seconds since 1970.
    started: f64,
}

impl ProcessFacts {
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let (stat, limits) = (process.stat()?, process.limits()?);
        let ticks = procfs::ticks_per_second() as f64;
        Ok(Self {
            cpu: (stat.utime + stat.stime) as f64 / ticks,
            resident_bytes: stat.rss_bytes().get(),
            virtual_bytes: stat.vsize,
            open_files: process.fd_count()? as u64,
            max_files: match limits.max_open_files.soft_limit {
                LimitValue::Unlimited => None,
                LimitValue::Value(files) => Some(files),
            },
            threads: stat.num_threads,
            // Read anew each time: a clock that is set after the boot moves it.
            started: KernelStats::current()?.btime as f64 + stat.starttime as f64 / ticks,
        })
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        // Where /proc is closed, the other metrics still count.
        let Ok(facts) = ProcessFacts::read() else { return Ok(()) };
        let help = "CPU time of the process.";
        let cpu = encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), MetricType::Counter)?;
        ConstCounter::new(facts.cpu).encode(cpu)?;
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: f64| {
            let gauge = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            ConstGauge::new(value).encode(gauge)
        };
        let bytes = Some(&Unit::Bytes);
        gauge("process_resident_memory", "Memory of the process.", bytes, facts.resident_bytes as f64)?;
        gauge("process_virtual_memory", "Virtual memory of the process.", bytes, facts.virtual_bytes as f64)?;
        gauge("process_open_fds", "Files that are open.", None, facts.open_files as f64)?;
        if let Some(files) = facts.max_files {
            gauge("process_max_fds", "Most files that may be open.", None, files as f64)?;
        }
        gauge("process_threads", "Threads of the process.", None, facts.threads as f64)?;
        gauge("process_start_time", "When the process began, since 1970.", Some(&Unit::Seconds), facts.started)
    }
}
