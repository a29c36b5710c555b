//! Counts and durations of requests by the Open Inference Protocol, for its statistics extension.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

/// Where the time of one request went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InferenceTimes {
    /// Waiting for memory to decode pictures in.
    pub queue: Duration,
    /// Decoding and scaling pictures, or reading tensors.
    pub input: Duration,
    /// Computing features and classes; waiting for the thread that does is part of it.
    pub infer: Duration,
    /// Writing the answer.
    pub output: Duration,
}

/// How often something happened, and how long it took together.
#[derive(Debug, Default)]
struct DurationTotal {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl DurationTotal {
    fn add(&self, time: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn json(&self) -> Value {
        json!({ "count": self.count.load(Ordering::Relaxed), "ns": self.nanoseconds.load(Ordering::Relaxed) })
    }
}

/// Statistics of the model since the service was started.
#[derive(Debug, Default)]
pub struct InferenceStatistics {
    /// Milliseconds since 1970; 0 where nothing was asked yet.
    last: AtomicU64,
    /// Pictures and feature vectors that were classified.
    inferences: AtomicU64,
    success: DurationTotal,
    fail: DurationTotal,
    queue: DurationTotal,
    input: DurationTotal,
    infer: DurationTotal,
    output: DurationTotal,
}

impl InferenceStatistics {
    /// Counts a request that began then, with the number of its pictures or feature vectors; `None` if it was refused.
    pub fn count(&self, began: Instant, answered: Option<(usize, InferenceTimes)>) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.last.store(u64::try_from(since.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let Some((inferences, times)) = answered else { return self.fail.add(began.elapsed()) };
        self.inferences.fetch_add(inferences as u64, Ordering::Relaxed);
        self.success.add(began.elapsed());
        self.queue.add(times.queue);
        self.input.add(times.input);
        self.infer.add(times.infer);
        self.output.add(times.output);
    }

    /// As the protocol writes them, for the model of that name and version.
    pub fn json(&self, name: &str, version: &str) -> Value {
        json!({ "model_stats": [{
            "name": name, "version": version, "last_inference": self.last.load(Ordering::Relaxed),
            "inference_count": self.inferences.load(Ordering::Relaxed),
            // Every request is computed by itself.
            "execution_count": self.success.count.load(Ordering::Relaxed),
            "inference_stats": {
                "success": self.success.json(), "fail": self.fail.json(), "queue": self.queue.json(),
                "compute_input": self.input.json(), "compute_infer": self.infer.json(),
                "compute_output": self.output.json(),
                "cache_hit": { "count": 0, "ns": 0 }, "cache_miss": { "count": 0, "ns": 0 },
            },
            "batch_stats": [],
        }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_with_their_pictures_and_refused_ones_apart() {
        let statistics = InferenceStatistics::default();
        let began = Instant::now();
        let times = InferenceTimes { infer: Duration::from_millis(3), ..InferenceTimes::default() };
        statistics.count(began, Some((4, times)));
        statistics.count(began, Some((1, times)));
        statistics.count(began, None);
        let all = statistics.json("everyday", "1");
        let model = &all["model_stats"][0];
        assert_eq!((&model["inference_count"], &model["execution_count"]), (&json!(5), &json!(2)));
        assert_eq!(model["inference_stats"]["compute_infer"], json!({ "count": 2, "ns": 6_000_000 }));
        assert_eq!(model["inference_stats"]["fail"]["count"], 1);
        assert!(model["last_inference"].as_u64().unwrap() > 1_577_836_800_000, "{model}");
    }
}
