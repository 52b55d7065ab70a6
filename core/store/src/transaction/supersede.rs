//! Models and dictionaries that supersede older ones, and the frames that are encoded again with
//! them at rest: see `relearn`.

use super::Transaction;
use crate::again::{Again, Encoded, Outdated, Quick, encode_all};
use crate::codec::family::Family;
use crate::codec::learn::TrainingResult;
use crate::connection::Connection;
use crate::encode::EncodeSettings;
use crate::error::Result;
use crate::format::trailer::Learned;
use crate::shared::Shared;
use crate::stored_frames::{StoredFrames, live_slots};
use densite_disk::File;
use std::sync::Arc;

/// The most bytes of pages that a commit encodes again.
const ENCODED: usize = 1 << 20;
/// How many bytes of pages are encoded at once, and the most pages that are looked at for them.
/// Encoding them takes a few milliseconds.
const AT_ONCE: usize = 64 << 10;
const LOOKED_AT: u32 = 1024;

impl Transaction {
    /// Notes that a sample of the whole database is about to be drawn. Returns its pages.
    pub(crate) fn begins_to_learn(&mut self) -> u32 {
        self.learned.tried = self.page_count();
        self.learned.tried
    }

    /// Notes that the database was learned from when it had so many pages, and adds the models and
    /// dictionaries that are better.
    ///
    /// # Errors
    /// If the file is empty.
    pub(crate) fn supersede(
        &mut self,
        connection: &mut Connection,
        pages: u32,
        better: Vec<TrainingResult>,
    ) -> Result<()> {
        self.learned.pages = pages;
        let shared = connection.open.shared()?;
        // What was learned from a part of the pages is not better.
        connection.training.cancel();
        let mut first = None;
        for trained in better {
            let family = trained.family;
            if self.install_one(&shared, trained).is_none() {
                break;
            }
            first = first.or(self.new_dicts.last().map(|info| info.id));
            (shared.writer.lock().learning.learner()).trains_again(family);
        }
        if let Some(first) = first {
            (self.learned.first, self.learned.next) = (first, 1);
        }
        Ok(())
    }

    /// Encodes pages again whose model or dictionary is superseded, from `learned.next` on, until
    /// `stop`; also raw ones, if there are some that this process does not know of. Frames that
    /// become no smaller stay as they are.
    ///
    /// # Errors
    /// I/O, a full disk, damage in the page map.
    pub(crate) fn encode_superseded(
        &mut self,
        connection: &mut Connection,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        self.keep_all = true;
        self.holds_back = false;
        let shared = connection.open.shared()?;
        let settings = EncodeSettings {
            level: connection.open.options().level,
            ..self.encode_settings(connection)?
        };
        let Learned { first, .. } = self.learned;
        let fresh = {
            let state = shared.state.read();
            let fresh = state.dicts().iter().filter(|info| info.id >= first);
            fresh.map(|info| Family(info.family)).collect()
        };
        let heat = &shared.preencoded.heat;
        let quick = match heat.has_others(self.learned) {
            true => Quick::Raw,
            false => Quick::None,
        };
        // If only raw frames are to be encoded, this begins here.
        self.learned.next = self.learned.next.max(1);
        if quick == Quick::Raw && self.learned.next == 1 {
            heat.begins_search();
        }
        let outdated = Arc::new(Outdated::new(&settings.dicts, fresh, quick));
        let mut encoded = 0;
        while self.learned.next > 0 && encoded < ENCODED {
            let (frames, next) =
                self.superseded_frames(connection.open.file(), &shared, &outdated)?;
            encoded += frames.raw_len();
            let again = Arc::new(Again {
                dicts: shared.dictionaries_of(connection.open.file(), &frames.held)?,
                records: frames.records,
                outdated: Arc::clone(&outdated),
                settings: settings.clone(),
            });
            let pool = connection.open.pool();
            encode_all(&again, &frames.held, pool, |encoded| {
                if let Encoded::New(frame) = encoded {
                    let (record, payload) = (frame.record, &frame.payload);
                    let place = self.append_frame(connection, &shared, record, payload)?;
                    self.note_run(&record, place, u64::MAX);
                }
                Ok(())
            })?;
            self.learned.next = next;
            if stop() {
                break;
            }
        }
        if self.learned.next == 0 {
            self.learned.hot = heat.ends_search(self.learned.hot);
        }
        Ok(())
    }

    /// The next frames that may be outdated, and the page after them; 0 if there is none.
    fn superseded_frames(
        &self,
        file: &dyn File,
        shared: &Shared,
        outdated: &Outdated,
    ) -> Result<(StoredFrames, u32)> {
        let mut frames = StoredFrames::default();
        let first = self.learned.next;
        let mut page = first;
        while u64::from(page) <= self.visible {
            if frames.raw_len() >= AT_ONCE || page - first >= LOOKED_AT {
                return Ok((frames, page));
            }
            let state = shared.state.read();
            let entry = shared.lookup(file, &state, page)?;
            let may_be = !entry.is_none() && outdated.may_be(entry.codec, entry.model);
            // The first live page of a frame stands for all.
            let before = (1u64 << entry.slot) - 1;
            if may_be && live_slots(file, shared, &state, page, &entry)? & before == 0 {
                drop(state);
                frames.read(file, shared, page)?;
            }
            page += 1;
        }
        Ok((frames, 0))
    }
}
