//! One file for each verb.

pub(crate) mod advise;
pub(crate) mod check;
pub(crate) mod compress;
mod converted;
pub(crate) mod decompress;
pub(crate) mod export;
pub(crate) mod info;
pub(crate) mod join;
pub(crate) mod leave;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod objects;
pub(crate) mod publish;
pub(crate) mod replicas;
pub(crate) mod replicate;
pub(crate) mod report;
pub(crate) mod restore;
mod restore_all;
mod restored;
pub(crate) mod salvage;
pub(crate) mod share;
#[cfg(feature = "shell")]
pub(crate) mod sql;
pub(crate) mod trim;
pub(crate) mod vacuum;
