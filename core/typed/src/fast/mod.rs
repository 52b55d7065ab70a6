//! Short paths for leaves of integers: keys of joins, positions of an index, rows of small tables
//! (docs/decisions/typed-codec.md, Pages of integers).
//!
//! A short path serves a leaf whose records hold at most [`COLUMNS_MAX`] integers and NULLs and
//! nothing else. It checks every condition itself, and returns `None` if one fails; then the
//! general path (`page`, `split`, `decode`) codes the page. That path defines the format and calls
//! into this folder; nothing here calls it. `tests` compares both on random pages.

mod even;
mod path;
mod room;
mod shape;
mod split_columns;
mod split_rows;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use even::EvenLeaf;
pub(crate) use split_rows::split_rows;
pub(crate) use write::{Leaf, Work, write};

/// Most columns of a record for the short paths: its serial types are one word.
const COLUMNS_MAX: usize = 8;

/// A leaf that a short path has split.
pub(crate) struct SplitLeaf {
    /// The columns of each row.
    pub(crate) columns: usize,
    /// 0 and 1 take a byte.
    pub(crate) long: bool,
}
