//! `densite_replay_rejects([table])`: applies rejected rows again, after a repair.
//!
//! Each reject is one transaction of a connection like the worker's: its row is applied as the log
//! had it, and the reject is deleted. So a kill loses and repeats none. Later rows may have been
//! applied since: the order of the log is not kept.

use super::connection;
use super::outcome::Failed;
use super::plan::{Action, Plan};
use super::reject::is_of_the_row;
use crate::database::connection_spec::ConnectionSpec;
use crate::database::open_log::OpenLog;
use crate::database::paused;
use crate::database::position::Position;
use crate::error::refused;
use crate::rows::json_row;
use crate::schema::policy::OnConflict;
use crate::schema::target::Target;
use crate::waiting::patience::lock_time;
use crate::waiting::self_block::holds_main;
use densite_log::{Op, Table};
use densite_sqlite::{Connection, Result, Value, ValueRef};
use std::sync::Arc;

/// The page cache of the connection, KiB.
const CACHE_KIB: u32 = 8 << 10;

/// A row of `densite_rejects`.
struct Reject {
    seq: i64,
    table: String,
    row: String,
    op: String,
    policy: String,
}

/// Applies the rejects of one table, or of all, in the order of their numbers. Returns how many
/// rows were applied. The others stay, with their new reasons.
///
/// # Errors
/// SQLite's: rows before the error were applied. An error if this connection has a transaction open
/// on main, which would keep the rows from being applied.
pub(crate) fn replay(open: &OpenLog, caller: &Connection, given: &[ValueRef<'_>]) -> Result<Value> {
    let only = match given {
        [] | [ValueRef::Null] => None,
        [name] => name.as_str(),
        _ => None,
    };
    if only.is_none() && !matches!(given, [] | [ValueRef::Null]) {
        return Err(refused(
            "densite_replay_rejects takes a table's name, or nothing for all tables",
        ));
    }
    if holds_main(caller) {
        return Err(refused(
            "densite_replay_rejects: this connection has a transaction open on main; end it first",
        ));
    }
    let spec = ConnectionSpec::of(caller, &open.file().path);
    let own = connection::open(&spec, CACHE_KIB)?;
    own.set_busy_timeout(lock_time(caller)?)?;
    match Position::read(&own)? {
        Some(position) if position.is_paused => return Err(paused::reason(&own)?),
        Some(position) if position.stream.is_some() => {
            return Err(refused(
                "densite_replay_rejects: this database is a member of a stream, and the others would not have the row; insert it into the ingest table again, and delete the reject",
            ));
        }
        _ => {}
    }
    let only = only.map_or(Value::Null, Value::from);
    let (mut applied, mut after) = (0, i64::MIN);
    while let Some(reject) = next(&own, &only, after)? {
        after = reject.seq;
        applied += i64::from(again(&own, &reject)?);
    }
    Ok(Value::Integer(applied))
}

/// The first reject behind a number.
fn next(own: &Connection, only: &Value, after: i64) -> Result<Option<Reject>> {
    let sql = "SELECT seq, \"table\", \"row\", op, on_conflict FROM main.densite_rejects \
               WHERE seq > ?1 AND (?2 IS NULL OR \"table\" = ?2 COLLATE NOCASE) ORDER BY seq LIMIT 1";
    let row = own.query_row(sql, &[Value::Integer(after), only.clone()])?;
    Ok(row.and_then(|row| match row.as_slice() {
        [
            Value::Integer(seq),
            Value::Text(table),
            Value::Text(row),
            Value::Text(op),
            Value::Text(policy),
        ] => Some(Reject {
            seq: *seq,
            table: table.clone(),
            row: row.clone(),
            op: op.clone(),
            policy: policy.clone(),
        }),
        _ => None,
    }))
}

/// Applies a reject and deletes it, or notes why it is refused. Returns whether it was applied.
fn again(own: &Connection, reject: &Reject) -> Result<bool> {
    own.exec("BEGIN IMMEDIATE")?;
    let delete = "DELETE FROM main.densite_rejects WHERE seq = ?1";
    let deleted = own.query_row(delete, &[Value::Integer(reject.seq)]);
    let done = match deleted {
        // Another connection was first.
        Ok(_) if own.changes() == 0 => {
            roll_back(own);
            return Ok(false);
        }
        Ok(_) => apply(own, reject).and_then(|()| Ok(own.exec("COMMIT")?)),
        Err(e) => Err(Failed::Other(e)),
    };
    if done.is_err() {
        roll_back(own);
    }
    let reason = match done {
        Ok(()) => return Ok(true),
        Err(Failed::Poison(_, reason)) => reason,
        Err(Failed::Other(e)) if is_of_the_row(&e) => e.message,
        Err(Failed::Other(e) | Failed::Commit(e)) => return Err(e),
        Err(_) => return Ok(false),
    };
    let update = "UPDATE main.densite_rejects SET error = ?2, at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE seq = ?1";
    own.query_row(update, &[Value::Integer(reject.seq), Value::Text(reason)])?;
    Ok(false)
}

fn roll_back(own: &Connection) {
    if !own.is_autocommit() {
        own.exec("ROLLBACK").ok();
    }
}

fn apply(own: &Connection, reject: &Reject) -> std::result::Result<(), Failed> {
    let refuse = |reason: &str| Failed::Poison(0, reason.to_owned());
    let target = Target::read(own, &reject.table)?;
    let target = target.ok_or_else(|| refuse(&format!("there is no table {}", reject.table)))?;
    let (table, op, values) = row(&target, reject).map_err(|why| refuse(&why))?;
    let mut plan = Plan::new(own, &table, op)?;
    if let Action::Reject(reason) = &plan.action {
        return Err(refuse(reason));
    }
    let values = || values.iter().map(Value::as_ref);
    let found = plan.run(own, values())?;
    if !found && !plan.is_passed_over(own, values())? {
        return Err(refuse("there is no row with this key to update"));
    }
    if own.is_autocommit() {
        return Err(refuse("a trigger ended the transaction"));
    }
    Ok(())
}

/// The row as the log had it: the table, the operation, and the values.
fn row(
    target: &Target,
    reject: &Reject,
) -> std::result::Result<(Arc<Table>, Op, Vec<Value>), String> {
    let op = match reject.op.as_str() {
        "insert" => Op::Insert,
        "update" => Op::Update,
        "delete" => Op::Delete,
        other => return Err(format!("op is {other}; it is insert, update or delete")),
    };
    let policy = OnConflict::parse(&reject.policy).map_err(|e| e.message)?;
    let mut object = json_row::parsed(&reject.row)?;
    let mut columns = Vec::new();
    for place in target.log_order() {
        let Some(column) = target.columns.get(place) else {
            continue;
        };
        let named = (object.iter()).position(|(name, _)| name.eq_ignore_ascii_case(&column.name));
        if let Some(named) = named {
            let (_, value) = object.swap_remove(named);
            let value = json_row::value(value, column.affinity.is_numeric())?;
            columns.push((column.name.clone(), value));
        }
    }
    if let Some((name, _)) = object.first() {
        let table = &target.name;
        return Err(format!(
            "table {table} has no column {name} that can be set"
        ));
    }
    let keys = target.key.as_ref().map_or(0, |key| key.columns.len());
    let keys = keys.min(columns.len());
    let names = columns.iter().map(|(name, _)| name.clone());
    let table = Table::new(target.name.clone(), names, keys, policy.note());
    let table = table.map_err(|e| e.to_string())?;
    Ok((
        table,
        op,
        columns.into_iter().map(|(_, value)| value).collect(),
    ))
}
