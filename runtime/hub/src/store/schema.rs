//! Tables of the database.

use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use crate::error::HubError;

/// Version of the tables.
const VERSION: i64 = 1;
/// How long a process waits for another one that writes.
const WAIT: Duration = Duration::from_secs(10);

const TABLES: &str = "
    CREATE TABLE code (
        id BLOB PRIMARY KEY, key BLOB NOT NULL, channel TEXT NOT NULL, expires INTEGER NOT NULL, device BLOB
    ) STRICT;
    CREATE TABLE device (
        id BLOB PRIMARY KEY, key BLOB NOT NULL, name TEXT NOT NULL, channel TEXT NOT NULL, enrolled INTEGER NOT NULL,
        seen INTEGER NOT NULL, sequence INTEGER NOT NULL, request BLOB NOT NULL, status INTEGER NOT NULL,
        answer BLOB NOT NULL, report TEXT
    ) STRICT;
    CREATE TABLE pack (
        digest BLOB PRIMARY KEY, label TEXT NOT NULL, bundle BLOB NOT NULL, bundle_name TEXT NOT NULL,
        device BLOB NOT NULL, device_name TEXT NOT NULL, shots INTEGER NOT NULL, size INTEGER NOT NULL,
        received INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX pack_of_device ON pack (device);
    CREATE TABLE picture (
        pack BLOB NOT NULL, digest BLOB NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (pack, digest)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE release (
        id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
        bundle BLOB NOT NULL, identity BLOB NOT NULL, stage INTEGER NOT NULL, force INTEGER NOT NULL,
        give_up_unkept INTEGER NOT NULL, withdrawn INTEGER NOT NULL, created INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX release_of_channel ON release (channel, withdrawn);
    CREATE TABLE release_file (
        release INTEGER NOT NULL, name TEXT NOT NULL, digest BLOB NOT NULL, size INTEGER NOT NULL,
        PRIMARY KEY (release, name)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX release_of_file ON release_file (digest);
    CREATE TABLE release_origin (
        release INTEGER NOT NULL, pack BLOB NOT NULL, PRIMARY KEY (release, pack)
    ) STRICT, WITHOUT ROWID;
";

/// Makes the tables where they are missing, and has every commit reach the disk before it returns. What is deleted or
/// replaced, such as a report that names a class which its device purged since, stays in no page.
/// A hub that was in use has them: empty ones in their place would make every device a stranger, without a word.
pub(super) fn prepare(connection: &mut Connection, was_in_use: bool) -> Result<(), HubError> {
    connection.busy_timeout(WAIT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "secure_delete", "ON")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match found {
        0 if was_in_use => return Err(HubError::NoDatabase),
        0 => {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        VERSION => {}
        _ => return Err(HubError::Newer { found, known: VERSION }),
    }
    Ok(transaction.commit()?)
}

/// Whether there are devices, or codes for some, which carry the fingerprint of the hub's key.
pub(super) fn knows_devices(connection: &Connection) -> Result<bool, HubError> {
    let query = "SELECT EXISTS (SELECT 1 FROM device) OR EXISTS (SELECT 1 FROM code)";
    Ok(connection.query_row(query, [], |row| row.get(0))?)
}
