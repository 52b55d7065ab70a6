//! Looks entries up in the tree, and folds changes into it.
//!
//! A node of level L covers 512 * 256^L pages, and the root's level is the height of the tree. A
//! missing child is a hole: its pages have no frames.

use super::node::{INNER_FANOUT, LEAF_FANOUT, Node};
use super::nodes::{self, NodeCache};
use crate::error::Result;
use crate::format::entry::{Entry, NodeRef, Root};
use crate::format::record::Record;
use densite_disk::File;
use std::sync::Arc;

/// Everything that is needed to load nodes.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a dyn File,
    pub(crate) salt: u64,
    pub(crate) cache: &'a NodeCache,
}

pub(crate) fn span(level: u32) -> u64 {
    LEAF_FANOUT as u64 * (INNER_FANOUT as u64).pow(level)
}

/// The entry of the page with this index (0 is page 1).
pub(crate) fn lookup(src: Source<'_>, root: Root, index: u64) -> Result<Entry> {
    Ok(leaf(src, root, index)?.map_or(Entry::NONE, |leaf| entry_in(&leaf, index)))
}

/// The leaf that covers the page with this index; `None` in a hole.
pub(crate) fn leaf(src: Source<'_>, root: Root, index: u64) -> Result<Option<Arc<Node>>> {
    let mut level = root.level;
    let mut place = root.node;
    if index >= span(level) {
        return Ok(None);
    }
    loop {
        if place.is_none() {
            return Ok(None);
        }
        let first = index - index % span(level);
        let node = src.cache.load(src.file, src.salt, place, level, first)?;
        match &*node {
            Node::Leaf(_) => return Ok(Some(node)),
            Node::Inner(refs) => {
                level -= 1;
                place = refs
                    .get(((index - first) / span(level)) as usize)
                    .copied()
                    .unwrap_or_default();
            }
        }
    }
}

/// The entry in the leaf that covers its page.
fn entry_in(leaf: &Node, index: u64) -> Entry {
    match leaf {
        Node::Leaf(e) => e
            .get(index as usize % LEAF_FANOUT)
            .copied()
            .unwrap_or_default(),
        Node::Inner(_) => Entry::NONE,
    }
}

/// The leaves that one handle used last. Reading them takes no lock of the shared cache.
#[derive(Default)]
pub(crate) struct LeafMemo {
    root: Root,
    leaves: Vec<Option<(u64, Arc<Node>)>>,
}

impl LeafMemo {
    /// The number of leaves, each of 512 pages. They take 16 KiB each, unless the shared cache
    /// still has them too.
    const PLACES: usize = 128;

    /// As [`lookup`].
    pub(crate) fn lookup(&mut self, src: Source<'_>, root: Root, index: u64) -> Result<Entry> {
        if self.root != root || self.leaves.is_empty() {
            self.root = root;
            self.leaves.clear();
            self.leaves.resize(Self::PLACES, None);
        }
        let number = index / LEAF_FANOUT as u64;
        let place = self.leaves.get_mut(number as usize % Self::PLACES);
        if let Some(Some((n, leaf))) = &place
            && *n == number
        {
            return Ok(entry_in(leaf, index));
        }
        let Some(leaf) = leaf(src, root, index)? else {
            return Ok(Entry::NONE);
        };
        let entry = entry_in(&leaf, index);
        if let Some(place) = place {
            *place = Some((number, leaf));
        }
        Ok(entry)
    }
}

/// The place of the node of `level` that covers the pages from index `first` on, and the index of a
/// page in a leaf below it. Loads all nodes on the way.
///
/// # Errors
/// Those of loading.
pub(crate) fn find_node(
    src: Source<'_>,
    root: Root,
    level: u32,
    first: u64,
) -> Result<Option<(NodeRef, u64)>> {
    let (mut at, mut place) = (root.level, root.node);
    if level > at || first >= span(at) || !first.is_multiple_of(span(level)) {
        return Ok(None);
    }
    let mut wanted = None;
    let mut index = first;
    while !place.is_none() {
        let begin = index - index % span(at);
        let node = src.cache.load(src.file, src.salt, place, at, begin)?;
        if at == level {
            wanted = Some(place);
        }
        let Node::Inner(refs) = &*node else {
            return Ok(wanted.map(|place| (place, index)));
        };
        at -= 1;
        let below = span(at);
        let child = if at >= level {
            (index - begin) / below
        } else {
            // Any leaf will do; an inner node has at least one.
            refs.iter().position(|r| !r.is_none()).unwrap_or(0) as u64
        };
        index = if at >= level {
            index
        } else {
            begin + child * below
        };
        place = refs.get(child as usize).copied().unwrap_or_default();
    }
    Ok(None)
}

/// Receives records that a fold appends, and nodes that it replaces.
pub(crate) trait Sink {
    /// Appends a record and returns its place.
    fn append(&mut self, record: Record, payload: &[u8]) -> Result<NodeRef>;
    /// A node that the tree no longer reaches.
    fn drop_node(&mut self, place: NodeRef);
}

/// Writes new nodes for `changes` (ascending indexes, no duplicates) and returns the new root.
///
/// # Errors
/// Those of loading and appending; the old tree is unchanged.
pub(crate) fn fold(
    src: Source<'_>,
    root: Root,
    changes: &[(u64, Entry)],
    version: u64,
    sink: &mut dyn Sink,
) -> Result<Root> {
    let Some(&(last, _)) = changes.last() else {
        return Ok(root);
    };
    let mut walk = Fold { src, version, sink };
    if last < span(root.level) || root.node.is_none() {
        let mut level = root.level;
        while last >= span(level) {
            level += 1;
        }
        return Ok(Root {
            node: walk.node(level, 0, root.node, changes)?,
            level,
        });
    }
    // The tree grows by a level: the old root becomes the first child of a new one.
    let split = changes.partition_point(|c| c.0 < span(root.level));
    let (inside, outside) = changes.split_at(split);
    let old = if inside.is_empty() {
        root.node
    } else {
        walk.node(root.level, 0, root.node, inside)?
    };
    let mut root = Root {
        node: old,
        level: root.level,
    };
    let mut outside = outside;
    while !outside.is_empty() {
        let level = root.level + 1;
        let split = outside.partition_point(|c| c.0 < span(level));
        let (now, later) = outside.split_at(split);
        let mut up = Node::empty(level);
        if let Node::Inner(refs) = &mut up
            && let Some(first) = refs.first_mut()
        {
            *first = root.node;
        }
        walk.apply(&mut up, level, 0, now)?;
        let (record, payload) = nodes::encode(&up, level, 0, version);
        root = Root {
            node: walk.sink.append(record, &payload)?,
            level,
        };
        outside = later;
    }
    Ok(root)
}

struct Fold<'a> {
    src: Source<'a>,
    version: u64,
    sink: &'a mut dyn Sink,
}

impl Fold<'_> {
    fn node(
        &mut self,
        level: u32,
        first: u64,
        place: NodeRef,
        changes: &[(u64, Entry)],
    ) -> Result<NodeRef> {
        let mut node = if place.is_none() {
            Node::empty(level)
        } else {
            let node = self
                .src
                .cache
                .load(self.src.file, self.src.salt, place, level, first)?;
            (*node).clone()
        };
        self.apply(&mut node, level, first, changes)?;
        if !place.is_none() {
            self.sink.drop_node(place);
        }
        if node.is_empty() {
            return Ok(NodeRef::default());
        }
        let (record, payload) = nodes::encode(&node, level, first, self.version);
        self.sink.append(record, &payload)
    }

    fn apply(
        &mut self,
        node: &mut Node,
        level: u32,
        first: u64,
        changes: &[(u64, Entry)],
    ) -> Result<()> {
        match node {
            Node::Leaf(entries) => {
                for (index, entry) in changes {
                    if let Some(e) = entries.get_mut((index - first) as usize) {
                        *e = *entry;
                    }
                }
            }
            Node::Inner(refs) => {
                let below = span(level - 1);
                for part in changes.chunk_by(|a, b| (a.0 - first) / below == (b.0 - first) / below)
                {
                    let Some(&(index, _)) = part.first() else {
                        continue;
                    };
                    let child = (index - first) / below;
                    if let Some(r) = refs.get_mut(child as usize) {
                        *r = self.node(level - 1, first + child * below, *r, part)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Calls `f` for every node and for every entry of a page with a frame, in order of pages.
pub(crate) fn walk(
    src: Source<'_>,
    root: Root,
    node_f: &mut dyn FnMut(NodeRef) -> Result<()>,
    entry_f: &mut dyn FnMut(u64, Entry) -> Result<()>,
) -> Result<()> {
    walk_node(src, root.level, 0, root.node, node_f, entry_f)
}

fn walk_node(
    src: Source<'_>,
    level: u32,
    first: u64,
    place: NodeRef,
    node_f: &mut dyn FnMut(NodeRef) -> Result<()>,
    entry_f: &mut dyn FnMut(u64, Entry) -> Result<()>,
) -> Result<()> {
    if place.is_none() {
        return Ok(());
    }
    node_f(place)?;
    let node = src.cache.load(src.file, src.salt, place, level, first)?;
    match &*node {
        Node::Leaf(entries) => {
            for (i, e) in entries.iter().enumerate().filter(|(_, e)| !e.is_none()) {
                entry_f(first + i as u64, *e)?;
            }
        }
        Node::Inner(refs) => {
            for (i, r) in refs.iter().enumerate() {
                walk_node(
                    src,
                    level - 1,
                    first + i as u64 * span(level - 1),
                    *r,
                    node_f,
                    entry_f,
                )?;
            }
        }
    }
    Ok(())
}
