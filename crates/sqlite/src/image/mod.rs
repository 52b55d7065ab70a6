//! The bytes of a SQLite database that Densite parses itself: the header of page 1 and the
//! freelist.

pub mod freelist;
pub mod header;

pub use freelist::{Freelist, PageSet};
pub use header::Header;
