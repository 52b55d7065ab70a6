//! Which log the database names and how far it is applied: the tables `densite_applied`,
//! `densite_clustered` and `densite_rejects` (docs/FORMAT.md, What the database says of the log).
//!
//! `densite_applied` has one row: the log's id, and the number of the row up to which all rows are
//! applied. While later rows are applied in another order ([`crate::ClusteredLimits`]), it also has
//! that order's id, its last number, and how many of its places are done; otherwise zeros. The row
//! changes in the transaction that applies rows. It also has the [`Rate`] at which rows are applied.
//! In a member of a stream it also has the place in the stream.

use crate::database::rate::Rate;
use crate::error::refused;
use crate::schema::own_tables;
use densite_log::{LogId, Seq};
use densite_sqlite::{CompileError, Connection, Error, Result, Value, ValueRef};

/// The id of the log that the main database names.
///
/// # Errors
/// SQLite's; an error if it names none.
pub fn log_of(connection: &Connection) -> Result<LogId> {
    let position = Position::read(connection)?;
    position
        .map(|position| position.id)
        .ok_or_else(|| refused("the database names no log"))
}

/// Makes missing tables, within the connection's transaction if there is one.
pub(crate) fn make_tables(connection: &Connection) -> Result<()> {
    connection.exec(own_tables::APPLIED)
}

/// The log that a database names, and how far it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The log's id.
    pub id: LogId,
    /// All rows up to this one are applied, in this connection's current snapshot.
    pub seq: Seq,
    /// The rows behind it that are applied.
    pub clustered: Option<ClusteredPosition>,
    /// No rows are applied until `densite_resume`.
    pub is_paused: bool,
    /// The place in the stream, if the database is a member of one: then rows are applied from
    /// there, also its own.
    pub stream: Option<StreamPlace>,
}

/// How far a member has applied a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPlace {
    /// The stream's identity.
    pub identity: [u8; 16],
    /// Messages up to this sequence are applied whole.
    pub message: u64,
    /// The mark of that message.
    pub mark: u64,
    /// The number in the stream of the last row that is applied: of this message, or of the next
    /// one, which is then applied in part.
    pub row: Seq,
}

impl StreamPlace {
    /// Before the first message of the stream with this identity.
    pub fn start(identity: [u8; 16]) -> StreamPlace {
        StreamPlace {
            identity,
            message: 0,
            mark: 0,
            row: 0,
        }
    }
}

/// The progress of a clustered apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusteredPosition {
    /// The order's id in `densite_clustered`.
    pub id: i64,
    /// Its last number.
    pub last: Seq,
    /// Number of places of the order that are done.
    pub done: u32,
}

impl Position {
    /// At this row, without a clustered apply.
    pub fn at(id: LogId, seq: Seq) -> Position {
        Position {
            id,
            seq,
            clustered: None,
            is_paused: false,
            stream: None,
        }
    }

    /// The highest number that the database refers to. In a clustered apply, some rows behind
    /// `seq` are applied.
    pub fn end(&self) -> Seq {
        self.clustered.map_or(self.seq, |s| s.last.max(self.seq))
    }

    /// How many rows up to `last`, the end of the log, are not applied. Numbers that no row has
    /// count too.
    pub fn unapplied(&self, last: Seq) -> u64 {
        let done = self.clustered.map_or(0, |s| u64::from(s.done));
        last.saturating_sub(self.seq).saturating_sub(done)
    }

    /// Reads the position from the main database; `None` if it names no log.
    ///
    /// # Errors
    /// SQLite's.
    pub fn read(connection: &Connection) -> Result<Option<Position>> {
        let known =
            "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'densite_applied'";
        if connection.query_i64(known)?.is_none() {
            return Ok(None);
        }
        let mut statement = connection
            .prepare("SELECT log, seq, clustered, clustered_last, clustered_done, paused, stream, stream_message, stream_mark, stream_row FROM main.densite_applied")
            .map_err(of_an_earlier_version)?;
        if !statement.step()? {
            return Ok(None);
        }
        let id = statement
            .column(0)
            .as_bytes()
            .and_then(|b| b.try_into().ok());
        let number = |i| match statement.column(i) {
            ValueRef::Integer(n) => u64::try_from(n).ok(),
            _ => None,
        };
        let is_paused = statement.column(5).as_str() != Some("");
        let identity = statement.column(6).as_bytes();
        let stream = match identity {
            None => Some(None),
            Some(identity) => identity.try_into().ok().and_then(|identity| {
                Some(Some(StreamPlace {
                    identity,
                    message: number(7)?,
                    mark: statement.column(8).as_i64()?.cast_unsigned(),
                    row: number(9)?,
                }))
            }),
        };
        let place = number(4).and_then(|n| u32::try_from(n).ok());
        match (id, number(1), number(2), number(3), place, stream) {
            (Some(id), Some(seq), Some(clustered), Some(last), Some(done), Some(stream)) => {
                Ok(Some(Position {
                    id: LogId(id),
                    seq,
                    clustered: (clustered != 0).then_some(ClusteredPosition {
                        id: clustered.cast_signed(),
                        last,
                        done,
                    }),
                    is_paused,
                    stream,
                }))
            }
            _ => Err(refused(
                "the table densite_applied has invalid values: only Densite may change it; restore the database",
            )),
        }
    }

    /// Writes the position, within the connection's transaction, which applies this many rows.
    pub(crate) fn write(&self, connection: &Connection, rows: usize) -> Result<()> {
        let rate = Rate::read(connection).map_err(of_an_earlier_version)?;
        let mut update = connection.prepare(
            "UPDATE main.densite_applied SET seq = ?1, clustered = ?2, clustered_last = ?3, clustered_done = ?4, applied_at = ?5, applied_rate = ?6, stream_message = ?7, stream_mark = ?8, stream_row = ?9",
        )?;
        let (id, last, done) = self.clustered.map_or((0, 0, 0), |s| (s.id, s.last, s.done));
        update.bind(1, &number(self.seq))?;
        update.bind(2, &Value::Integer(id))?;
        update.bind(3, &number(last))?;
        update.bind(4, &number(done.into()))?;
        for (i, value) in (5..).zip(rate.with(rows).values()) {
            update.bind(i, &value)?;
        }
        let place = self
            .stream
            .map_or((0, 0, 0), |s| (s.message, s.mark, s.row));
        update.bind(7, &number(place.0))?;
        update.bind(8, &Value::Integer(place.1.cast_signed()))?;
        update.bind(9, &number(place.2))?;
        update.step()?;
        Ok(())
    }

    /// Makes the tables and stores the log's name. If another connection was first, its log stays.
    /// Runs within the connection's transaction if there is one.
    pub(crate) fn create(&self, connection: &Connection) -> Result<()> {
        make_tables(connection)?;
        let mut insert = connection.prepare(
            "INSERT OR IGNORE INTO main.densite_applied(id, log, seq) VALUES (1, ?1, ?2)",
        )?;
        insert.bind(1, &Value::Blob(self.id.0.to_vec()))?;
        insert.bind(2, &number(self.seq))?;
        insert.step()?;
        Ok(())
    }
}

/// The number of the last reject; 0 if there is none. If the previous log was given up, these are
/// its numbers, and the next log numbers rows above them: a reject is identified by its number
/// alone.
pub fn last_reject(connection: &Connection) -> Result<Seq> {
    of_rejects(connection, "max(seq)")
}

/// The number of rejects.
pub fn rejects(connection: &Connection) -> Result<u64> {
    of_rejects(connection, "count(*)")
}

/// An aggregate of the rejects; 0 if there is none.
fn of_rejects(connection: &Connection, aggregate: &str) -> Result<u64> {
    let known =
        "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'densite_rejects'";
    if connection.query_i64(known)?.is_none() {
        return Ok(0);
    }
    let sql = format!("SELECT {aggregate} FROM main.densite_rejects");
    let number = connection.query_i64(&sql)?;
    Ok(number.and_then(|n| u64::try_from(n).ok()).unwrap_or(0))
}

/// A number as SQLite stores it.
pub(crate) fn number(n: u64) -> Value {
    Value::Integer(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Writes all pages of Densite's tables again, within the connection's transaction.
///
/// An UPDATE that changes nothing writes nothing, so the tables are dropped and made again.
pub(crate) fn write_anew(connection: &Connection) -> Result<()> {
    // Indexes and triggers of the application are dropped with the tables, so they are made again
    // too.
    let others = connection.query_string(&format!(
        "SELECT group_concat(sql, '; ') FROM main.sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL AND tbl_name IN ('{}')",
        own_tables::INGEST.join("', '")
    ))?;
    let mut there = Vec::new();
    for name in own_tables::INGEST {
        let known = "SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?1";
        let row = connection.query_row(known, &[Value::from(name)])?;
        if let Some([Value::Text(sql), ..]) = row.as_deref() {
            there.push((name, sql.clone()));
        }
    }
    for (name, sql) in &there {
        connection.exec(&format!(
            "CREATE TEMP TABLE densite_copy_{name} AS SELECT * FROM main.{name}; DROP TABLE main.{name}; {sql}"
        ))?;
    }
    connection.exec(own_tables::APPLIED)?;
    for (name, _) in there {
        connection.exec(&format!(
            "INSERT INTO main.{name} SELECT * FROM temp.densite_copy_{name}; DROP TABLE temp.densite_copy_{name}"
        ))?;
    }
    connection.exec(&others.unwrap_or_default())
}

/// Explains an error of a table from before the first release, which had fewer columns.
fn of_an_earlier_version(e: Error) -> Error {
    if e.compile_error() != Some(CompileError::NoColumn) {
        return e;
    }
    refused(
        "the table densite_applied is of a Densite from before its first release; let that one apply everything (densite_wait), then DROP TABLE densite_applied and move the log away",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_sqlite::ffi;

    /// Tables of the crates above, and what the application made for these, too.
    #[test]
    fn all_own_tables_are_written_anew() {
        let api = densite_linked::api().expect("the linked SQLite");
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE;
        let con = Connection::open(api, ":memory:", flags, None).expect("opens");
        for sql in [
            own_tables::APPLIED,
            own_tables::PERSISTENT,
            own_tables::MEMBER,
        ] {
            con.exec(sql).expect("tables");
        }
        con.exec(
            "CREATE TABLE main.densite_joining(id INTEGER PRIMARY KEY, origin TEXT NOT NULL);
             INSERT INTO densite_joining VALUES (1, 'a'); INSERT INTO densite_skipped VALUES (7, 'b', 'c');
             CREATE INDEX by_origin ON densite_joining(origin)",
        )
        .expect("a table");
        let all = "SELECT (SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name)) || (SELECT origin FROM densite_joining) || (SELECT message FROM densite_skipped)";
        let before = con.query_string(all).expect("reads");
        write_anew(&con).expect("written");
        assert_eq!(con.query_string(all).expect("reads"), before);
        let kept = "SELECT count(*) FROM temp.sqlite_schema";
        assert_eq!(con.query_i64(kept), Ok(Some(0)), "no copy stays");
    }
}
