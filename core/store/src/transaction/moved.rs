//! Frames that space reclamation moves: as they are stored, or encoded again.

use super::Transaction;
use crate::connection::Connection;
use crate::encode::PreEncodedFrame;
use crate::error::Result;
use crate::format::entry::Entry;
use crate::format::record::Record;
use crate::shared::Shared;
use crate::space::Lane;

impl Transaction {
    /// Makes this a commit of space reclamation. Nothing goes to `below` or after it while there is
    /// a free extent before it. `aside`: moved records go to their own extent.
    pub(crate) fn moves_frames(&mut self, below: u64, aside: bool) {
        self.appender.avoid_from(below);
        if aside {
            self.appender.keep_to(Lane::Moved);
        }
        self.keep_all = true;
        self.holds_back = false;
    }

    /// Appends a frame as it is stored. `pages` are its live pages with their entries, which get
    /// the new place.
    ///
    /// # Errors
    /// I/O, a full disk.
    pub(crate) fn move_frame(
        &mut self,
        connection: &Connection,
        shared: &Shared,
        (record, payload): (Record, &[u8]),
        pages: &[(u32, Entry)],
    ) -> Result<()> {
        let off = self.append_frame(connection, shared, record, payload)?.off;
        for (page, entry) in pages {
            let moved = Entry { off, ..*entry };
            self.pages.store(*page, moved);
        }
        Ok(())
    }

    /// Appends frames that were encoded ahead, if their dictionaries are still valid for all of
    /// them. Returns whether it did.
    ///
    /// # Errors
    /// I/O, a full disk.
    pub(crate) fn place_encoded(
        &mut self,
        connection: &mut Connection,
        shared: &Shared,
        encoded: &[PreEncodedFrame],
    ) -> Result<bool> {
        let settings = self.encode_settings(connection)?;
        if !encoded.iter().all(|frame| frame.holds(&settings)) {
            return Ok(false);
        }
        for frame in encoded {
            let record = Record {
                version: settings.version,
                ..frame.record
            };
            let place = self.append_frame(connection, shared, record, &frame.payload)?;
            self.note_run(&record, place, u64::MAX);
        }
        Ok(true)
    }
}
