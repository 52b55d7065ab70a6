//! A page that is to be encoded.

use super::ready::ReadyFrame;
use crate::codec::family::Family;
use std::sync::Arc;

/// A page that waits to be encoded.
pub(crate) struct Job {
    pub(crate) page: u32,
    pub(crate) seq: u64,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) family: Family,
    /// Its frame, if it was encoded before.
    pub(crate) preencoded: Option<ReadyFrame>,
}
