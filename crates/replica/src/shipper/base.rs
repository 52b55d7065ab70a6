//! Shipping an image of the whole file.

use super::logging::footer_log;
use super::{Position, Shipper, Step, millis};
use crate::assemble::{Assembly, Copied};
use crate::error::{Error, Result};
use crate::extents::Writer;
use crate::format::{Base, Footer, Kind, NO_HASH};
use crate::names;
use crate::source::Source;
use densite_store::PREAMBLE_LEN;

/// When the deltas since a base have so many times its bytes, a new base is shipped.
const GROWTH: u64 = 4;
/// No new base comes for deltas of fewer bytes.
const GROWTH_LEAST: u64 = 4 << 20;
/// So many bytes behind the preamble are stored a second time, at the end of a base: followers read
/// that first.
const BEGINNING: u64 = 64 << 10;
/// Only in the base of a file of more bytes. Smaller ones are read as a whole.
const BEGINNING_FROM: u64 = 1 << 20;

impl Shipper {
    /// Whether the next change is shipped with a new base.
    pub(super) fn base_is_due(&self, now_ms: u64) -> bool {
        self.heading.newest_base().is_some_and(|base| {
            now_ms.saturating_sub(base.time_ms) >= millis(self.options.base_every)
                || self.since_base > (GROWTH * base.bytes).max(GROWTH_LEAST)
        })
    }

    /// Ships a base as the next restore point.
    pub(super) fn next_base(
        &mut self,
        source: &mut dyn Source,
        now_ms: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Step> {
        self.end_chain(now_ms)?;
        self.ship_base(source, self.at.n, now_ms, progress)
    }

    /// Ships a base as restore point `n` of the current generation.
    pub(super) fn ship_base(
        &mut self,
        source: &mut dyn Source,
        n: u64,
        now_ms: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Step> {
        let (at, base) = loop {
            if let Some(done) = self.upload_base(source, n, now_ms, progress)? {
                break done;
            }
        };
        let bytes = base.bytes;
        let retain = self.options.retain;
        match self.heading.add_base(&*self.bucket, base, retain, now_ms)? {
            true => self.at = at,
            false => {
                self.is_behind = true;
                self.find_end(false)?;
                self.is_behind = false;
            }
        }
        self.since_base = 0;
        self.loose_bytes = 0;
        self.shipped_ms = now_ms;
        self.recent.clear();
        Ok(Step::Shipped {
            n: self.at.n,
            bytes,
            is_held_back: false,
        })
    }

    /// Uploads a base. Returns the position that it is, and its entry of the head; `None` if the file
    /// changed so much that what was sent is of no use.
    fn upload_base(
        &mut self,
        source: &mut dyn Source,
        n: u64,
        now_ms: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<(Position, Base)>> {
        let start = source.newest()?.ok_or_else(empty)?;
        let Some(len) = source.image_len(&start)? else {
            return Ok(None);
        };
        let name = names::base(self.generation(), n)?;
        let upload = self.bucket.upload(&name, len)?;
        let mut writer = Writer::new(upload);
        let assembly = Assembly::new(source, &mut writer, start, vec![(0, len)], progress);
        // Every query reads page 1, whose frame is often the first one.
        let beginning = (PREAMBLE_LEN, PREAMBLE_LEN + BEGINNING);
        let assembly = assembly.repeating((len > BEGINNING_FROM).then_some(beginning));
        let Copied::Whole(to, image_len, image) = assembly.waiting().run()? else {
            return Ok(None);
        };
        let log = match image {
            Some(image) => {
                // A damaged log would be noticed by a restore only, when the source is gone.
                image.check()?;
                let all = image.after(None)?;
                Some(Shipper::put_log(&mut writer, &image, &all)?)
            }
            None => None,
        };
        let footer = Footer {
            to: Some(to),
            image_len,
            log: footer_log(&log),
            previous: NO_HASH,
            ..self.footer(Kind::Base, n, now_ms)
        };
        let time_ms = footer.time_ms;
        let (upload, bytes, chain) = writer.finish(footer)?;
        upload.finish()?;
        let at = Position {
            n,
            mark: to,
            image_len,
            log,
            chain,
            time_ms,
            state_ms: time_ms,
            is_ended: false,
        };
        let base = Base {
            name,
            n,
            commit: to.commit(),
            time_ms,
            bytes,
        };
        Ok(Some((at, base)))
    }
}

/// The error for a database without bytes.
pub(super) fn empty() -> Error {
    Error::Source("the database is empty; create a table first".to_owned())
}
