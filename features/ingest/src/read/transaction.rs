//! Recognizes the transaction of an earlier read.
//!
//! SQLite reports the end of a transaction only to virtual tables that it has written, and a write
//! resets `changes()`. So the first read of a transaction writes a unique number to a temporary
//! table, as a blob, which changes no count. Later reads belong to the same transaction if the
//! number is still there and uncommitted. COMMIT changes the data version of the temporary
//! database, ROLLBACK the number. ROLLBACK TO changes the number only if it also discards the first
//! read.

use densite_sqlite::{Connection, Result, TxnState};
use std::sync::atomic::{AtomicU64, Ordering};

/// It has one row, whose blob is the number of the last transaction that has read.
const TABLE: &std::ffi::CStr = c"densite_transaction";

static NEXT: AtomicU64 = AtomicU64::new(1);

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transaction {
    number: u64,
    version: u32,
}

/// Makes the table if the connection has none. SQLite counts no inserted row for it.
pub(crate) fn make_table(connection: &Connection) -> Result<()> {
    connection
        .exec("CREATE TEMP TABLE IF NOT EXISTS densite_transaction AS SELECT zeroblob(8) AS number")
}

/// The query for the number that [`Transaction::is_current`] compares.
pub(crate) const NUMBER: &str = "SELECT number FROM temp.densite_transaction";

impl Transaction {
    /// Savepoints the current transaction, which was begun explicitly; `None` if the number cannot be
    /// written.
    pub(crate) fn mark(connection: &Connection) -> Option<Transaction> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = (c"temp", TABLE, c"number");
        let marked = connection.write_blob(place, 1, &number.to_le_bytes());
        marked.ok()?;
        let version = connection.data_version(c"temp")?;
        Some(Transaction { number, version })
    }

    /// Whether the connection is still in this transaction. `number` runs [`NUMBER`].
    pub(crate) fn is_current(
        self,
        connection: &Connection,
        number: impl FnOnce() -> Result<Vec<u8>>,
    ) -> bool {
        !connection.is_autocommit()
            && connection.txn_state(Some(c"temp")) == TxnState::Write
            && connection.data_version(c"temp") == Some(self.version)
            && number().is_ok_and(|number| number == self.number.to_le_bytes())
    }
}
