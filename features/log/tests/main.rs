//! The integration tests of this crate, in one program: it is linked once.

mod close;
mod common;
mod crash;
mod faults;
mod fork;
mod hostile;
mod image;
mod killed;
mod large;
mod leftover;
mod measure;
mod moved;
mod news;
mod orphan;
mod pruning;
mod recovery;
mod recycle;
mod salvage;
mod several;
mod shared_sync;
mod subscribe;
mod torn;
mod turns;
