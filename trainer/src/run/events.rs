//! TensorBoard's event files: records of `tensorflow.Event` messages, each with its length and two checksums.
//!
//! A record is: length (u64, little-endian), masked CRC-32C of those eight bytes (u32), the message, its masked
//! CRC-32C (u32); as in TensorFlow's `record_writer.h` and `event.proto`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use orco_runtime::files::open_own;
use prost::{Message, Oneof};

/// `tensorflow.Event`.
#[derive(Clone, PartialEq, Message)]
struct TensorBoardEvent {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(oneof = "EventContent", tags = "3, 5")]
    what: Option<EventContent>,
}

#[derive(Clone, PartialEq, Oneof)]
enum EventContent {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(EventSummary),
}

/// `tensorflow.Summary`.
#[derive(Clone, PartialEq, Message)]
struct EventSummary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<EventValue>,
}

/// `tensorflow.Summary.Value` of one number.
#[derive(Clone, PartialEq, Message)]
struct EventValue {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

/// An event file being written.
#[derive(Debug)]
pub(super) struct EventFile {
    file: File,
}

impl EventFile {
    /// Begins a new file in the folder; TensorBoard reads all files of a folder as one run.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = if host.trim().is_empty() { "localhost" } else { host.trim() };
        let name = format!("events.out.tfevents.{:.0}.{host}.{}", now().floor(), std::process::id());
        let file = open_own(OpenOptions::new().create(true).append(true), &folder.join(name))?;
        let mut events = Self { file };
        events.write(0, EventContent::FileVersion("brain.Event:2".into()))?;
        Ok(events)
    }

    /// Adds numbers with their tags at a step.
    pub(super) fn scalars(&mut self, step: i64, values: Vec<(String, f64)>) -> io::Result<()> {
        let values = values.into_iter().map(|(tag, value)| EventValue { tag, simple_value: Some(value as f32) });
        self.write(step, EventContent::Summary(EventSummary { value: values.collect() }))
    }

    fn write(&mut self, step: i64, what: EventContent) -> io::Result<()> {
        let event = TensorBoardEvent { wall_time: now(), step, what: Some(what) };
        self.file.write_all(&record(&event.encode_to_vec()))
    }
}

/// Seconds since 1970.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |passed| passed.as_secs_f64())
}

fn record(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u64).to_le_bytes();
    let (of_length, of_message) = (masked(&length).to_le_bytes(), masked(message).to_le_bytes());
    [length.as_slice(), &of_length, message, &of_message].concat()
}

/// CRC-32C, turned and shifted, so that the checksum of data that holds checksums stays a good one.
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of a file; panics if a length or a checksum is wrong.
    fn read(mut bytes: &[u8]) -> Vec<TensorBoardEvent> {
        let mut events = Vec::new();
        while !bytes.is_empty() {
            let number = |from: usize| u32::from_le_bytes(bytes[from..from + 4].try_into().unwrap());
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            assert_eq!(number(8), masked(&bytes[..8]));
            assert_eq!(number(12 + length), masked(&bytes[12..12 + length]));
            events.push(TensorBoardEvent::decode(&bytes[12..12 + length]).unwrap());
            bytes = &bytes[16 + length..];
        }
        events
    }

    #[test]
    fn the_checksum_is_the_published_one() {
        // RFC 3720, B.4: 32 bytes of zeros; then TensorFlow's mask by hand.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked(&[0; 32]), 0x0fd7_fffa);
    }

    #[test]
    fn records_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = EventFile::create(folder.path()).unwrap();
        events.scalars(3, vec![("pretrain/loss".into(), 1.5), ("pretrain/accuracy".into(), 62.0)]).unwrap();
        let path = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        assert!(path.file_name().unwrap().to_str().unwrap().starts_with("events.out.tfevents."));
        let events = read(&fs::read(path).unwrap());
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].what, Some(EventContent::FileVersion("brain.Event:2".into())));
        let value = |tag: &str, value| EventValue { tag: tag.into(), simple_value: Some(value) };
        let expected = vec![value("pretrain/loss", 1.5), value("pretrain/accuracy", 62.0)];
        assert_eq!(events[1].what, Some(EventContent::Summary(EventSummary { value: expected })));
        assert!(events[1].step == 3 && events[1].wall_time > 1e9);
    }
}
