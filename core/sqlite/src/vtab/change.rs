//! xUpdate: a change of a row.

use crate::value::ValueRef;
use std::ffi::c_int;

/// A statement's conflict clause: what to do about rows that break a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// The transaction is rolled back.
    Rollback,
    /// The row is skipped.
    Ignore,
    /// The statement ends, and its changes so far stay.
    Fail,
    /// The statement is undone: the default.
    Abort,
    /// Conflicting rows are deleted.
    Replace,
}

impl Conflict {
    pub(super) fn of(code: c_int) -> Conflict {
        match code {
            1 => Conflict::Rollback,
            2 => Conflict::Ignore,
            3 => Conflict::Fail,
            5 => Conflict::Replace,
            _ => Conflict::Abort,
        }
    }
}

/// A row to insert, update or delete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change<'a> {
    /// A new row.
    Insert {
        /// Its row id; NULL lets the table choose.
        row_id: ValueRef<'a>,
        /// Its columns, including hidden ones.
        columns: &'a [ValueRef<'a>],
        /// The statement's conflict clause.
        conflict: Conflict,
    },
    /// New contents of a row.
    Update {
        /// Its row id; the primary key of a table WITHOUT ROWID.
        row_id: ValueRef<'a>,
        /// Its new row id.
        new_row_id: ValueRef<'a>,
        /// Its columns, including hidden ones and those that stay the same.
        columns: &'a [ValueRef<'a>],
        /// The statement's conflict clause.
        conflict: Conflict,
    },
    /// A row to delete.
    Delete {
        /// Its row id; the primary key of a table WITHOUT ROWID.
        row_id: ValueRef<'a>,
    },
}

impl<'a> Change<'a> {
    /// Parses xUpdate's arguments.
    pub(super) fn of(values: &'a [ValueRef<'a>], conflict: Conflict) -> Option<Change<'a>> {
        Some(match values {
            [row_id] => Change::Delete { row_id: *row_id },
            [ValueRef::Null, row_id, columns @ ..] => Change::Insert {
                row_id: *row_id,
                columns,
                conflict,
            },
            [row_id, new_row_id, columns @ ..] => Change::Update {
                row_id: *row_id,
                new_row_id: *new_row_id,
                columns,
                conflict,
            },
            [] => return None,
        })
    }
}
