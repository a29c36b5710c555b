//! Devices, as the hub knows them.

use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::{HubStore, UnixSeconds, check_channel};
use crate::error::HubError;
use crate::protocol::{DeviceId, DeviceReport, VerifyingKey};

/// A device of the fleet.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceRecord {
    /// Its identifier.
    pub id: DeviceId,
    /// Its key.
    pub key: VerifyingKey,
    /// What people call it.
    pub name: String,
    /// The channel that it follows.
    pub channel: String,
    /// When it enrolled.
    pub enrolled: UnixSeconds,
    /// When its last request came.
    pub seen: UnixSeconds,
    /// What it said of itself last.
    pub report: Option<DeviceReport>,
}

const SELECT_DEVICE: &str = "SELECT id, key, name, channel, enrolled, seen, report FROM device";

fn record(row: &Row<'_>) -> rusqlite::Result<DeviceRecord> {
    let report: Option<String> = row.get(6)?;
    Ok(DeviceRecord {
        id: row.get(0)?,
        key: row.get(1)?,
        name: row.get(2)?,
        channel: row.get(3)?,
        enrolled: row.get(4)?,
        seen: row.get(5)?,
        // A report of a newer program may have another form; the next one replaces it.
        report: report.and_then(|text| serde_json::from_str(&text).ok()),
    })
}

impl HubStore {
    /// The device of that identifier.
    ///
    /// # Errors
    /// [`HubError::Database`] if it cannot be read.
    pub fn device(&self, id: &DeviceId) -> Result<Option<DeviceRecord>, HubError> {
        let query = format!("{SELECT_DEVICE} WHERE id = ?1");
        Ok(self.connection()?.prepare_cached(&query)?.query_row([id], record).optional()?)
    }

    /// The key of a device, without the rest: it is looked up before anything is known of who asks.
    pub(crate) fn device_key(&self, id: &DeviceId) -> Result<Option<VerifyingKey>, HubError> {
        let connection = self.connection()?;
        let mut query = connection.prepare_cached("SELECT key FROM device WHERE id = ?1")?;
        Ok(query.query_row([id], |row| row.get(0)).optional()?)
    }

    /// All devices, by name.
    ///
    /// # Errors
    /// [`HubError::Database`] if they cannot be read.
    pub fn devices(&self) -> Result<Vec<DeviceRecord>, HubError> {
        let connection = self.connection()?;
        let mut query = connection.prepare_cached(&format!("{SELECT_DEVICE} ORDER BY name, id"))?;
        let devices = query.query_map([], record)?.collect::<Result<_, _>>()?;
        Ok(devices)
    }

    /// Has a device follow another channel.
    ///
    /// # Errors
    /// [`HubError`] if there is no such device or channel, or it cannot be kept.
    pub fn set_channel(&self, device: &DeviceId, channel: &str) -> Result<(), HubError> {
        check_channel(channel)?;
        let changed =
            self.connection()?.execute("UPDATE device SET channel = ?2 WHERE id = ?1", params![device, channel])?;
        if changed == 0 { Err(HubError::NoDevice { device: *device }) } else { Ok(()) }
    }

    /// Takes a device out of the fleet: its key counts no more. What it pushed stays.
    ///
    /// # Errors
    /// [`HubError`] if there is no such device, or the database cannot be written.
    pub fn remove_device(&self, device: &DeviceId) -> Result<(), HubError> {
        let changed = self.connection()?.execute("DELETE FROM device WHERE id = ?1", [device])?;
        if changed == 0 { Err(HubError::NoDevice { device: *device }) } else { Ok(()) }
    }

    /// Keeps what a device says of itself.
    pub(crate) fn keep_report(
        transaction: &Transaction<'_>,
        device: &DeviceId,
        report: &DeviceReport,
    ) -> Result<(), HubError> {
        let text = serde_json::to_string(report).unwrap_or_default();
        transaction.execute("UPDATE device SET report = ?2 WHERE id = ?1", params![device, text])?;
        Ok(())
    }
}
