//! The integration tests of this crate, in one program: it is linked once.

mod attempts;
mod beside;
mod born;
mod chains;
mod common;
mod crash;
mod dictionary_numbers;
mod failed_commit;
mod failed_sync;
mod lanes;
mod learned;
mod long_trailer;
mod model;
mod overwritten;
mod publishing;
mod reclaim;
mod reclaim_cost;
mod reclaim_model;
mod relearn;
mod same_size;
mod scan;
mod share;
mod slots;
mod sparse;
mod spilled;
mod turns;
