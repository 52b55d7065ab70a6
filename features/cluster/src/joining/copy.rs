//! A copy of a member becomes a member of its own.

use super::Joining;
use super::begun::Begun;
use super::enter::Begin;
use crate::member::tables::Membership;
use densite_ingest::parts::{StreamPlace, refused};
use densite_ingest::{DatabaseLog, Position, from_log};
use densite_log::Log;
use densite_sqlite::{Result, Value};
use densite_stream::Name;

impl Joining<'_> {
    /// A copy becomes a member of its own, at the place of the original when it was copied.
    pub(super) fn copy(
        &self,
        known: Membership,
        position: Position,
        place: StreamPlace,
        is_older: bool,
    ) -> Result<Name> {
        let begun = self.begun()?;
        let origin = self.origin(begun.as_ref())?;
        self.has_messages_behind(&place)?;
        // An attempt that failed leaves an empty log, which the next one takes.
        if let Some(log) = self.log_beside(position.id)? {
            self.give_up_log(&log, &known, position, is_older)?;
        }
        let above = densite_ingest::parts::last_reject(&self.own)?;
        let (log, begin) = DatabaseLog::create(&self.file, above, &densite_log::usual)?;
        self.limit(&log)?;
        self.begin(&Begun {
            origin: origin.clone(),
            log: begin.id,
        })?;
        self.enter(&origin, |_| {
            let sql = "UPDATE main.densite_applied SET log = ?1, seq = ?2";
            let values = [
                Value::Blob(begin.id.0.to_vec()),
                Value::Integer(begin.seq.cast_signed()),
            ];
            self.own.query_row(sql, &values)?;
            Ok(Begin {
                log: begin.id,
                seq: begin.seq,
                place,
                is_empty: false,
                founds: false,
            })
        })?;
        Ok(origin)
    }

    /// Moves the log of a copy, or of an older state, away.
    fn give_up_log(
        &self,
        log: &Log,
        known: &Membership,
        position: Position,
        is_older: bool,
    ) -> Result<()> {
        let dir = self.file.log_dir();
        let mut to = dir.clone();
        to.set_file_name(format!(
            "{}-of-{}",
            dir.file_name().unwrap_or_default().to_string_lossy(),
            known.origin
        ));
        if !self.options.discard {
            let last = log.last().map_err(|e| from_log(&dir, e))?;
            if last > position.seq && is_older {
                return Err(refused(format!(
                    "{}: this older state of {} has {} rows in its log that it has not applied from the stream, which has later rows of that member, perhaps others under the same numbers: join with --discard, and then insert again those that are missing; this log stays as {}",
                    self.file.path,
                    known.origin,
                    last - position.seq,
                    to.display()
                )));
            }
            if last > position.seq {
                return Err(refused(format!(
                    "{}: this copy of {} has {} rows in its log that it had not applied from the stream; if the original is gone, join with --moved, and they are sent; otherwise the original sends them: join with --discard",
                    self.file.path,
                    known.origin,
                    last - position.seq
                )));
            }
        }
        std::fs::rename(&dir, &to).map_err(|e| {
            refused(format!(
                "{}: the log of the original cannot be moved to {}: {e}",
                dir.display(),
                to.display()
            ))
        })
    }
}
