//! What SQLite passes to a virtual table: xFilter's arguments, and a row that xUpdate changes.

use crate::api::Api;
use crate::ffi::{self, RawValue};
use crate::value::ValueRef;
use std::ffi::c_int;

/// The values that a scan starts with. Each value is read from SQLite on demand, because a joined
/// table gets some for every row.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    api: Api,
    values: &'a [*mut RawValue],
}

/// The number of arguments up to which [`Arguments::with`] allocates no memory.
const FEW: usize = 8;

impl<'a> Arguments<'a> {
    /// `n` values of a library.
    ///
    /// # Safety
    /// `values` are `n` values of that library, alive and unchanged for `'a`.
    #[inline]
    pub(super) unsafe fn new(api: Api, n: c_int, values: *mut *mut RawValue) -> Arguments<'a> {
        let values = match usize::try_from(n) {
            // SAFETY: the caller guarantees it.
            Ok(n) if n > 0 && !values.is_null() => unsafe {
                std::slice::from_raw_parts(values.cast_const(), n)
            },
            _ => &[],
        };
        Arguments { api, values }
    }

    /// The number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no values.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A value; 0 is the first. NULL if there is no such value.
    #[inline]
    pub fn get(&self, index: usize) -> ValueRef<'a> {
        let value = self.values.get(index);
        // SAFETY: alive and unchanged, as the caller of `new` guarantees.
        value.map_or(ValueRef::Null, |value| unsafe {
            ValueRef::from_raw(self.api, *value)
        })
    }

    /// A value, if it is an integer. For callers that expect one: other types are not read.
    #[inline]
    pub fn integer(&self, index: usize) -> Option<i64> {
        let (value, t) = (*self.values.get(index)?, self.api.raw());
        // SAFETY: alive and unchanged, as the caller of `new` guarantees.
        unsafe { ((t.value_type)(value) == ffi::INTEGER).then(|| (t.value_int64)(value)) }
    }

    /// A value, if it is a floating-point number.
    #[inline]
    pub fn real(&self, index: usize) -> Option<f64> {
        let (value, t) = (*self.values.get(index)?, self.api.raw());
        // SAFETY: as above.
        unsafe { ((t.value_type)(value) == ffi::FLOAT).then(|| (t.value_double)(value)) }
    }

    /// All values in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = ValueRef<'a>> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Calls a function with all values.
    #[inline]
    pub fn with<R>(&self, body: impl FnOnce(&[ValueRef<'a>]) -> R) -> R {
        let mut few = [ValueRef::Null; FEW];
        match few.get_mut(..self.len()) {
            Some(few) => {
                for (to, value) in few.iter_mut().zip(self.iter()) {
                    *to = value;
                }
                body(few)
            }
            None => body(&self.iter().collect::<Vec<ValueRef<'a>>>()),
        }
    }
}

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
