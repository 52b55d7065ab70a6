//! Short paths for leaves of integers: keys of joins, positions of an index, rows of small tables.
//!
//! A short path is taken for a leaf whose records hold at most [`COLUMNS_MAX`] integers and NULLs
//! and nothing else. Parsing ([`EvenLeaf::parse`]) only needs cells of one size. Each path checks
//! every condition itself. It returns `None` if one fails, and the general path codes the page.
//!
//! The result is byte for byte that of the general path, because a short path accepts only pages
//! for which its result follows from the general rules. The general path (`page`, `split`,
//! `decode`) defines the format and calls into this folder; nothing here calls it. `tests`
//! compares both on random pages.
//!
//! | file | its job |
//! |---|---|
//! | `even.rs` | parses a leaf whose cells have one size, without listing the cells |
//! | `columns.rs` | splits such a leaf column by column, if all records have the same types |
//! | `rows.rs` | splits any other leaf of such records, row by row |
//! | `shape.rs`, `room.rs` | what a record's types say; where the streams of a split leaf lie |
//! | `write.rs` | decodes such a leaf |
//! | `records.rs`, `alike.rs` | write its cells, put together in registers |
//! | `path.rs` | switches the paths off and counts them, for tests |

mod alike;
mod columns;
mod even;
mod path;
mod records;
mod room;
mod rows;
mod shape;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use even::EvenLeaf;
pub(crate) use rows::split_rows;
pub(crate) use write::{Leaf, write};

/// Most columns of a record for the short paths: its serial types are one word.
const COLUMNS_MAX: usize = 8;

/// A leaf that a short path has split.
pub(crate) struct SplitLeaf {
    /// The columns of each row.
    pub(crate) columns: usize,
    /// 0 and 1 take a byte.
    pub(crate) long: bool,
}
