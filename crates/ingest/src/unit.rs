//! A reference to a row of the log while it is applied.

/// One row: the index of its record, and its index in the record. Ordered as in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unit {
    pub(crate) record: u32,
    pub(crate) row: u32,
}
