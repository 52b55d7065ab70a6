//! What the codec must know about the database of a page.

/// Where a page stands in its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageContext {
    /// Its number; page 1 begins with the database header.
    pub number: u32,
    /// An upper bound of the number of pages of the database when this page becomes part of it; see
    /// [`crate::scrub()`].
    pub pages: u32,
    /// Reserved bytes at the end of each page, which SQLite does not use.
    pub reserved: usize,
}
