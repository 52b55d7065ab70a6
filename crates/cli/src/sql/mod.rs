//! Splits SQL text into statements, and formats their results.

pub(crate) mod format;
pub(crate) mod split;
