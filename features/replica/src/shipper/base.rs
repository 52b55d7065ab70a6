//! Shipping an image of the whole file.

use super::logging::footer_log;
use super::{Position, Shipper, Step, Wanted, millis};
use crate::assemble::{Assembly, Copied};
use crate::error::{Error, Result};
use crate::extents::{BASE_END, Writer};
use crate::format::{Base, Footer, Kind, NO_HASH};
use crate::names;
use crate::source::Source;

/// When the deltas since a base have so many times its bytes, a new base is shipped.
const GROWTH: u64 = 4;
/// No new base comes for deltas of fewer bytes.
const GROWTH_LEAST: u64 = 4 << 20;
/// So many bytes that readers need first are stored a second time, at the end of a base, which
/// followers read first ([`BASE_END`]).
const FIRST: u64 = 384 << 10;
// The table and the footer come behind it.
const _: () = assert!(FIRST + (32 << 10) <= BASE_END);
/// Only in the base of a file of more bytes. Smaller ones are read as a whole.
const FIRST_FROM: u64 = 1 << 20;

/// After damage of the database was found, its pages are not verified again for this time.
const DAMAGE_AGE_MS: u64 = 10 * 60_000;

/// Proves that the stored pages of the database were verified just now.
pub(super) struct Verified(());

/// Damage of the database that was found, and when.
pub(super) struct Damage {
    found_ms: u64,
    error: Error,
}

impl Shipper {
    /// Verifies every stored page, before anything in the bucket changes: a base with a damaged page
    /// would take the place of the last copy that has it.
    ///
    /// # Errors
    /// [`Error::SourceDamaged`], for some time without reading again; the source's.
    pub(super) fn verify(
        &mut self,
        source: &mut dyn Source,
        now_ms: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Verified> {
        if let Some(damage) = self.known_damage(now_ms) {
            return Err(damage.error.clone());
        }
        self.damage = None;
        verified(source, progress).inspect_err(|e| {
            if matches!(e, Error::SourceDamaged(_)) {
                self.damage = Some(Damage {
                    found_ms: now_ms,
                    error: e.clone(),
                });
            }
        })
    }

    fn known_damage(&self, now_ms: u64) -> Option<&Damage> {
        let is_known = |d: &&Damage| now_ms.saturating_sub(d.found_ms) < DAMAGE_AGE_MS;
        self.damage.as_ref().filter(is_known)
    }

    /// Whether the next change is shipped with a new base.
    pub(super) fn base_is_due(&self, now_ms: u64) -> bool {
        // Deltas do not carry old damage along. They continue while no base can be sent.
        if self.known_damage(now_ms).is_some() {
            return false;
        }
        self.head.newest_base().is_some_and(|base| {
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
        let verified = self.verify(source, now_ms, progress)?;
        self.end_chain(now_ms)?;
        self.ship_base(source, verified, self.at.n, now_ms, progress)
    }

    /// Ships a base as restore point `n` of the current generation.
    pub(super) fn ship_base(
        &mut self,
        source: &mut dyn Source,
        _: Verified,
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
        // Until the next delta, nothing follows.
        match self.head.add_base(&*self.bucket, base, retain, now_ms)? {
            true => self.at = at,
            false => {
                self.is_behind = true;
                self.find_end(Wanted::Known)?;
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
        let first = match len > FIRST_FROM {
            true => source.first_places(FIRST)?,
            false => Vec::new(),
        };
        let name = names::base(self.generation(), n)?;
        let upload = self.bucket.upload(&name, len)?;
        let mut writer = Writer::new(upload);
        let assembly = Assembly::new(source, &mut writer, start, vec![(0, len)], progress);
        let assembly = assembly.repeating(first).waiting();
        let Copied::Whole(to, image_len, image) = assembly.run()? else {
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

/// Verifies every stored page.
///
/// # Errors
/// [`Error::SourceDamaged`], [`Error::Stopped`]; the source's.
pub(super) fn verified(
    source: &mut dyn Source,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Verified> {
    let mut next = Some(1);
    while let Some(first) = next {
        next = source.check_stored(first)?;
        if !progress(0) {
            return Err(Error::Stopped);
        }
    }
    Ok(Verified(()))
}

/// The error for a database without bytes.
pub(super) fn empty() -> Error {
    Error::Source("the database is empty; create a table first".to_owned())
}
