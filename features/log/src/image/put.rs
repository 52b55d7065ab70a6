//! Putting the files of a copy together.

use super::Span;
use crate::files::{END, STATE, damaged, segment_name};
use crate::state::State;
use crate::{Error, Result};
use densite_disk::{Dir, File, OpenMode, SyncKind};
use std::collections::BTreeMap;

/// A copy of a log that is being put together in a directory without other files.
pub struct RestoredLog<'a> {
    dir: &'a dyn Dir,
    segments: BTreeMap<u64, Box<dyn File>>,
}

impl<'a> RestoredLog<'a> {
    /// Begins without bytes.
    #[must_use]
    pub fn new(dir: &'a dyn Dir) -> RestoredLog<'a> {
        RestoredLog {
            dir,
            segments: BTreeMap::new(),
        }
    }

    /// Writes bytes of a segment. Later ones win.
    ///
    /// # Errors
    /// `Full`, `Io`.
    pub fn write(&mut self, segment: u64, bytes: &[u8], offset: u64) -> Result<()> {
        if !self.segments.contains_key(&segment) {
            let file = self.dir.open(&segment_name(segment), OpenMode::Create)?;
            self.segments.insert(segment, file);
        }
        if let Some(file) = self.segments.get(&segment) {
            file.write_at(bytes, offset)?;
        }
        Ok(())
    }

    /// Ends the copy: it has what `span` names, with this state, durably. Segments that were
    /// written and do not belong to it are removed.
    ///
    /// # Errors
    /// `Damaged` if segments or bytes are missing, or the state is not that of this span; `Full`,
    /// `Io`.
    pub fn finish(mut self, span: &Span, state: &[u8]) -> Result<()> {
        let is_its = |state: &State| state.id == span.id() && state.first_segment == span.first();
        if !State::decode(state).is_ok_and(|state| is_its(&state)) {
            return Err(Error::Damaged {
                segment: STATE.to_owned(),
                offset: 0,
                problem: "it is not the state of this copy".to_owned(),
            });
        }
        for (number, file) in std::mem::take(&mut self.segments) {
            let Some(limit) = span.limit(number) else {
                drop(file);
                self.dir.remove(&segment_name(number))?;
                continue;
            };
            if file.len()? > limit {
                file.set_len(limit)?;
            }
            file.sync(SyncKind::Full)?;
            self.segments.insert(number, file);
        }
        let (last, off) = span.end();
        for number in span.first()..=last {
            let len = self.segments.get(&number).map_or(Ok(0), |f| f.len())?;
            if len == 0 || (number == last && len < off) {
                return Err(damaged(number, len, "the copy does not have all of it"));
            }
        }
        for (name, bytes) in [(STATE, state), (END, &span.end.encode())] {
            let file = self.dir.open(name, OpenMode::Create)?;
            file.set_len(0)?;
            file.write_at(bytes, 0)?;
            file.sync(SyncKind::Full)?;
        }
        self.dir.sync()?;
        Ok(())
    }
}
