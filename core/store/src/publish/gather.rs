//! Gathering: a fold that writes the page map and all dictionaries again, so that a reader finds
//! them together.

use crate::by_fold::ByFold;
use crate::error::Result;
use crate::map::node::LEAF_FANOUT;
use crate::map::tree;
use crate::shared::Shared;
use densite_disk::File;

/// What such a fold writes again: everything but the space table, which readers do not need.
///
/// # Errors
/// I/O, damage.
pub(crate) fn everything(shared: &Shared, file: &dyn File) -> Result<ByFold> {
    let state = shared.state.read();
    let mut all = ByFold::default();
    for dict in state.dicts() {
        all.add_dict(dict, file, shared.salt)?;
    }
    for index in (0..state.pages()).step_by(LEAF_FANOUT) {
        if tree::leaf(shared.source(file), state.root(), index)?.is_some() {
            all.leaves.insert(index);
        }
    }
    Ok(all)
}
