//! The house rules: what documents name exists, links lead somewhere, modules use each other in one direction.

mod architecture;
mod links;
mod modules;
mod promises;
