//! What a member does with a message of the stream that has no rows for tables.

use super::control::{Control, What};
use super::own::Own;
use crate::member::{Body, Digests, Joined, digest, guards, needed, skipped, stop};
use densite_ingest::parts::{StreamMessage, is_of_the_row, is_own, reject, tables_of};
use densite_log::{Record, Value as LogValue};
use densite_sqlite::{Code, Connection, Error, Result, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A message that is about to be applied.
pub(super) struct ControlMessage {
    control: Control,
    own: Arc<dyn Own>,
    /// The digests that the message wants.
    tables: Option<BTreeMap<String, String>>,
}

impl ControlMessage {
    /// Of this message.
    pub(super) fn of(control: Control, own: Arc<dyn Own>) -> ControlMessage {
        ControlMessage {
            control,
            own,
            tables: None,
        }
    }

    fn digests(&self) -> Option<Digests> {
        self.tables.clone().map(|tables| Digests {
            message: self.control.position.sequence,
            tables,
        })
    }

    fn judge(&self, connection: &Connection, message: u64, now: bool) -> Result<()> {
        match digest::judge(connection, self.own.origin(), message, now)? {
            Some(reason) => stop(connection, &reason),
            None => Ok(()),
        }
    }
}

impl StreamMessage for ControlMessage {
    fn prepare(&mut self, connection: &Connection) -> Result<()> {
        self.tables = match self.control.what {
            What::Body(Body::DigestsWanted)
                if digest::is_wanted(connection, self.control.position.sequence)? =>
            {
                Some(digest::compute(connection)?)
            }
            _ => None,
        };
        Ok(())
    }

    fn write(&self, connection: &Connection) -> Result<()> {
        let control = &self.control;
        let origin = Value::from(control.origin.as_str());
        match &control.what {
            What::Schema(record) => change_schema(connection, record),
            What::Body(Body::Joined(joined)) => join(connection, control, joined),
            What::Body(Body::Left) => {
                let update = "UPDATE main.densite_origins SET has_left = 1 WHERE origin = ?1";
                connection.query_row(update, &[origin]).map(drop)
            }
            What::Body(Body::DigestsWanted) => {
                if let Some(before) = digest::last_request(connection)? {
                    self.judge(connection, before, true)?;
                }
                match self.digests() {
                    Some(digests) => digest::store(connection, self.own.origin(), &digests),
                    None => Ok(()),
                }
            }
            What::Body(Body::Digests(digests)) => {
                if control.origin != self.own.origin() {
                    digest::store(connection, &control.origin, digests)?;
                }
                has_applied(connection, &control.origin, digests.message)?;
                self.judge(connection, digests.message, false)
            }
            What::Body(Body::Rows(_)) => Ok(()),
            What::Foreign(why) => {
                let message = control.position.sequence;
                skipped::note(connection, message, &control.origin, why)
            }
        }
    }

    fn done(self: Box<Self>) {
        if let Some(digests) = self.digests() {
            self.own.answer(digests);
        }
    }
}

/// A new origin gets the next number. One that joined before keeps its own.
fn join(connection: &Connection, control: &Control, joined: &Joined) -> Result<()> {
    let sql = "INSERT INTO main.densite_origins(origin, number, log, seq, applied) \
         VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM main.densite_origins), ?2, ?3, ?4) \
         ON CONFLICT (origin) DO UPDATE SET log = excluded.log, has_left = 0, applied = excluded.applied, \
         seq = CASE log WHEN excluded.log THEN max(seq, excluded.seq) ELSE excluded.seq END";
    let values = [
        Value::from(control.origin.as_str()),
        Value::Blob(control.log.0.to_vec()),
        Value::Integer(i64::try_from(control.to).unwrap_or(i64::MAX)),
        Value::Integer(joined.applied.cast_signed()),
    ];
    connection.query_row(sql, &values).map(drop)
}

/// An origin said that it has applied everything up to a message. A later message counts, also if it
/// says less: the stream can have lost messages in between.
fn has_applied(connection: &Connection, origin: &str, message: u64) -> Result<()> {
    let sql = "UPDATE main.densite_origins SET applied = ?2 WHERE origin = ?1";
    let values = [Value::from(origin), Value::Integer(message.cast_signed())];
    connection.query_row(sql, &values).map(drop)
}

/// How Densite's own tables were made.
fn own_tables(connection: &Connection) -> Result<Vec<String>> {
    let mut tables = Vec::new();
    let mut statement = connection
        .prepare("SELECT name, sql FROM main.sqlite_schema WHERE type = 'table' ORDER BY name")?;
    while statement.step()? {
        let text = |i| statement.column(i).as_str().unwrap_or_default().to_owned();
        if is_own(&text(0)) && !text(0).starts_with("sqlite_") {
            tables.push(text(1));
        }
    }
    Ok(tables)
}

/// Runs a change of the schema. If it fails, all members reject it.
fn change_schema(connection: &Connection, record: &Record) -> Result<()> {
    let Some(LogValue::Text(sql)) = record.rows.get(0, 0) else {
        return Ok(());
    };
    let sql = String::from_utf8_lossy(sql);
    let before = tables_of(connection)?;
    let own = own_tables(connection)?;
    connection.exec("SAVEPOINT densite_schema")?;
    let is_own_kept = || match own_tables(connection)? == own {
        true => Ok(()),
        // An earlier version let it in. No member that ran it would apply another message.
        false => Err(Error::new(
            Code::ERROR,
            "the statement changes a table of Densite",
        )),
    };
    let done = connection
        .exec(&sql)
        .and_then(|()| is_own_kept())
        .and_then(|()| needed::changed(connection, &before))
        .and_then(|()| guards::make(connection));
    match done {
        Ok(()) => connection.exec("RELEASE densite_schema"),
        Err(e) if is_of_the_row(&e) => {
            connection.exec("ROLLBACK TO densite_schema; RELEASE densite_schema")?;
            reject(connection, record, 0, &e.message)
        }
        Err(e) => Err(e),
    }
}
