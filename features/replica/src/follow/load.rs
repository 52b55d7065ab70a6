//! The state that a head names: its newest base, and the merged objects after it.

use super::snapshot::{Holder, Snapshot};
use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::extents::{BASE_END, Index, Object, index};
use crate::format::Head;
use crate::names;
use crate::restore::Others;
use crate::restore_plan::NEWEST;
use std::sync::Arc;

/// A base or merged object of at most so many bytes is kept in memory: one request instead of
/// several.
const SMALL: u64 = 1 << 20;

/// So many bytes at the end of a large object are read first: its table is there.
pub(super) const END: u64 = 192 << 10;

/// Bytes of them that most tables fit into.
const TABLE: u64 = 64 << 10;

/// The newest base, and the merged objects after it.
pub(super) fn merged(bucket: &dyn Bucket, head: &Head) -> Result<Snapshot> {
    let generation = head.newest_first().find(|g| !g.bases.is_empty());
    let generation = generation.ok_or(Error::NoReplica)?;
    let base = generation.bases.last().ok_or(Error::NoReplica)?;
    let name = base.name.clone();
    let opened_base = opened(bucket, &name, base.bytes, BASE_END);
    let (holder, index) = opened_base.map_err(|e| Others::of(head, base).explained(e, base))?;
    let mut snapshot = Snapshot::base(&generation.name, &holder, &index);
    while let Some(next) = generation.compacted_after(snapshot.last(), NEWEST) {
        let name = names::compacted(&generation.name, next.first, next.last);
        let (holder, index) = opened(bucket, &name, next.bytes, END)?;
        snapshot.must_precede(&name, &index.footer)?;
        snapshot.lay(&holder, &index);
    }
    Ok(snapshot)
}

/// Reads an object of so many bytes, if it is small, or opens it to read it by ranges.
fn opened(bucket: &dyn Bucket, name: &str, len: u64, end: u64) -> Result<(Holder, Index)> {
    if len > SMALL {
        return by_ranges(bucket, name, len, end);
    }
    let stored = bucket.get(name)?;
    let stored = stored.ok_or_else(|| Error::Missing(name.to_owned()))?;
    let object = Object::decode(name, stored.bytes)?;
    let index = object.index.clone();
    Ok((Holder::Memory(Arc::new(object)), index))
}

/// Opens an object of so many bytes to read it by ranges. So many of them at its end come first.
pub(super) fn by_ranges(
    bucket: &dyn Bucket,
    name: &str,
    len: u64,
    end: u64,
) -> Result<(Holder, Index)> {
    let object = bucket.object(name, len, end)?;
    let object = object.ok_or_else(|| Error::Missing(name.to_owned()))?;
    let index = index(name, object.len(), TABLE, &mut |buf, offset| {
        object.read_at(buf, offset)
    })?;
    Ok((Holder::Remote(object), index))
}
