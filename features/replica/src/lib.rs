//! A database in a bucket: its commits are shipped there, and every restore point can be restored
//! from there.
//!
//! A [`Shipper`] copies what the commits of a [`Source`] wrote into objects of a [`Bucket`]: first a
//! *base*, an image of the whole file, then a *delta* for each restore point. [`Restore`] puts a
//! file together from them. docs/FORMAT.md has the bytes, docs/decisions/replication.md the reasons.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod assemble;
mod bucket;
mod chain;
mod compact;
mod error;
mod extents;
mod folder;
mod follow;
mod format;
mod gap;
mod headless;
mod log_place;
mod names;
mod overlay;
mod replicas;
mod restore;
mod restore_plan;
mod shipper;
mod source;
mod time;

pub use bucket::{Bucket, Listed, RemoteObject, Stored, Upload};
pub use error::{Error, Result};
pub use folder::Folder;
pub use follow::{Follower, Snapshot};
pub use format::{OBJECT_END, is_object};
pub use headless::exists;
pub use names::HEAD;
pub use replicas::{GenerationInfo, ReplicaInfo, replicas};
pub use restore::{At, Restore, Restored};
pub use shipper::{Shipper, ShipperOptions, Step};
pub use source::{HandleSource, Source};
pub use time::time_text;
