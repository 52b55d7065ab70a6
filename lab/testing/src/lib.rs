//! Test helpers that several crates share.

#![forbid(unsafe_code)]

mod cut_proxy;
mod effort;
mod fault_proxy;
mod long_run;
mod nats;
mod reports;
mod s3;
mod server;
mod skip;
mod stop;
mod versitygw;
mod web;

pub use cut_proxy::CutProxy;
pub use effort::{Effort, fresh_seed, fresh_seeds, seed, seeds};
pub use fault_proxy::{Fault, FaultProxy};
pub use long_run::long_run;
pub use nats::Nats;
pub use reports::acknowledged;
pub use s3::S3;
pub use skip::skip;
pub use stop::{Stop, Stopping};
pub use versitygw::Versitygw;
pub use web::Nginx;
