//! A transaction that ends with the call that begins it.

use crate::{Error, Result};
use rusqlite::Connection;

/// A transaction or a savepoint. Dropping it without a commit rolls it back.
pub(crate) struct Transaction<'c> {
    con: &'c Connection,
    /// The statement that commits it; `None` after the commit.
    commit: Option<&'static str>,
    rollback: &'static str,
}

impl<'c> Transaction<'c> {
    /// Begins a transaction with the statement `begin`.
    pub(crate) fn begin(con: &'c Connection, begin: &str) -> Result<Transaction<'c>> {
        con.execute_batch(begin)?;
        Ok(Transaction {
            con,
            commit: Some("COMMIT"),
            rollback: "ROLLBACK",
        })
    }

    /// Begins a savepoint in the caller's transaction. If there is none, begins a transaction with
    /// `begin`.
    pub(crate) fn join(con: &'c Connection, begin: &str) -> Result<Transaction<'c>> {
        if con.is_autocommit() {
            return Transaction::begin(con, begin);
        }
        con.execute_batch("SAVEPOINT densite_insert")?;
        Ok(Transaction {
            con,
            commit: Some("RELEASE densite_insert"),
            rollback: "ROLLBACK TO densite_insert; RELEASE densite_insert",
        })
    }

    pub(crate) fn commit(mut self) -> Result<()> {
        if let Some(commit) = self.commit {
            self.con.execute_batch(commit)?;
            self.commit = None;
        }
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SQLite rolls a transaction back by itself after some errors.
        if self.commit.is_some() && !self.con.is_autocommit() {
            // An error here would hide the first one, which says more.
            let _ = self.con.execute_batch(self.rollback);
        }
    }
}

/// Refuses a call that commits by itself while the caller's transaction is open.
pub(crate) fn alone(con: &Connection, doing: &'static str) -> Result<()> {
    match con.is_autocommit() {
        true => Ok(()),
        false => Err(Error::TransactionOpen { doing }),
    }
}
