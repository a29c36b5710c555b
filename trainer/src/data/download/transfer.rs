//! One file over HTTP into a partial file, continued by range requests until it is whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use orco_runtime::files::open_own;
use ureq::Agent;
use ureq::http::header::{CONTENT_LENGTH, CONTENT_RANGE};

use super::{DownloadError, writing};
use crate::run::progress::WorkProgress;

/// Attempts in a row that bring nothing before it is given up.
const ATTEMPTS: usize = 3;
/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest time for one answer's body; a stalled connection is then replaced by one that continues.
const STALLED: Duration = Duration::from_secs(300);

/// How one request ended.
enum Outcome {
    /// The file is whole.
    Whole,
    /// The connection was lost; why.
    Broken(String),
}

/// Downloads `address` into `part`, from where an earlier download left off.
pub(super) fn download(address: &str, part: &Path) -> Result<(), DownloadError> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(30)))
        .timeout_recv_response(Some(Duration::from_secs(60)))
        .timeout_recv_body(Some(STALLED));
    let agent: Agent = config.build().into();
    let mut failures = 0;
    loop {
        let before = length(part);
        match attempt(&agent, address, part)? {
            Outcome::Whole => return Ok(()),
            Outcome::Broken(reason) => {
                let have = length(part);
                failures = if have > before { 0 } else { failures + 1 };
                if failures == ATTEMPTS {
                    return Err(DownloadError::Connection { address: address.into(), reason, have });
                }
                log::warn!("the connection was lost after {have} bytes ({reason}); continuing");
                thread::sleep(PAUSE);
            }
        }
    }
}

/// Bytes of the partial file.
fn length(part: &Path) -> u64 {
    fs::metadata(part).map_or(0, |facts| facts.len())
}

/// One request for what is missing.
fn attempt(agent: &Agent, address: &str, part: &Path) -> Result<Outcome, DownloadError> {
    let have = length(part);
    let mut request = agent.get(address).header("Accept-Encoding", "identity");
    if have > 0 {
        request = request.header("Range", format!("bytes={have}-"));
    }
    let response = match request.call() {
        Ok(response) => response,
        Err(error) => return Ok(Outcome::Broken(error.to_string())),
    };
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let range = header(CONTENT_RANGE).and_then(content_range);
    let (start, total) = match response.status().as_u16() {
        200 => (0, header(CONTENT_LENGTH).and_then(|length| length.parse().ok())),
        206 if range.is_some_and(|(start, _)| start == Some(have)) => (have, range.and_then(|(_, total)| total)),
        // Nothing is missing.
        416 if have > 0 && range.and_then(|(_, total)| total) == Some(have) => return Ok(Outcome::Whole),
        // The partial file is not a part of what is there now: from the beginning.
        206 | 416 if have > 0 => {
            fs::remove_file(part).map_err(writing(part))?;
            return Ok(Outcome::Broken("the server has another file by now".into()));
        }
        status => return Err(DownloadError::Status { address: address.into(), status }),
    };
    let mut file = open_own(OpenOptions::new().create(true).append(true), part).map_err(writing(part))?;
    file.set_len(start).map_err(writing(part))?;
    let mut progress = WorkProgress::new("download", "kB", total.unwrap_or(0) / 1000, start / 1000);
    let (mut at, mut said) = (start, start);
    let mut body = response.into_body().into_reader();
    let mut buffer = vec![0; 1 << 16];
    let ended = loop {
        let count = match body.read(&mut buffer) {
            Ok(0) => break None,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break Some(error.to_string()),
        };
        file.write_all(&buffer[..count]).map_err(writing(part))?;
        progress.advance((at + count as u64) / 1000 - at / 1000, "");
        at += count as u64;
        if at - said > 20_000_000 {
            progress.milestone(&format!("{} of {} MB", at / 1_000_000, total.unwrap_or(at) / 1_000_000));
            said = at;
        }
    };
    progress.finish();
    file.sync_all().map_err(writing(part))?;
    Ok(match ended {
        None if total.is_none_or(|total| at == total) => Outcome::Whole,
        reason => Outcome::Broken(reason.unwrap_or_else(|| "the answer was short".into())),
    })
}

/// First byte and total length of `bytes 5-9/10` or `bytes */10`.
fn content_range(text: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (span, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let start = span.split('-').next().and_then(|start| start.parse().ok());
    Some((start, total.parse().ok()))
}
