//! Frames of the file that are read to be encoded again.

use crate::again::Held;
use crate::error::{Error, Result};
use crate::format::entry::Entry;
use crate::frame;
use crate::shared::Shared;
use crate::state::State;
use densite_disk::File;

/// Frames with the records that they are in.
#[derive(Default)]
pub(crate) struct StoredFrames {
    pub(crate) records: Vec<u8>,
    pub(crate) held: Vec<Held>,
}

impl StoredFrames {
    /// Bytes of the live pages.
    pub(crate) fn raw_len(&self) -> usize {
        self.held.iter().map(Held::raw_len).sum()
    }

    /// Reads the frame of a page, if it has one and it is whole. A damaged one stays where it is:
    /// a read of its pages or `check` reports it.
    ///
    /// # Errors
    /// I/O, damage in the page map.
    pub(crate) fn read(&mut self, file: &dyn File, shared: &Shared, page: u32) -> Result<()> {
        let state = shared.state.read();
        let entry = shared.lookup(file, &state, page)?;
        if entry.is_none() {
            return Ok(());
        }
        let at = self.records.len();
        let mut stored = vec![0; entry.len as usize];
        let read = file.read_at(&mut stored, entry.off)?;
        stored.truncate(read);
        let opened = frame::open(
            shared.salt,
            page,
            &entry,
            state.page_size() as usize,
            &stored,
        );
        let record = match opened {
            Ok((record, _)) => record,
            Err(Error::Corrupt(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let live = live_slots(file, shared, &state, page, &entry)?;
        self.records.extend_from_slice(&stored);
        self.held.push(Held { at, record, live });
        Ok(())
    }
}

/// The pages of the run that are in the frame of `entry`, which is that of `page`: a bit for each.
///
/// # Errors
/// I/O, damage in the page map.
pub(crate) fn live_slots(
    file: &dyn File,
    shared: &Shared,
    state: &State,
    page: u32,
    entry: &Entry,
) -> Result<u64> {
    let first = page.saturating_sub(u32::from(entry.slot));
    let mut live = 0;
    for (number, slot) in (first..).take(1 << entry.run_log2).zip(0u32..) {
        let exists = u64::from(number) <= state.pages();
        if exists && shared.lookup(file, state, number)?.off == entry.off {
            live |= 1 << slot;
        }
    }
    Ok(live)
}
