//! The three things that a record of the log does with its rows.

/// What is done with the rows of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// New rows.
    Insert = 1,
    /// Other values for the rows of these keys.
    Update = 2,
    /// The rows of these keys go.
    Delete = 3,
}

impl Op {
    pub(crate) fn of(byte: u8) -> Option<Op> {
        match byte {
            1 => Some(Op::Insert),
            2 => Some(Op::Update),
            3 => Some(Op::Delete),
            _ => None,
        }
    }
}
