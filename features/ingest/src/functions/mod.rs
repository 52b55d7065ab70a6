//! The SQL functions of ingest: in this file those for subscribers, pruning and settings. Triggers
//! and views cannot call them, because they act beyond the database.

mod log_table;
mod log_wait;
mod pause;
mod persistent_tables;
mod status;
mod wait_functions;

pub use log_table::{Entry, entries};
pub(crate) use persistent_tables::make as make_persistent_tables;

use crate::apply;
use crate::changes;
use crate::database::durable;
use crate::error::refused;
use crate::log::database_log::DatabaseLog;
use crate::vtab::session::Session;
use densite_log::{Begin, Config};
use densite_sqlite::{Connection, Result, Value, ValueRef, create_function, ffi};
use std::sync::Arc;

/// Adds the functions to a connection.
pub(crate) fn create(connection: &Connection, session: &Arc<Session>) -> Result<()> {
    log_table::create(connection, session)?;
    log_wait::create(connection, session)?;
    status::create(connection, session)?;
    wait_functions::create(connection, session)?;
    let flags = ffi::DIRECTONLY;
    // The session keeps the log open between calls.
    let of = |session: &Arc<Session>| {
        let session = Arc::clone(session);
        move |connection: &Connection| session.existing_log(connection)
    };
    let own = Arc::clone(session);
    create_function(
        connection,
        "densite_subscribe",
        -1,
        flags,
        move |connection, given| subscribe(&own, connection, given),
    )?;
    let database_log = of(session);
    create_function(
        connection,
        "densite_ack",
        2,
        flags,
        move |connection, given| {
            let (Some(name), Some(seq)) = (text(given, 0), given.get(1).and_then(|v| v.as_i64()))
            else {
                return Err(refused(
                    "densite_ack wants a subscriber's name and a sequence number, as in densite_ack('indexer', 120)",
                ));
            };
            refuse_own(name)?;
            let seq = u64::try_from(seq)
                .map_err(|_| refused(format!("densite_ack: {seq} is no sequence number; give the number of the last row that is processed")))?;
            let database_log = database_log(connection)?;
            let at = database_log
                .log()
                .ack(name, seq)
                .map_err(|e| database_log.failed(e))?;
            Ok(Value::Integer(at as i64))
        },
    )?;
    let database_log = of(session);
    create_function(
        connection,
        "densite_unsubscribe",
        1,
        flags,
        move |connection, given| {
            let name = text(given, 0).ok_or_else(|| {
                refused("densite_unsubscribe wants a subscriber's name, as in densite_unsubscribe('indexer')")
            })?;
            refuse_own(name)?;
            let database_log = database_log(connection)?;
            database_log
                .log()
                .unsubscribe(name)
                .map_err(|e| database_log.failed(e))?;
            Ok(Value::Null)
        },
    )?;
    let database_log = of(session);
    create_function(
        connection,
        "densite_prune",
        0,
        flags,
        move |connection, _| {
            let database_log = database_log(connection)?;
            let durable = durable::position_on(connection, database_log.open().storage().as_ref());
            let durable = database_log.open().sync_failed().record(durable)?;
            if database_log.open().sync_failed().has_failed() {
                return Err(refused(format!(
                    "{}: a sync of the database failed, so written data may be lost; nothing is pruned until the system restarts, or until {} is removed and every process that got the error has closed the database",
                    database_log.open().file().path,
                    database_log.open().sync_failed().path().display()
                )));
            }
            let pruned = database_log
                .log()
                .prune(durable)
                .map_err(|e| database_log.failed(e))?;
            Ok(Value::Integer(pruned.bytes as i64))
        },
    )?;
    // For the libraries of the project: rows that are appended by a statement that reads.
    let own = Arc::clone(session);
    create_function(
        connection,
        "densite_ids_later",
        1,
        flags,
        move |_, given| {
            own.set_needs_no_ids(given.first().and_then(|v| v.as_i64()) == Some(1));
            Ok(Value::Null)
        },
    )?;
    let database_log = of(session);
    create_function(
        connection,
        "densite_replay_rejects",
        -1,
        flags,
        move |connection, given| apply::replay(database_log(connection)?.open(), connection, given),
    )?;
    let own = Arc::clone(session);
    create_function(
        connection,
        "densite_pause",
        1,
        flags,
        move |connection, given| {
            let database_log = own.existing_log(connection)?;
            pause::pause(&own, &database_log, connection, given)
        },
    )?;
    let own = Arc::clone(session);
    create_function(
        connection,
        "densite_resume",
        1,
        flags,
        move |connection, given| {
            let database_log = own.existing_log(connection)?;
            pause::resume(&database_log, connection, given)
        },
    )?;
    let own = Arc::clone(session);
    create_function(
        connection,
        "densite_config",
        -1,
        flags,
        move |connection, given| match given.split_first() {
            Some((name, given)) if name.as_str() == Some("ingest") => {
                persistent_tables::config(&own, connection, given)
            }
            Some((name, given)) if name.as_str() == Some("changes") => {
                changes::config(connection, given)
            }
            Some((name, given)) if name.as_str() == Some("changes_max_retained_bytes") => {
                changes::config_max_bytes(connection, given)
            }
            _ => config(|| own.existing_log(connection), given),
        },
    )
}

/// Refuses the names of Densite's own subscribers.
fn refuse_own(name: &str) -> Result<()> {
    match name.starts_with("densite_") {
        true => Err(refused(format!(
            "{name} is a name of Densite's own; choose another one"
        ))),
        false => Ok(()),
    }
}

fn text<'a>(given: &[ValueRef<'a>], i: usize) -> Option<&'a str> {
    given.get(i).and_then(|v| v.as_str())
}

fn subscribe(session: &Session, connection: &Connection, given: &[ValueRef<'_>]) -> Result<Value> {
    let (name, from) = match given {
        [name] => (name.as_str(), Some("now")),
        [name, from] => (name.as_str(), from.as_str()),
        _ => (None, None),
    };
    let begin = match from {
        Some("now") => Some(Begin::Now),
        Some("start") => Some(Begin::Start),
        _ => None,
    };
    let (Some(name), Some(begin)) = (name, begin) else {
        return Err(refused(
            "densite_subscribe wants a name, and then 'start' or 'now' (the default), as in densite_subscribe('indexer', 'start')",
        ));
    };
    refuse_own(name)?;
    let database_log = DatabaseLog::open_or_create(connection, session.storage())?;
    let at = database_log.log().subscribe(name, begin);
    Ok(Value::Integer(
        at.map_err(|e| database_log.failed(e))? as i64
    ))
}

/// Reads or writes a setting.
fn config(
    database_log: impl FnOnce() -> Result<Arc<DatabaseLog>>,
    given: &[ValueRef<'_>],
) -> Result<Value> {
    let (name, value) = match given {
        [name] => (name.as_str(), None),
        [name, value] => (name.as_str(), Some(*value)),
        _ => (None, None),
    };
    let setting = match name {
        Some("auto_prune") => Setting::AutoPrune,
        Some("max_unapplied_bytes") => Setting::Unapplied,
        Some("retain_bytes") => Setting::Retain,
        Some("max_retained_bytes") => Setting::Retained,
        _ => {
            return Err(refused(
                "densite_config wants 'auto_prune', 'max_unapplied_bytes', 'retain_bytes', 'max_retained_bytes', 'changes_max_retained_bytes', 'ingest' or 'changes', and then a value to set it",
            ));
        }
    };
    let database_log = database_log()?;
    let now = match value {
        None => database_log.log().config(),
        Some(value) => {
            let value = setting.checked(value)?;
            database_log
                .log()
                .set_config(|config| setting.set(config, value))
        }
    };
    let now = now.map_err(|e| database_log.failed(e))?;
    Ok(Value::Integer(setting.of(&now)))
}

#[derive(Clone, Copy)]
enum Setting {
    AutoPrune,
    Unapplied,
    Retain,
    Retained,
}

impl Setting {
    fn checked(self, value: ValueRef<'_>) -> Result<u64> {
        let number = value.as_i64().and_then(|n| u64::try_from(n).ok());
        match (self, number) {
            (Setting::AutoPrune, Some(n @ (0 | 1))) => Ok(n),
            (Setting::AutoPrune, _) => Err(refused("auto_prune is 0 or 1")),
            (_, Some(n)) => Ok(n),
            (Setting::Unapplied, None) => Err(refused(
                "max_unapplied_bytes is a number of bytes, 0 for no limit",
            )),
            (Setting::Retained, None) => Err(refused(
                "max_retained_bytes is a number of bytes, 0 for no limit",
            )),
            (Setting::Retain, None) => Err(refused("retain_bytes is a number of bytes, 0 or more")),
        }
    }

    fn set(self, config: &mut Config, value: u64) {
        match self {
            Setting::AutoPrune => config.auto_prune = value == 1,
            Setting::Unapplied => config.max_unapplied_bytes = value,
            Setting::Retain => config.retain_bytes = value,
            Setting::Retained => config.max_retained_bytes = value,
        }
    }

    fn of(self, config: &Config) -> i64 {
        match self {
            Setting::AutoPrune => i64::from(config.auto_prune),
            Setting::Unapplied => config.max_unapplied_bytes as i64,
            Setting::Retain => config.retain_bytes as i64,
            Setting::Retained => config.max_retained_bytes as i64,
        }
    }
}
