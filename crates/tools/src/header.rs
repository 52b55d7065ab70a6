//! The header of a SQLite database.

pub(crate) use densite_sqlite::image::header::{HEADER_LEN, Header, is_sqlite, u32_at};
