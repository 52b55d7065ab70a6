//! Running SQL for a verb: opening, parameters, interruption, errors that show the place, printed
//! results.

pub(crate) mod failure;
pub(crate) mod format;
pub(crate) mod interrupt;
pub(crate) mod literal;
pub(crate) mod open;
pub(crate) mod output;
pub(crate) mod params;
pub(crate) mod pipe;
pub(crate) mod split;
