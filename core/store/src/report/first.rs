//! Where a reader on a slow line looks first: what a copy in a bucket has at its end.

use crate::commit_id::joined;
use crate::error::Result;
use crate::format::entry::NodeRef;
use crate::map::node::Node;
use crate::map::tree;
use crate::open_file::OpenFile;
use crate::shared::Shared;
use crate::state::State;
use densite_disk::File;
use std::collections::VecDeque;

/// Ranges of bytes, start and end.
type Ranges = Vec<(u64, u64)>;

/// The places of the newest trailers, of the upper page map, of the frames of `pages` with their
/// models, and of the other models, in ascending order: what comes first of these, up to `most`
/// bytes. The map gets up to half of them.
///
/// # Errors
/// I/O, damage.
pub(crate) fn first_places(open: &mut OpenFile, pages: &[u32], most: u64) -> Result<Ranges> {
    open.check_poison()?;
    if !open.attach()? {
        return Ok(Vec::new());
    }
    let shared = open.shared()?;
    let file = open.file();
    shared.while_it_moves(file, || {
        let state = shared.state.read().clone();
        let mut places = Places {
            most,
            bytes: 0,
            all: Vec::new(),
        };
        for (off, len) in state.trailers() {
            places.add(*off, *len);
        }
        map(&shared, file, &state, &mut places, most / 2)?;
        for page in pages {
            let entry = shared.lookup(file, &state, *page)?;
            if !entry.is_none() {
                let model = state.dicts().iter().find(|d| d.id == entry.model);
                if let Some(model) = model {
                    places.add(model.place.off, model.place.len);
                }
                places.add(entry.off, entry.len);
            }
        }
        // A page below them can have any of the models.
        for model in state.dicts() {
            places.add(model.place.off, model.place.len);
        }
        Ok(joined(places.all))
    })
}

struct Places {
    most: u64,
    bytes: u64,
    all: Ranges,
}

impl Places {
    /// Adds a place, if there is room. Returns whether there was.
    fn add(&mut self, off: u64, len: u32) -> bool {
        let place = (off, off + u64::from(len));
        if self.all.contains(&place) {
            return true;
        }
        let has_room = self.bytes + u64::from(len) <= self.most;
        if has_room {
            self.bytes += u64::from(len);
            self.all.push(place);
        }
        has_room
    }
}

/// Adds the nodes of the page map, the upper ones first, up to `most` bytes.
fn map(
    shared: &Shared,
    file: &dyn File,
    state: &State,
    places: &mut Places,
    most: u64,
) -> Result<()> {
    let root = state.root();
    let mut next: VecDeque<(u32, u64, NodeRef)> = VecDeque::new();
    next.push_back((root.level, 0, root.node));
    while let Some((level, first, place)) = next.pop_front() {
        if place.is_none() {
            continue;
        }
        if places.bytes + u64::from(place.len) > most || !places.add(place.off, place.len) {
            break;
        }
        let source = shared.source(file);
        let node = source.cache.load(file, shared.salt, place, level, first)?;
        if let Node::Inner(refs) = &*node {
            let below = level.saturating_sub(1);
            let firsts = (0..).map(|i: u64| first + i * tree::span(below));
            next.extend(refs.iter().zip(firsts).map(|(r, first)| (below, first, *r)));
        }
    }
    Ok(())
}
