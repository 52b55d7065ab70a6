//! The house rules: names in documents exist, links lead to files, and modules have no dependency
//! cycles.

mod architecture;
mod crates;
mod links;
mod modules;
mod names;
mod packages;
mod promises;
mod source;
mod waits;
