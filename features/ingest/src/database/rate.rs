//! How many rows are applied in a second: a figure for operators.
//!
//! It is a mean over the past with weights that fall by a factor of e in [`SPAN`]. The worker
//! stores it in `densite_applied` in each transaction, with the time, so any process can read it
//! and another worker continues it. The same weights tell what it is by now.

use densite_sqlite::{Connection, Result, Value, ValueRef};
use std::time::{Duration, SystemTime};

/// The span of the mean.
const SPAN: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rate {
    /// When it was stored, milliseconds since 1970.
    at: i64,
    /// Rows per second.
    rows: f64,
}

impl Rate {
    /// Reads it from the main database, which names a log.
    pub(crate) fn read(connection: &Connection) -> Result<Rate> {
        let mut read =
            connection.prepare("SELECT applied_at, applied_rate FROM main.densite_applied")?;
        if !read.step()? {
            return Ok(Rate::default());
        }
        let rows = match read.column(1) {
            ValueRef::Real(rows) => rows,
            ValueRef::Integer(rows) => rows as f64,
            _ => 0.0,
        };
        Ok(Rate {
            at: read.column(0).as_i64().unwrap_or(0),
            rows: if rows.is_finite() { rows.max(0.0) } else { 0.0 },
        })
    }

    /// The rate at that time, without further rows.
    fn at(self, millis: i64) -> Rate {
        let passed = millis.saturating_sub(self.at).max(0) as f64 / 1000.0;
        Rate {
            at: millis,
            rows: self.rows * (-passed / SPAN.as_secs_f64()).exp(),
        }
    }

    /// Rows per second by now, in thousandths.
    pub(crate) fn now(self) -> f64 {
        (self.at(millis()).rows * 1000.0).round() / 1000.0
    }

    /// The rate once this many rows are applied now.
    pub(crate) fn with(self, rows: usize) -> Rate {
        let now = self.at(millis());
        Rate {
            rows: now.rows + rows as f64 / SPAN.as_secs_f64(),
            ..now
        }
    }

    /// The values of its columns: `applied_at`, `applied_rate`.
    pub(crate) fn values(self) -> [Value; 2] {
        [Value::Integer(self.at), Value::Real(self.rows)]
    }
}

/// How many rows a second are applied to the main database, which names a log: a mean over about
/// the last ten seconds.
///
/// # Errors
/// SQLite's.
pub fn applied_per_second(connection: &Connection) -> Result<f64> {
    Ok(Rate::read(connection)?.now())
}

/// Milliseconds since 1970.
fn millis() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |t| i64::try_from(t.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_rows_give_their_rate() {
        let mut rate = Rate::default();
        for batch in 0..200 {
            rate = rate.at(1_000_000 + batch * 250);
            rate.rows += 1000.0 / SPAN.as_secs_f64();
        }
        assert!((3900.0..4100.0).contains(&rate.rows), "{rate:?}");
        let later = rate.at(rate.at + 10_000);
        assert!((1400.0..1500.0).contains(&later.rows), "{later:?}");
        // The clock was set back.
        assert_eq!(rate.at(0).rows, rate.rows);
    }
}
