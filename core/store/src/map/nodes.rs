//! Loading map nodes, and the cache of decoded ones.

use super::node::Node;
use crate::codec;
use crate::error::{Damage, Error, Result};
use crate::format::entry::NodeRef;
use crate::format::record::{Kind, RECORD_LEN, Record, raw_check};
use densite_disk::File;
use densite_disk::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The most decoded nodes kept in memory. A leaf takes 16 KiB and covers 512 pages. The limit makes
/// memory independent of the size of the database.
const MAX_NODES: usize = 512;

/// Decoded nodes by place and version. The least recently used ones are dropped first.
#[derive(Default)]
pub(crate) struct NodeCache {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    nodes: HashMap<(u64, u64), (Arc<Node>, u64)>,
    clock: u64,
}

impl NodeCache {
    fn get(&self, r: NodeRef) -> Option<Arc<Node>> {
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let now = inner.clock;
        let (node, used) = inner.nodes.get_mut(&(r.off, r.version))?;
        *used = now;
        Some(Arc::clone(node))
    }

    fn put(&self, r: NodeRef, node: &Arc<Node>) {
        let mut inner = self.inner.lock();
        if inner.nodes.len() >= MAX_NODES {
            // This is rare, so a scan is fast enough: it drops the older half at once.
            let mut ages: Vec<u64> = inner.nodes.values().map(|n| n.1).collect();
            let mid = ages.len() / 2;
            let (_, median, _) = ages.select_nth_unstable(mid);
            let median = *median;
            inner.nodes.retain(|_, n| n.1 > median);
        }
        let now = inner.clock;
        inner
            .nodes
            .insert((r.off, r.version), (Arc::clone(node), now));
    }

    /// The node at `place`, which is of `level` and covers the pages from `first` on (an index, 0
    /// is page 1).
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`] if another record is there. A reader whose state is old gets this,
    /// refreshes and retries.
    pub(crate) fn load(
        &self,
        file: &dyn File,
        salt: u64,
        place: NodeRef,
        level: u32,
        first: u64,
    ) -> Result<Arc<Node>> {
        if let Some(n) = self.get(place) {
            return Ok(n);
        }
        let damage = |problem: &str| {
            let what = "map node".to_owned();
            Error::Corrupt(Damage {
                what,
                offset: place.off,
                page: u32::try_from(first + 1).ok(),
                problem: problem.to_owned(),
            })
        };
        let mut bytes = vec![0; place.len as usize];
        let n = file.read_at(&mut bytes, place.off)?;
        let bytes = bytes.get(..n).unwrap_or_default();
        let (record, _, payload) =
            Record::open(bytes, salt, place.off).ok_or_else(|| damage("checksum mismatch"))?;
        if record.kind != Kind::Node
            || u64::from(record.number) != first
            || u32::from(record.page_log2) != level
            || record.version != place.version
            || record.total_len() != place.len
        {
            return Err(damage("another record is there"));
        }
        let mut raw = vec![0; Node::raw_len(level)];
        codec::decode(codec::CodecId(record.codec), payload, None, &mut raw)
            .map_err(|e| damage(&e))?;
        if raw_check(&raw) != record.raw_check {
            return Err(damage("decoded bytes do not match their checksum"));
        }
        let node =
            Arc::new(Node::decode(level, &raw).ok_or_else(|| damage("an entry is out of range"))?);
        self.put(place, &node);
        Ok(node)
    }

    pub(crate) fn clear(&self) {
        *self.inner.lock() = Inner::default();
    }
}

/// The record header and payload of a node, ready to be appended.
pub(crate) fn encode(node: &Node, level: u32, first: u64, version: u64) -> (Record, Vec<u8>) {
    let raw = node.encode();
    let mut payload = Vec::new();
    // Level 1: nodes are written while a commit waits, and columns of differences compress well at
    // any level.
    let coded = codec::encode(
        &raw,
        1,
        None,
        crate::options::CodecChoice::Zstd,
        &mut payload,
    );
    let record = Record {
        codec: coded.codec.0,
        page_log2: level as u8,
        raw_check: raw_check(&raw),
        stored_len: payload.len() as u32,
        ..Record::plain(Kind::Node, first as u32, version)
    };
    debug_assert!(payload.len() + RECORD_LEN < u32::MAX as usize);
    (record, payload)
}
