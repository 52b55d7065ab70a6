//! Walks everything that a commit's map names.

use crate::error::Result;
use crate::format::entry::{Entry, NodeRef};
use crate::map::tree;
use crate::shared::Shared;
use crate::state::State;
use densite_disk::File;

/// Calls `entry_f` for every page (1 is the first) that has a frame, in no particular order, and
/// `node_f` for every map node.
pub(crate) fn walk_state(
    shared: &Shared,
    file: &dyn File,
    state: &State,
    node_f: &mut dyn FnMut(NodeRef) -> Result<()>,
    entry_f: &mut dyn FnMut(u32, Entry) -> Result<()>,
) -> Result<()> {
    let mut in_tree = |index: u64, e: Entry| {
        let page = (index + 1) as u32;
        if state.overlay().contains_key(&page) {
            Ok(())
        } else {
            entry_f(page, e)
        }
    };
    if !state.root().node.is_none() {
        tree::walk(shared.source(file), state.root(), node_f, &mut in_tree)?;
    }
    for (page, e) in state.overlay().iter().filter(|(_, e)| !e.is_none()) {
        entry_f(*page, *e)?;
    }
    Ok(())
}
