//! What the preupdate hook of older SQLite libraries reports wrongly. It is found by a test of the
//! library, once for each, because distributions repair old versions.

use super::{Observation, Observer, RowChange, RowOp, library_of};
use crate::Result;
use crate::api::Api;
use crate::connection::Connection;
use crate::ffi;
use crate::value::{Value, ValueRef};
use densite_disk::sync::Mutex;
use std::sync::Arc;

/// Old values that the hook of a library reports wrongly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PreupdateFaults {
    /// NULL in place of the default of a column that was added after the row was stored. SQLite
    /// before 3.47.
    pub defaults: bool,
    /// In a table WITHOUT ROWID whose key does not come first, affinities and defaults of other
    /// columns. SQLite before 3.49.
    pub order: bool,
}

/// The faults of a library; `default()` if it has no hook.
///
/// # Errors
/// SQLite's, of a database in memory.
pub fn preupdate_faults(api: Api) -> Result<PreupdateFaults> {
    let Some(library) = library_of(api).filter(|library| library.functions.is_some()) else {
        return Ok(PreupdateFaults::default());
    };
    if let Some(faults) = library.faults.get() {
        return Ok(*faults);
    }
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE;
    let connection = Connection::open(api, ":memory:", flags, None)?;
    let added = old_row(
        &connection,
        "CREATE TABLE t(k INTEGER PRIMARY KEY); INSERT INTO t VALUES (1); ALTER TABLE t ADD COLUMN c DEFAULT 7",
        2,
    )?;
    // The key is stored first, where a REAL column is declared. A REAL has no room for its digits.
    let ordered = old_row(
        &connection,
        "CREATE TABLE t(x REAL, k INTEGER PRIMARY KEY, n) WITHOUT ROWID; INSERT INTO t VALUES (1.5, 9007199254740993, 3)",
        3,
    )?;
    let faults = PreupdateFaults {
        defaults: added != [Value::Integer(1), Value::Integer(7)],
        order: ordered
            != [
                Value::Real(1.5),
                Value::Integer(9_007_199_254_740_993),
                Value::Integer(3),
            ],
    };
    Ok(*library.faults.get_or_init(|| faults))
}

/// The values that the hook reports for a row of the table `t` when it is deleted.
fn old_row(connection: &Connection, schema: &str, columns: usize) -> Result<Vec<Value>> {
    connection.exec(schema)?;
    let seen = Arc::new(Seen {
        columns,
        row: Mutex::default(),
    });
    let observation = Observation::begin(connection, seen.clone(), true)?;
    connection.exec("DELETE FROM t")?;
    observation.check(connection)?;
    drop(observation);
    connection.exec("DROP TABLE t")?;
    Ok(std::mem::take(&mut seen.row.lock()))
}

struct Seen {
    columns: usize,
    row: Mutex<Vec<Value>>,
}

impl Observer for Seen {
    fn changes(&self, change: &RowChange<'_>) {
        if change.op() == RowOp::Delete {
            let value = |column| change.before(column).map(ValueRef::to_owned);
            let values = (0..self.columns).filter_map(|column| value(column).ok());
            *self.row.lock() = values.collect();
        }
    }
}
