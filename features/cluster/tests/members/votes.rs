//! A table of votes that members write.

use super::{Cluster, ingest};
use crate::common;
use rusqlite::Connection;

pub(super) const SCHEMA: &str = "CREATE TABLE vote(id INTEGER PRIMARY KEY, n INT)";

/// Opens the database of a member.
pub(super) fn open(cluster: &Cluster, name: &str) -> Connection {
    let con = common::open(&cluster.path(name));
    ingest(&con, "vote", "");
    con
}

/// Writes rows with these ids, each in a transaction.
pub(super) fn write(con: &Connection, ids: std::ops::Range<i64>) {
    for id in ids {
        con.execute("INSERT INTO vote_in VALUES (?1, ?1)", [id])
            .expect("a row");
    }
}
