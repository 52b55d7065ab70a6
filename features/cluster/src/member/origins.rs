//! How far the rows of each origin of a stream are applied: the table `densite_origins`.
//!
//! Messages of an origin follow each other without gaps. A stream that lost messages gets them
//! again, and a member that has applied them passes them over.

use super::NO_LOG;
use densite_log::{LogId, Seq};
use densite_sqlite::{Connection, Result, Value};
use std::collections::BTreeMap;

/// For each origin, its log and the last row of it that is applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origins(BTreeMap<String, (LogId, Seq)>);

impl Origins {
    /// Reads them from the main database of a member.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn read(connection: &Connection) -> Result<Origins> {
        let mut origins = Origins::default();
        let mut statement =
            connection.prepare("SELECT origin, log, seq FROM main.densite_origins")?;
        while statement.step()? {
            let name = statement.column(0).as_str().unwrap_or_default().to_owned();
            let log = statement.column(1).as_bytes();
            let log = log.and_then(|log| log.try_into().ok()).unwrap_or_default();
            let seq = statement.column(2).as_i64().unwrap_or(0);
            origins.set(&name, LogId(log), u64::try_from(seq).unwrap_or(0));
        }
        Ok(origins)
    }

    /// Writes those that are here, within the connection's transaction.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn write(&self, connection: &Connection) -> Result<()> {
        for (origin, (log, seq)) in &self.0 {
            // Messages that are read again after a loss move nothing backwards.
            let update = "UPDATE main.densite_origins SET log = ?2, seq = CASE WHEN log IN (?2, zeroblob(16)) THEN max(seq, ?3) ELSE ?3 END WHERE origin = ?1";
            let values = [
                Value::from(origin.as_str()),
                Value::Blob(log.0.to_vec()),
                Value::Integer(i64::try_from(*seq).unwrap_or(i64::MAX)),
            ];
            connection.query_row(update, &values)?;
        }
        Ok(())
    }

    /// The log of an origin, and its last applied row.
    pub(crate) fn get(&self, origin: &str) -> Option<(LogId, Seq)> {
        self.0.get(origin).copied()
    }

    /// The last applied row of an origin's log; `None` if the origin had another log, or is unknown.
    pub(crate) fn applied(&self, origin: &str, log: LogId) -> Option<Seq> {
        let (known, seq) = self.get(origin)?;
        (known == log || known == NO_LOG).then_some(seq)
    }

    /// Rows of an origin are applied up to this one. A message that is read again after a loss moves
    /// nothing backwards.
    pub(crate) fn set(&mut self, origin: &str, log: LogId, seq: Seq) {
        match self.0.get_mut(origin) {
            Some(known) if known.0 == log || known.0 == NO_LOG => {
                *known = (log, known.1.max(seq));
            }
            Some(known) => *known = (log, seq),
            None => drop(self.0.insert(origin.to_owned(), (log, seq))),
        }
    }
}
