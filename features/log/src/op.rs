//! The three operations of a batch.

/// The operation of a batch on its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// New rows.
    Insert = 1,
    /// New values for the rows of these keys.
    Update = 2,
    /// Deletes the rows of these keys.
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
