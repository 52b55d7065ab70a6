//! What a database that is shipped has, and a restore will warn of: rows and indexes that SQLite
//! objects to, and tables that only the application can check.
//!
//! The check must not disturb the application. It waits for no lock. A check of all rows is made only
//! of a database that is small enough: in WAL mode a reader stops no writer, in a rollback mode it
//! does. Larger ones are checked where they are restored (`densite restore --verify-only`).

use super::restore::said;
use crate::db::{Access, Through};
use crate::target::utf8;
use crate::{integrity, remedy};
use densite_sqlite::{Api, Connection};
use std::path::Path;
use std::time::Duration;

/// The largest database, in bytes, of which all rows are checked: in WAL mode and in a rollback mode.
const LARGEST: [i64; 2] = [16 << 20, 1 << 20];

/// The warnings for the database at `db`; empty if it cannot be read now.
pub(super) fn doubts(api: Api, db: &Path) -> Vec<String> {
    let connect = |access| {
        let name = utf8(db)?;
        Through::Densite.connect_to(api, (name, db), access, Duration::ZERO)
    };
    // On a database that it can only read, SQLite does not look at CHECK constraints.
    let connected = connect(Access::Write).or_else(|_| connect(Access::Read));
    connected.ok().map_or_else(Vec::new, |open| of(&open, db))
}

fn of(open: &Connection, db: &Path) -> Vec<String> {
    let mut doubts: Vec<String> = Vec::new();
    let mut tables = integrity::not_verifiable(open).unwrap_or_default();
    if is_small(open)
        && let Ok(found) = integrity::check(open, db)
    {
        if found.lines != ["ok"] {
            doubts.push(said(&found.lines, &remedy::remedies(&found.lines)));
        }
        tables = found.not_verified;
    }
    if !tables.is_empty() {
        doubts.push(format!(
            "a restore can verify pages and b-trees, but not rows and indexes of these tables, because they need their application ({}); run PRAGMA integrity_check there",
            tables.join("; ")
        ));
    }
    doubts
}

fn is_small(open: &Connection) -> bool {
    let number = |sql| open.query_i64(sql).ok().flatten();
    let mode = open.query_string("PRAGMA journal_mode").ok().flatten();
    let is_wal = mode.is_some_and(|mode| mode == "wal");
    let [in_wal, in_rollback] = LARGEST;
    let largest = if is_wal { in_wal } else { in_rollback };
    match (number("PRAGMA page_count"), number("PRAGMA page_size")) {
        (Some(pages), Some(size)) => pages.saturating_mul(size) <= largest,
        _ => false,
    }
}
