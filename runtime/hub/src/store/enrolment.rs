//! Enrolment: codes, and devices that use them.

use std::time::Duration;

use orco_runtime::state::escape::EscapedText;
use rusqlite::{OptionalExtension, Transaction, params};

use super::{Delivery, HubStore, StoredAnswer, UnixSeconds, check_channel, deliveries};
use crate::error::HubError;
use crate::protocol::{
    CodeKey, DeviceId, Enrolment, EnrolmentAnswer, EnrolmentCode, RequestHead, Signature, bounded, is_device_name,
};

/// Longest time that a code may count, in hours: a year.
pub const MAX_CODE_LIFETIME_HOURS: u32 = 24 * 366;

/// A code as the database has it.
struct CodeRecord {
    key: CodeKey,
    channel: String,
    expires: UnixSeconds,
    device: Option<DeviceId>,
}

impl HubStore {
    /// A new code for one device, which will follow a channel; it counts for `lifetime`.
    ///
    /// # Errors
    /// [`HubError`] if the channel's name is none, or the code cannot be kept.
    pub fn new_code(&self, channel: &str, lifetime: Duration, now: UnixSeconds) -> Result<EnrolmentCode, HubError> {
        check_channel(channel)?;
        let code = EnrolmentCode::generate(self.key().verifying_key().fingerprint()).ok_or(HubError::Random)?;
        let expires = now.saturating_add(lifetime.as_secs().try_into().unwrap_or(UnixSeconds::MAX));
        let connection = self.connection()?;
        // Codes that nobody used in time are of no use.
        connection.execute("DELETE FROM code WHERE expires < ?1 AND device IS NULL", [now])?;
        connection.execute(
            "INSERT INTO code (id, key, channel, expires) VALUES (?1, ?2, ?3, ?4)",
            params![code.id(), code.key(), channel, expires],
        )?;
        Ok(code)
    }

    /// Takes a device into the fleet. None if anything is wrong: a stranger learns nothing from it.
    ///
    /// The same device may use its code again, since the first answer may have been lost. It takes the name that it
    /// gives then, and stays in its channel.
    ///
    /// # Errors
    /// [`HubError::Database`] if it cannot be kept.
    pub fn enrol(
        &self,
        head: &RequestHead,
        signature: &Signature,
        enrolment: &Enrolment,
        now: UnixSeconds,
    ) -> Result<Option<StoredAnswer>, HubError> {
        let key = enrolment.key;
        if head.device != key.device() || !head.is_signed(&key, signature) {
            return Ok(None);
        }
        self.in_transaction(|transaction| {
            let Some(code) = find(transaction, enrolment)? else { return Ok(None) };
            if !code.key.accepts(&key, enrolment.proof.bytes()) {
                return Ok(None);
            }
            match code.device {
                Some(device) if device != head.device => return Ok(None),
                Some(_) => {
                    // A copy of the first request, or another one after its answer was lost.
                    return Ok(match deliveries::delivery(transaction, head)? {
                        Some(Delivery::First) => Some(self.answer_again(transaction, head, &enrolment.name)?),
                        Some(Delivery::Again(answer)) => Some(answer),
                        Some(Delivery::Replay { .. }) | None => None,
                    });
                }
                None if code.expires < now => return Ok(None),
                // Programs of ours say so before they ask.
                None if !is_device_name(&enrolment.name) => {
                    log::warn!("no device is enrolled as \"{}\": that can be no name", EscapedText(&enrolment.name));
                    return Ok(None);
                }
                None => {}
            }
            transaction.execute("UPDATE code SET device = ?2 WHERE id = ?1", params![enrolment.code, head.device])?;
            let enrolled = EnrolmentAnswer { hub: self.key().verifying_key(), channel: code.channel };
            let answer = StoredAnswer::json(&enrolled);
            transaction.execute(
                "INSERT OR REPLACE INTO device
                     (id, key, name, channel, enrolled, seen, sequence, request, status, answer)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5, max(?6, ifnull((SELECT sequence FROM device WHERE id = ?1), 0)),
                         ?7, ?8, ?9)",
                params![
                    head.device,
                    key,
                    bounded(&enrolment.name),
                    enrolled.channel,
                    now,
                    deliveries::column(head.sequence),
                    head.digest(),
                    answer.status,
                    answer.body
                ],
            )?;
            Ok(Some(answer))
        })
    }

    /// Answers a device of the fleet that uses its code again. Older programs may give what can be no name: the device
    /// keeps the one that it has then.
    fn answer_again(
        &self,
        transaction: &Transaction<'_>,
        head: &RequestHead,
        name: &str,
    ) -> Result<StoredAnswer, HubError> {
        if is_device_name(name) {
            transaction.execute("UPDATE device SET name = ?2 WHERE id = ?1", params![head.device, bounded(name)])?;
        }
        let query = "SELECT channel FROM device WHERE id = ?1";
        let channel = transaction.query_row(query, [head.device], |row| row.get(0))?;
        let answer = StoredAnswer::json(&EnrolmentAnswer { hub: self.key().verifying_key(), channel });
        deliveries::keep(transaction, head, &answer)?;
        Ok(answer)
    }
}

fn find(transaction: &Transaction<'_>, enrolment: &Enrolment) -> Result<Option<CodeRecord>, HubError> {
    let query = "SELECT key, channel, expires, device FROM code WHERE id = ?1";
    let record = transaction.query_row(query, [enrolment.code], |row| {
        Ok(CodeRecord { key: row.get(0)?, channel: row.get(1)?, expires: row.get(2)?, device: row.get(3)? })
    });
    Ok(record.optional()?)
}
