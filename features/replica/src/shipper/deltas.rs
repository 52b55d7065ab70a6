//! Making and creating deltas.

use super::logging::footer_log;
use super::{Made, Position, Shipper, Step};
use crate::assemble::{Assembly, Copied, Ranges};
use crate::error::{Error, Result};
use crate::extents::Writer;
use crate::format::{Footer, Kind};
use crate::names;
use crate::source::Source;
use densite_log::{Image, News};
use densite_store::CommitId;

/// What became of a delta.
pub(super) enum Delta {
    Made(Box<Made>),
    HeldBack,
    /// It cannot be told what has changed.
    Unknown,
}

impl Shipper {
    /// Makes the next delta, up to `point`.
    pub(super) fn delta(
        &mut self,
        source: &mut dyn Source,
        point: CommitId,
        ranges: Ranges,
        image: Option<Image>,
        now_ms: u64,
    ) -> Result<Delta> {
        let mut writer = Writer::new(Vec::new());
        let go_on = &mut |_| true;
        let assembly = Assembly::new(source, &mut writer, point, ranges, go_on).at_point(image);
        let (to, image_len, image) = match assembly.run()? {
            Copied::Whole(to, image_len, image) => (to, image_len, image),
            Copied::HeldBack => return Ok(Delta::HeldBack),
            Copied::Lost => return Ok(Delta::Unknown),
        };
        let log = match &image {
            Some(image) => {
                let news = self.log_news(Some(image))?;
                Some(Shipper::put_log(&mut writer, image, &news)?)
            }
            None => None,
        };
        let then = Position {
            mark: to,
            image_len,
            log,
            state_ms: now_ms.max(self.at.time_ms),
            ..self.at
        };
        self.made(writer, then, false, now_ms)
            .map(|made| Delta::Made(Box::new(made)))
    }

    /// Ships what is new in the log, with the state of the database that is in the bucket. Whether
    /// that is the newest one, `is_held_back` says.
    pub(super) fn ship_log(
        &mut self,
        image: Option<&Image>,
        news: &News,
        is_held_back: bool,
        now_ms: u64,
    ) -> Result<Step> {
        let mut writer = Writer::new(Vec::new());
        let log = image.map(|image| Shipper::put_log(&mut writer, image, news));
        let mut then = Position {
            log: log.transpose()?,
            ..self.at
        };
        if !is_held_back {
            then.state_ms = now_ms.max(self.at.time_ms);
        }
        let made = self.made(writer, then, is_held_back, now_ms)?;
        self.create_delta(made, now_ms)
    }

    /// Ends the next delta, which leads to `then`.
    fn made(
        &self,
        writer: Writer<Vec<u8>>,
        then: Position,
        is_held_back: bool,
        now_ms: u64,
    ) -> Result<Made> {
        let n = self.at.n + 1;
        let footer = Footer {
            from: Some(self.at.mark),
            to: Some(then.mark),
            image_len: then.image_len,
            log: footer_log(&then.log),
            ..self.footer(Kind::Delta, n, now_ms)
        };
        let time_ms = footer.time_ms;
        let (bytes, _, chain) = writer.finish(footer)?;
        Ok(Made {
            name: names::delta(self.generation(), n),
            bytes,
            is_held_back,
            then: Position {
                n,
                chain,
                time_ms,
                is_ended: false,
                ..then
            },
        })
    }

    /// Creates a delta. If the bucket fails, it is created by the next step.
    pub(super) fn create_delta(&mut self, made: Made, now_ms: u64) -> Result<Step> {
        let created = match self.head.end_rest(&*self.bucket) {
            Ok(()) => self.create(&made.name, &made.bytes),
            Err(e) => Err(e),
        };
        match created {
            Ok(()) => {}
            Err(e) => {
                if matches!(e, Error::Bucket(_)) {
                    self.unsure = Some(made);
                }
                return Err(e);
            }
        }
        let (n, bytes) = (made.then.n, made.bytes.len() as u64);
        let is_held_back = made.is_held_back;
        self.at = made.then;
        self.since_base += bytes;
        self.loose_bytes += bytes;
        self.shipped_ms = now_ms;
        self.recent.keep(made.name, made.bytes);
        // The delta is shipped. A failure comes again with the next one.
        let _ = self.compact_many(now_ms);
        Ok(Step::Shipped {
            n,
            bytes,
            is_held_back,
        })
    }
}
