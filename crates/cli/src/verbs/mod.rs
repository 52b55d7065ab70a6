//! One file for each verb.

pub(crate) mod check;
pub(crate) mod compress;
mod converted;
pub(crate) mod decompress;
pub(crate) mod info;
mod objects;
pub(crate) mod sql;
