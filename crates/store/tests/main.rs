//! The integration tests of this crate, in one program: it is linked once.

mod attempts;
mod beside;
mod born;
mod common;
mod crash;
mod dictionary_numbers;
mod failed_commit;
mod failed_sync;
mod lanes;
mod learned;
mod long_trailer;
mod merge;
mod merge_cost;
mod merge_model;
mod model;
mod overwritten;
mod publishing;
mod scan;
mod share;
mod sparse;
mod turns;
