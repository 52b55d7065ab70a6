//! A reference to a row of the log while it is applied, and the name of its operation.

use densite_log::Op;

/// One row: the index of its record, and its index in the record. Ordered as in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unit {
    pub(crate) record: u32,
    pub(crate) row: u32,
}

/// The operation, as SQL shows it.
pub(crate) fn op_name(op: Op) -> &'static str {
    match op {
        Op::Insert => "insert",
        Op::Update => "update",
        Op::Delete => "delete",
    }
}
