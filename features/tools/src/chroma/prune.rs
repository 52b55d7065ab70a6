//! Deletes rows from the queue.

use super::dir::ChromaDir;
use super::prune_plan::{Cut, PrunePlan, find};
use super::setting::{self, PurgeChange};
use super::sql::{Sql, text};
use crate::error::{Error, Result};
use densite_sqlite::{Connection, Value};

/// The result of a prune.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruned {
    /// The plan that was made and executed under the lock. Its `automatically_purge` is the value
    /// before the prune.
    pub plan: PrunePlan,
    /// Rows that were deleted.
    pub rows: u64,
}

/// Deletes the rows that [`super::plan()`] finds and sets `automatically_purge`, in one
/// transaction. If the caller has a transaction, the changes become part of it.
///
/// Positions and rows are read again in that transaction, because a plan can be out of date by the
/// time the user confirms it.
///
/// # Errors
/// As [`super::plan()`]; [`Error::Locked`]. The database is unchanged after an error.
pub fn prune(conn: &Connection, dir: &ChromaDir) -> Result<Pruned> {
    let sql = Sql::new(conn, dir.database());
    let (begin, commit, roll_back) = if conn.is_autocommit() {
        ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")
    } else {
        (
            "SAVEPOINT densite_prune",
            "RELEASE densite_prune",
            "ROLLBACK TO densite_prune; RELEASE densite_prune",
        )
    };
    sql.exec(begin)?;
    let done = delete(&sql, dir).and_then(|pruned| sql.exec(commit).map(|()| pruned));
    if done.is_err() {
        // The caller gets the first error. This rollback can fail because SQLite already rolled
        // back.
        let _ = conn.exec(roll_back);
    }
    done
}

fn delete(sql: &Sql<'_>, dir: &ChromaDir) -> Result<Pruned> {
    let (plan, cut) = find(sql, dir)?;
    let rows = if plan.rows == 0 {
        0
    } else {
        let newest = "SELECT max(seq_id) FROM embeddings_queue";
        let before = sql.integer(newest)?;
        let rows = u64::try_from(delete_rows(sql, &cut)?).unwrap_or(0);
        if rows != plan.rows || sql.integer(newest)? != before {
            return Err(Error::Unsupported(format!(
                "{}: pruning would delete {rows} rows of the queue instead of {}, or the newest row; nothing was changed; please report this error",
                sql.path().display(),
                plan.rows
            )));
        }
        rows
    };
    if plan.change == PurgeChange::TurnOn {
        setting::turn_on(sql)?;
    }
    Ok(Pruned { plan, rows })
}

/// One pass for all topics, because the queue has no index on the topic.
fn delete_rows(sql: &Sql<'_>, cut: &Cut) -> Result<i64> {
    const CLEAR: &str = "DROP TABLE IF EXISTS temp.densite_prune_below; DROP TABLE IF EXISTS temp.densite_prune_keep";
    sql.exec(CLEAR)?;
    sql.exec(
        "CREATE TABLE temp.densite_prune_below(topic TEXT PRIMARY KEY, below INTEGER) WITHOUT ROWID;
         CREATE TABLE temp.densite_prune_keep(seq_id INTEGER PRIMARY KEY)",
    )?;
    for (topic, below) in &cut.below {
        sql.run(
            "INSERT INTO temp.densite_prune_below VALUES (?, ?)",
            &[text(topic), Value::Integer(*below)],
        )?;
    }
    for seq in &cut.keep {
        sql.run(
            "INSERT INTO temp.densite_prune_keep VALUES (?)",
            &[Value::Integer(*seq)],
        )?;
    }
    let rows = sql.run(
        "DELETE FROM main.embeddings_queue
         WHERE seq_id < (SELECT below FROM temp.densite_prune_below b WHERE b.topic = embeddings_queue.topic)
           AND seq_id NOT IN (SELECT seq_id FROM temp.densite_prune_keep)",
        &[],
    )?;
    sql.exec(CLEAR)?;
    Ok(rows)
}
