//! xUpdate: a row that is to change.

use crate::value::ValueRef;
use std::ffi::c_int;

/// What a statement wants done about rows that break a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// The transaction ends.
    Rollback,
    /// The row is passed over.
    Ignore,
    /// The statement ends, and what it did stays.
    Fail,
    /// The statement is undone: the default.
    Abort,
    /// What is in the way goes.
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

/// A row that is inserted, updated or deleted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change<'a> {
    /// A new row.
    Insert {
        /// Its row id, or NULL: the table chooses.
        row_id: ValueRef<'a>,
        /// Its columns, hidden ones included.
        columns: &'a [ValueRef<'a>],
        /// The statement's conflict clause.
        conflict: Conflict,
    },
    /// Another content of a row.
    Update {
        /// Which; the primary key of a table WITHOUT ROWID.
        row_id: ValueRef<'a>,
        /// What that is from now on.
        new_row_id: ValueRef<'a>,
        /// Its columns, hidden ones included, also those that stay the same.
        columns: &'a [ValueRef<'a>],
        /// The statement's conflict clause.
        conflict: Conflict,
    },
    /// A row goes.
    Delete {
        /// Which; the primary key of a table WITHOUT ROWID.
        row_id: ValueRef<'a>,
    },
}

impl<'a> Change<'a> {
    /// From xUpdate's arguments.
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
