//! Reading a file of a web server or of object storage by ranges: `https://`, `http://`, `s3://`;
//! writing objects of a bucket.
//!
//! A [`Remote`] is one version of such a file. Its bytes come in aligned blocks through a bounded
//! cache, and each request after the first names the version, so that a file that was replaced is
//! an error and never a mixture.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arriving;
mod blocks;
mod bucket;
mod cache;
mod client;
mod counters;
mod disk_cache;
mod error;
mod flight;
mod location;
mod object;
mod pace;
mod plan;
mod remote;
mod remote_options;
mod service;
mod stream;
mod thread;
mod tls;
mod transport;
mod upload;
mod version;
mod web;

pub use bucket::{Bucket, BucketUpload, Got};
pub use client::Client;
pub use counters::Counters;
pub use error::{Error, Problem, Result};
pub use location::{is_url, shown};
pub use remote::Remote;
pub use remote_options::RemoteOptions;
pub use upload::upload;
