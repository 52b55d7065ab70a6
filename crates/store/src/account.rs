//! A writer's accounting of space is that of the newest commit.

use crate::error::{Damage, Error, Result};
use crate::shared::{Shared, Writer};
use crate::space::{Space, Worth};
use crate::state::State;
use densite_disk::File;

impl Writer {
    /// Makes sure that the accounting is that of `state`. Returns whether it had to be loaded.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn account(
        &mut self,
        shared: &Shared,
        file: &dyn File,
        state: &State,
    ) -> Result<bool> {
        if self
            .space
            .as_ref()
            .is_some_and(|(tip, _)| *tip == state.tip)
        {
            return Ok(false);
        }
        let mut space = load_space(shared, file, state)?;
        // A commit that failed may be tried again: what it has written lies in units that are free for everybody else. They wait for its own number.
        space.note_free(
            state.tip.commit.max(self.last_attempt),
            state.tail_off.min(file.len()?),
        );
        if let Some((tip, known)) = self.known_free.take()
            && tip == state.tip
        {
            space.adopt(&known);
        }
        // The slot can have become durable before this accounting was loaded. Units that its commit, or an earlier one, freed are reusable at once.
        if self.slot_durable && !self.needs_rewrite {
            space.slot_durable(self.slot.1.tip.commit, state.current_extent());
        }
        self.space = Some((state.tip, space));
        Ok(true)
    }
}

/// Units to be written again of which a writer wants to know: 16 MiB.
const WANTED_FREE: usize = 256;

impl Writer {
    /// Where few units are known that can be written again, and others are free: looks for them.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn find_free(
        &mut self,
        shared: &Shared,
        file: &dyn File,
        state: &State,
    ) -> Result<()> {
        let commit = state.tip.commit.max(self.last_attempt);
        if let Some((_, space)) = &mut self.space
            && space.unlisted_free() > 0
            && space.known_free() < WANTED_FREE
        {
            space.survey(shared.table_source(file), Worth::Free, (2, 4), commit)?;
        }
        Ok(())
    }
}

/// The accounting of the newest commit, from its root trailer and what came since.
pub(crate) fn load_space(shared: &Shared, file: &dyn File, state: &State) -> Result<Space> {
    let mut space = Space::open(&state.section.space);
    space.load_first(shared.table_source(file), state.tip.commit)?;
    for info in &state.dicts {
        *space.dict_uses.entry(info.id).or_default() += info.uses as i64;
    }
    space.add_fixed();
    // The table grows with what is added: nothing may be that lies nowhere.
    let end = file.len()?;
    let beyond = |what: &str, page: Option<u32>, off: u64, len: u32| {
        let problem = "it lies beyond the end of the file".to_owned();
        let damage = Damage {
            what: what.to_owned(),
            offset: off,
            page,
            problem,
        };
        if off + u64::from(len) <= end {
            Ok(())
        } else {
            Err(Error::Corrupt(damage))
        }
    };
    for info in state.dicts.iter().skip(state.root_dicts) {
        beyond("dictionary", None, info.place.off, info.place.len)?;
        space.add(info.place.off, u64::from(info.place.len));
    }
    for (off, len) in &state.trailers {
        space.add(*off, u64::from(*len));
    }
    for (page, entry) in &state.overlay {
        if !state.root.node.is_none() {
            let old =
                crate::map::tree::lookup(shared.source(file), state.root, u64::from(*page) - 1)?;
            space.sub_entry(&old, state.tip.commit);
        }
        beyond("frame", Some(*page), entry.off, entry.len)?;
        space.add_entry(entry);
    }
    space.note_free(state.tip.commit, state.tail_off.min(end));
    Ok(space)
}
