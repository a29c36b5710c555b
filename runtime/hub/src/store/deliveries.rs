//! Deliveries of devices' requests, by their sequence numbers: each request counts once, however often it arrives.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::Serialize;

use super::{HubStore, UnixSeconds};
use crate::error::HubError;
use crate::protocol::{HubRefusal, ObjectDigest, RefusalKind, RequestHead};

/// An answer, as it is kept until the device's next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    /// Status of HTTP. An answer of 206 is kept without its body, which is a part of an object that never changes.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
}

impl StoredAnswer {
    /// A successful answer.
    pub fn json(value: &impl Serialize) -> Self {
        // Types of ours always have a form in JSON.
        Self { status: 200, body: serde_json::to_vec(value).unwrap_or_default() }
    }

    /// A part of an object.
    pub fn part() -> Self {
        Self { status: 206, body: Vec::new() }
    }

    /// A refusal, for a device that the hub knows.
    pub fn refusal(kind: RefusalKind, reason: impl Into<String>) -> Self {
        let status = match kind {
            RefusalKind::Replay { .. } => 409,
            RefusalKind::Invalid => 422,
            RefusalKind::Missing => 404,
        };
        Self { status, ..Self::json(&HubRefusal { kind, reason: reason.into() }) }
    }
}

/// How a request arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// For the first time.
    First,
    /// Once more, as networks do: the answer is the same.
    Again(StoredAnswer),
    /// With an old number, or with the number of another request.
    Replay {
        /// The highest number that was seen.
        last: u64,
    },
}

/// A sequence number as SQLite has it. Numbers beyond its integers are refused as replays of the highest one.
pub(super) fn column(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}

/// How a request arrives; none from a device that is not known.
pub(super) fn delivery(connection: &Connection, head: &RequestHead) -> Result<Option<Delivery>, HubError> {
    let query = "SELECT sequence, request, status, answer FROM device WHERE id = ?1";
    let found = connection.query_row(query, [head.device], |row| {
        let (last, request): (i64, ObjectDigest) = (row.get(0)?, row.get(1)?);
        Ok((last, request, StoredAnswer { status: row.get(2)?, body: row.get(3)? }))
    });
    Ok(found.optional()?.map(|(last, request, answer)| {
        if column(head.sequence) > last {
            Delivery::First
        } else if request == head.digest() {
            Delivery::Again(answer)
        } else {
            Delivery::Replay { last: last.unsigned_abs() }
        }
    }))
}

/// Keeps a request's number with its answer.
pub(super) fn keep(transaction: &Transaction<'_>, head: &RequestHead, answer: &StoredAnswer) -> Result<(), HubError> {
    transaction.execute(
        "UPDATE device SET sequence = ?2, request = ?3, status = ?4, answer = ?5 WHERE id = ?1",
        params![head.device, column(head.sequence), head.digest(), answer.status, answer.body],
    )?;
    Ok(())
}

impl Delivery {
    /// The answer to a request that came before; none to one that is yet to be answered.
    fn earlier_answer(self) -> Option<StoredAnswer> {
        match self {
            Self::First => None,
            Self::Again(answer) => Some(answer),
            Self::Replay { last } => {
                Some(StoredAnswer::refusal(RefusalKind::Replay { last }, "the sequence number was used before"))
            }
        }
    }
}

impl HubStore {
    /// The answer to a request that came before; none to one that is yet to be answered, or of a device that is not
    /// known.
    pub(crate) fn earlier_answer(&self, head: &RequestHead) -> Result<Option<StoredAnswer>, HubError> {
        Ok(delivery(&*self.connection()?, head)?.and_then(Delivery::earlier_answer))
    }

    /// Answers a request whose signature was checked. `act` runs only if the request arrives for the first time; what
    /// it writes becomes durable together with the number and the answer, before this returns. None from a device that
    /// is not known any more.
    ///
    /// # Errors
    /// [`HubError`] of `act`, or if the database fails. Nothing was changed then.
    pub(crate) fn answer_once(
        &self,
        head: &RequestHead,
        now: UnixSeconds,
        act: impl FnOnce(&Transaction<'_>) -> Result<StoredAnswer, HubError>,
    ) -> Result<Option<StoredAnswer>, HubError> {
        self.in_transaction(|transaction| {
            let Some(delivery) = delivery(transaction, head)? else { return Ok(None) };
            if let Some(earlier) = delivery.earlier_answer() {
                return Ok(Some(earlier));
            }
            let answer = act(transaction)?;
            transaction.execute("UPDATE device SET seen = ?2 WHERE id = ?1", params![head.device, now])?;
            keep(transaction, head, &answer)?;
            Ok(Some(answer))
        })
    }
}
