//! How far anybody may read: to the last row that is synced and decided.

use crate::decisions::Decisions;
use crate::end_word::read_whole_word;
use crate::files::{END, Files, writer_name};
use crate::format::slot::{SLOT_LEN, WriterSlot};
use crate::format::word::EndWord;
use crate::{Result, Seq};
use densite_disk::{File, LockKind, OpenMode};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// How often a slot is read again while its writer writes it.
const TRIES: u32 = 1000;

/// What may be read.
#[derive(Debug, Clone)]
pub(crate) struct Visible {
    /// How far the log is synced.
    pub(crate) word: EndWord,
    /// The last row that is decided, as are all before it.
    pub(crate) last: Seq,
    /// Rows up to there that were rolled back.
    pub(crate) cancelled: Arc<Vec<(Seq, Seq)>>,
}

/// What a writer says of its rollbacks: while this is the same, there are no more.
#[derive(PartialEq, Eq)]
struct Said {
    nonce: u64,
    cancels: u64,
    /// It is gone, and left something prepared: the last rollback may be one that it stored and did
    /// not live to count.
    is_cut_off: bool,
}

/// Looks at the end word and at the slots of all writers.
pub(crate) struct Visibility {
    /// `None` where there is none, in a log that nobody has opened since a power cut took it.
    end_file: Option<Box<dyn File>>,
    slots: HashMap<u32, Box<dyn File>>,
    word: EndWord,
    /// What each writer said when `cancelled` was loaded; `None` before it was.
    seen: Option<Vec<Said>>,
    cancelled: Arc<Vec<(Seq, Seq)>>,
}

impl Visibility {
    pub(crate) fn new(files: &Files, word: EndWord) -> Result<Visibility> {
        Ok(Visibility {
            end_file: files.open(END, OpenMode::Read)?,
            slots: HashMap::new(),
            word,
            seen: None,
            cancelled: Arc::default(),
        })
    }

    /// Rule 3, and the waiting of rule 1. The order of reading matters: the end first, then who is
    /// prepared, then rollbacks; each is written in the opposite order.
    pub(crate) fn current(&mut self, files: &Files, mine: Option<&Decisions>) -> Result<Visible> {
        match &self.end_file {
            Some(end_file) => {
                let word = read_whole_word(end_file.as_ref(), files)?;
                self.word = word.unwrap_or(self.word);
            }
            None => self.end_file = files.open(END, OpenMode::Read)?,
        }
        let word = self.word;
        let mut last = word.last_seq();
        let mut seen = Vec::with_capacity(word.writers as usize);
        for no in 0..word.writers {
            let (slot, is_cut_off) = match mine {
                Some(mine) if no == mine.slot_no() => (mine.slot(), false),
                _ => self.slot(files, no)?,
            };
            if slot.prepared != 0 {
                last = last.min(slot.prepared - 1);
            }
            seen.push(Said {
                nonce: slot.nonce,
                cancels: slot.cancels,
                is_cut_off,
            });
        }
        // Where no writer is known there may still be rollbacks.
        if self.seen.as_ref() != Some(&seen) {
            let state = files.load_state()?;
            self.cancelled = Arc::new(state.map(|s| s.cancelled).unwrap_or_default());
            self.seen = Some(seen);
        }
        Ok(Visible {
            word,
            last,
            cancelled: self.cancelled.clone(),
        })
    }

    /// What another writer says, and whether it is gone and said then that something is prepared:
    /// then all is decided.
    fn slot(&mut self, files: &Files, no: u32) -> Result<(WriterSlot, bool)> {
        let file = match self.slots.entry(no) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => match files.open(&writer_name(no), OpenMode::Read)? {
                Some(file) => new.insert(file),
                None => return Ok((WriterSlot::default(), false)),
            },
        };
        let slot = read_slot(file.as_ref())?;
        if slot.prepared != 0 && file.try_lock(LockKind::Shared)? {
            // It is gone. What it said last may be newer than what was read; after that it says
            // nothing more.
            let slot = read_slot(file.as_ref());
            file.unlock()?;
            let slot = slot?;
            let decided = WriterSlot {
                prepared: 0,
                ..slot
            };
            return Ok((decided, slot.prepared != 0));
        }
        Ok((slot, false))
    }
}

/// What a writer says. Where nothing can be read, that everything is prepared: it may be about to
/// say something.
fn read_slot(file: &dyn File) -> Result<WriterSlot> {
    for _ in 0..TRIES {
        let mut bytes = [0; SLOT_LEN];
        file.read_at(&mut bytes, 0)?;
        if let Some(slot) = WriterSlot::decode(&bytes) {
            return Ok(slot);
        }
        std::thread::yield_now();
    }
    Ok(WriterSlot {
        prepared: 1,
        ..WriterSlot::default()
    })
}
