//! What a page has to be told of its database.

/// Where a page stands in its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageContext {
    /// Its number; page 1 begins with the database header.
    pub number: u32,
    /// Pages that the database has, or may have by the time this page counts; see [`crate::scrub()`].
    pub pages: u32,
    /// Bytes at the end of each page that SQLite leaves to others.
    pub reserved: usize,
}
