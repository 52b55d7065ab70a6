//! Tests of shipping and restoring, on simulated disks.

mod common;
mod faults;
mod following;
mod headless;
mod histories;
mod large;
mod logs;
mod lost;
mod meanwhile;
mod merging;
mod refused;
mod retention;
