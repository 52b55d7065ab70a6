//! The log of the database in the objects that are shipped.
//!
//! Each object says what its restore point has of the log: whole segments from one at or before the
//! position of the database on. So a restored log always reaches back to its database, and never ends
//! before it. If readers hold back the next state of the database, the log is shipped alone: the
//! state that is in the bucket, with a longer log, is a restore point, too.

use super::Shipper;
use crate::error::Result;
use crate::extents::{Sink, Writer};
use crate::format::Logged;
use crate::log_place;
use densite_disk::hash::xxh3_128;
use densite_log::{Image, News};

/// What of the log is in the bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogShipped {
    pub(super) logged: Logged,
    /// A hash of settings, names of subscribers and rollbacks; `None` if it is not known.
    settings: Option<u128>,
}

impl LogShipped {
    /// What a footer says.
    pub(super) fn of(logged: Logged) -> LogShipped {
        LogShipped {
            logged,
            settings: None,
        }
    }
}

fn settings(image: &Image) -> u128 {
    xxh3_128(&image.settings())
}

/// What a footer says of the log.
pub(super) fn footer_log(log: &Option<LogShipped>) -> Option<Logged> {
    log.as_ref().map(|shipped| shipped.logged)
}

impl Shipper {
    /// What of the log is not in the bucket.
    pub(super) fn log_news(&self, image: Option<&Image>) -> Result<News> {
        let has = self.at.log.as_ref().map(|shipped| shipped.logged.span);
        match image {
            Some(image) => Ok(image.after(has.as_ref())?),
            None => Ok(News {
                parts: Vec::new(),
                continues: true,
            }),
        }
    }

    /// Whether the log or its settings differ from what is in the bucket.
    pub(super) fn log_differs(&self, image: Option<&Image>, news: &News) -> bool {
        match (&self.at.log, image) {
            (None, None) => false,
            (Some(shipped), Some(image)) => {
                let is_known = shipped.settings.is_none_or(|seen| seen == settings(image));
                !news.parts.is_empty() || !is_known
            }
            _ => true,
        }
    }

    /// Whether the log can be shipped without a newer state of the database: it follows what the
    /// bucket has, and was not pruned since. Pruned rows, and rollbacks of pruned rows, are in the
    /// newer state alone.
    pub(super) fn log_goes_on(&self, image: &Image, news: &News) -> bool {
        let first = |shipped: &LogShipped| shipped.logged.span.first();
        news.continues && self.at.log.as_ref().map(first) == Some(image.span().first())
    }

    /// Adds to an object what the bucket lacks of the log.
    pub(super) fn put_log<S: Sink>(
        writer: &mut Writer<S>,
        image: &Image,
        news: &News,
    ) -> Result<LogShipped> {
        Ok(LogShipped {
            logged: log_place::put(writer, image, &news.parts)?,
            settings: Some(settings(image)),
        })
    }
}
