//! One file for each verb.

pub(crate) mod check;
pub(crate) mod compress;
mod converted;
pub(crate) mod decompress;
pub(crate) mod info;
pub(crate) mod sql;
