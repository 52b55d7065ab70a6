//! Follows what other handles and processes publish.
//!
//! A tip whose chain does not lead back to the known commit belongs to other contents, which were
//! written over the file: see `lineage`.

use super::Shared;
use crate::chain;
use crate::error::{Damage, Error, Result};
use crate::format::TIP_OFF;
use crate::format::tip::Tip;
use crate::format::tip::read_tip;
use crate::format::trailer::Trailer;
use crate::lineage::{self, Lineage};
use crate::recover;
use crate::state::State;
use densite_disk::File;
use densite_disk::wait::pause;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The most tries to follow a tip that keeps changing, before it counts as damage.
const TRIES: u32 = 200;

impl Shared {
    /// Makes sure that the state is that of the newest published commit. Returns whether it
    /// changed.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`]; [`Error::Overwritten`], which then stays.
    pub(crate) fn refresh(&self, file: &dyn File) -> Result<bool> {
        if self.is_overwritten() {
            return Err(Error::Overwritten);
        }
        let raw = read_tip(file)?;
        if self.state.read().tip_raw() == raw {
            return Ok(false);
        }
        self.catch_up(file)
    }

    #[cold]
    fn catch_up(&self, file: &dyn File) -> Result<bool> {
        let mut state = self.state.write();
        let mut problem = None;
        for attempt in 0..TRIES {
            let raw = read_tip(file)?;
            if raw == state.tip_raw() {
                return Ok(true);
            }
            match Tip::decode(&raw, self.salt) {
                Some(tip) if tip == state.tip() => {
                    state.note_tip_block(raw);
                    return Ok(true);
                }
                Some(tip) => match self.follow(file, &mut state, &tip) {
                    Ok(()) => {
                        state.note_tip_block(raw);
                        return Ok(true);
                    }
                    Err(Error::Corrupt(d)) => problem = Some(d),
                    Err(e) => {
                        self.note_overwritten(&e);
                        return Err(e);
                    }
                },
                None if recover::salt_of(file)? != Some(self.salt) => {
                    self.note_overwritten(&Error::Overwritten);
                    return Err(Error::Overwritten);
                }
                // It is being written, or damaged. If it stays so, the whole commits after the
                // known one count.
                None if attempt > 20 => {
                    while let Some((tip, trailer)) =
                        chain::next_commit(file, self.salt, &state.tip(), state.next_off())?
                    {
                        state.apply(tip, &trailer);
                    }
                    state.note_tip_block(raw);
                    return Ok(true);
                }
                None => {}
            }
            pause(Duration::from_micros(u64::from(attempt) * 20));
        }
        Err(Error::Corrupt(problem.unwrap_or_else(|| Damage {
            what: "tip".to_owned(),
            offset: TIP_OFF,
            page: None,
            problem: "it changes faster than it can be followed".to_owned(),
        })))
    }

    /// Advances to the commit of `tip`, from the known one if that is among its ancestors.
    fn follow(&self, file: &dyn File, state: &mut State, tip: &Tip) -> Result<()> {
        let mut back = Vec::new();
        let ours = state.tip();
        let met = recover::walk_back(file, self.salt, tip, &mut back, &mut |at| *at == ours)?;
        if met {
            for (tip, trailer) in back.iter().rev() {
                self.account(file, state, tip, trailer)?;
                state.apply(*tip, trailer);
            }
            return Ok(());
        }
        match lineage::of(file, self.salt, &ours, tip, &back, lineage::MAX_SINCE)? {
            Lineage::Ours(since) => {
                if let Some(mut writer) = self.writer.try_lock() {
                    writer.accounting.pass_fold(&ours, &since, file.len()?);
                }
            }
            Lineage::Another => return Err(Error::Overwritten),
            Lineage::Unknown => self.forget_contents(),
        }
        state.restart(self.salt);
        for (tip, trailer) in back.iter().rev() {
            state.apply(*tip, trailer);
        }
        Ok(())
    }

    /// Updates the accounting too, unless a writer is using it.
    fn account(&self, file: &dyn File, state: &State, tip: &Tip, trailer: &Trailer) -> Result<()> {
        let Some(mut writer) = self.writer.try_lock() else {
            return Ok(());
        };
        let sources = self.sources(file);
        if let Some(bytes) = writer.accounting.follow(&sources, state, tip, trailer)? {
            writer.durability.appended_elsewhere(bytes);
        }
        Ok(())
    }

    /// Drops everything that was read, because it may belong to other contents.
    fn forget_contents(&self) {
        self.unproved.fetch_add(1, Ordering::AcqRel);
        self.forget_nodes();
        self.cache.clear();
        self.dictionaries.clear();
        self.preencoded.forget();
    }

    fn note_overwritten(&self, error: &Error) {
        if matches!(error, Error::Overwritten) {
            self.overwritten.store(true, Ordering::Release);
        }
    }
}
