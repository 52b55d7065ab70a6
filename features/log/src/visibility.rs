//! How far the log can be read: to the last row that is synced and decided.

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

/// The rows that can be read.
#[derive(Debug, Clone)]
pub(crate) struct Visible {
    /// How far the log is synced.
    pub(crate) word: EndWord,
    /// The last readable row: it and all before it are decided.
    pub(crate) last: Seq,
    /// Rows up to there that were rolled back.
    pub(crate) cancelled: Arc<Vec<(Seq, Seq)>>,
}

/// What a writer's slot says of its rollbacks. While it is unchanged, there are no new ones.
#[derive(PartialEq, Eq)]
struct Said {
    nonce: u64,
    cancels: u64,
    /// The writer is gone and left a prepared transaction. It may have stored a last rollback
    /// without counting it.
    is_cut_off: bool,
}

/// Reads the end word and the slots of all writers.
pub(crate) struct Visibility {
    /// `None` if there is no end file: a power cut took it, and no process has opened the log for
    /// writing since.
    end_file: Option<Box<dyn File>>,
    slots: HashMap<u32, Box<dyn File>>,
    word: EndWord,
    /// What each slot said when `cancelled` was loaded; `None` before the first load.
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

    /// Rule L3, and the waiting of rule L1. The order of reading matters: first the end word, then
    /// prepared transactions, then rollbacks. Writers write them in the opposite order.
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
        // Even without a known writer there can be rollbacks.
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

    /// The slot of another writer, and whether that writer is gone and left a prepared transaction.
    /// If it is gone, all its transactions are decided.
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
            // The writer is gone. Its last write can be newer than the slot that was read above,
            // and is final.
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

/// Reads a slot. If it stays unreadable, everything counts as prepared: its writer may be in the
/// middle of a write.
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
