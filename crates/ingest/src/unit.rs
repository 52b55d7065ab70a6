//! How a row of the log is named while it is applied.

/// One row: the record and the row in it. They are ordered as in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unit {
    pub(crate) record: u32,
    pub(crate) row: u32,
}
