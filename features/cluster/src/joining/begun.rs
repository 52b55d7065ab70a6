//! Joining can end at every step, by a kill or an error, and is repeated then.
//!
//! The table `densite_joining` says under which name a database began to join a stream. It is stored
//! durably before the stream gets the first message of that name. The transaction that makes the
//! database a member removes it. So the next attempt knows which messages of the stream are its own.
//! A copy of the database has another directory of the log, so it does not take them for its own.

use super::Joining;
use crate::member::message::{Body, Message};
use crate::member::sent::Last;
use crate::member::tables::{home, of_stream};
use densite_ingest::parts::refused;
use densite_log::LogId;
use densite_sqlite::{Result, Value};
use densite_stream::{Error as StreamError, Name};

/// Most attempts to append the first message of a member.
const ATTEMPTS: u32 = 5;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS main.densite_joining(id INTEGER PRIMARY KEY CHECK (id = 1), stream BLOB NOT NULL, origin TEXT NOT NULL, log BLOB NOT NULL, home INTEGER NOT NULL)";

/// What an earlier attempt noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Begun {
    /// The name in the stream.
    pub(super) origin: Name,
    /// The log of the database.
    pub(super) log: LogId,
}

impl Joining<'_> {
    /// The earlier attempt of this database to join this stream; `None` if there is none.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn begun(&self) -> Result<Option<Begun>> {
        let known =
            "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'densite_joining'";
        if self.own.query_i64(known)?.is_none() {
            return Ok(None);
        }
        let sql = "SELECT origin, log FROM main.densite_joining WHERE stream = ?1 AND home = ?2";
        let values = [
            Value::Blob(self.stream.identity().0.to_vec()),
            Value::Integer(self.home().cast_signed()),
        ];
        let row = self.own.query_row(sql, &values)?;
        let Some([Value::Text(origin), Value::Blob(log)]) = row.as_deref() else {
            return Ok(None);
        };
        let log = LogId(log.as_slice().try_into().unwrap_or_default());
        let dir = self.file.log_dir();
        let files = self.file.storage.log_dir(&dir, &self.file.path);
        let is_there = densite_log::id_in(files).ok().flatten() == Some(log);
        let origin = origin.parse().map_err(of_stream)?;
        Ok(is_there.then_some(Begun { origin, log }))
    }

    /// Notes that this database begins to join under this name, durably.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn begin(&self, begun: &Begun) -> Result<()> {
        self.own
            .exec("PRAGMA main.synchronous = FULL; BEGIN IMMEDIATE")?;
        let sql = "INSERT OR REPLACE INTO main.densite_joining(id, stream, origin, log, home) VALUES (1, ?1, ?2, ?3, ?4)";
        let values = [
            Value::Blob(self.stream.identity().0.to_vec()),
            Value::from(begun.origin.as_str()),
            Value::Blob(begun.log.0.to_vec()),
            Value::Integer(self.home().cast_signed()),
        ];
        let done = (self.own.exec(TABLE))
            .and_then(|()| self.own.query_row(sql, &values))
            .and_then(|_| self.own.exec("COMMIT"));
        if done.is_err() && !self.own.is_autocommit() {
            self.own.exec("ROLLBACK").ok();
        }
        done
    }

    /// Forgets the attempt, within the transaction that makes the database a member.
    pub(super) fn forget_begun(&self) -> Result<()> {
        self.own.exec("DROP TABLE IF EXISTS main.densite_joining")
    }

    /// Appends the message with which a member joins, behind those of earlier attempts. The name is
    /// free, or that of an earlier attempt.
    ///
    /// # Errors
    /// The stream's; an error if another database has the name meanwhile.
    pub(super) fn announce(&self, origin: &Name, joined: &Message) -> Result<u64> {
        let bytes = joined.encode().map_err(|e| refused(e.to_string()))?;
        let mut conflict = None;
        for _ in 0..ATTEMPTS {
            let last = Last::of(&*self.stream, origin).map_err(of_stream)?;
            let is_own = |(_, message): &(u64, Message)| {
                message.log == joined.log && matches!(message.body, Body::Joined(_) | Body::Left)
            };
            let is_free = last.message.as_ref().map_or(last.sequence == 0, is_own);
            if !is_free {
                return Err(self.taken(origin));
            }
            match self.stream.append(origin, last.sequence, &bytes) {
                // A message of a killed attempt can arrive late.
                Err(e @ StreamError::Conflict { .. }) => conflict = Some(e),
                done => return done.map_err(of_stream),
            }
        }
        Err(conflict.map_or_else(|| self.taken(origin), of_stream))
    }

    /// Which directory the log of this database has now; 0: it has none.
    fn home(&self) -> u64 {
        home(self.file.storage.as_ref(), &self.file.log_dir()).unwrap_or(0)
    }
}
