//! The damaged database, read in the best way that works.

use super::raw::RawFile;
use super::scanned::{Scanned, WithScan};
use crate::error::{Error, Result};
use crate::form::{self, Form};
use crate::progress::Progress;
use crate::source::{self, Pages, Source};
use crate::target::Target;
use densite_sqlite::Api;
use std::time::Duration;

/// See the module.
pub(super) enum Opened {
    /// A plain file, through SQLite.
    Plain(Box<Source>),
    /// A plain file that SQLite does not read.
    Raw(RawFile),
    /// A Densite file, through SQLite.
    Compressed(Box<WithScan>),
    /// A Densite file that cannot be opened.
    Scanned(Box<Scanned>),
}

impl Opened {
    /// # Errors
    /// As those of [`super::salvage`].
    pub(super) fn open(
        api: Api,
        target: &Target,
        wait: Duration,
        progress: &mut dyn Progress,
    ) -> Result<Opened> {
        let form = match form::form(api, target) {
            Ok(form) => form,
            // Its first bytes can be lost.
            Err(e @ (Error::NotADatabase { .. } | Error::Damaged { .. })) => {
                return scan(target, e, progress);
            }
            Err(e) => return Err(e),
        };
        let opened = Source::shared(api, form.through(), target, wait);
        Ok(match (form, opened) {
            (Form::Empty, _) => {
                return Err(Error::NotADatabase {
                    path: target.given.clone(),
                    empty: true,
                });
            }
            (Form::Plain, Ok(source)) => Opened::Plain(Box::new(source)),
            (Form::Plain, Err(Error::Damaged { .. })) => Opened::Raw(RawFile::open(target)?),
            (Form::Compressed, Ok(source)) => {
                Opened::Compressed(Box::new(WithScan::new(source, target.clone())))
            }
            (Form::Compressed, Err(e @ Error::Damaged { .. })) => {
                return scan(target, e, progress);
            }
            (_, Err(e)) => return Err(e),
        })
    }

    pub(super) fn form(&self) -> Form {
        match self {
            Opened::Plain(_) | Opened::Raw(_) => Form::Plain,
            Opened::Compressed(_) | Opened::Scanned(_) => Form::Compressed,
        }
    }

    pub(super) fn pages(&mut self) -> &mut dyn Pages {
        match self {
            Opened::Plain(source) => &mut **source,
            Opened::Raw(file) => file,
            Opened::Compressed(source) => &mut **source,
            Opened::Scanned(file) => &mut **file,
        }
    }

    /// Whether pages were found by their frames alone.
    pub(super) fn is_by_frames(&self) -> bool {
        match self {
            Opened::Plain(_) | Opened::Raw(_) => false,
            Opened::Compressed(source) => source.has_helped(),
            Opened::Scanned(_) => true,
        }
    }

    /// Checks that what was read was one state, as far as it can be known.
    ///
    /// # Errors
    /// [`Error::Locked`]; I/O.
    pub(super) fn confirm(&self) -> Result<()> {
        match self {
            Opened::Plain(source) => source.confirm(),
            Opened::Compressed(source) => source.source().confirm(),
            Opened::Raw(_) | Opened::Scanned(_) => Ok(()),
        }
    }
}

/// Finds the pages of a file that cannot be opened for the reason `e`, which is returned if there
/// is no first page.
fn scan(target: &Target, e: Error, progress: &mut dyn Progress) -> Result<Opened> {
    progress.phase("looking for pages", target.len);
    let mut done = |read| {
        progress.done(read);
        !progress.cancelled()
    };
    let mut scanned = match Scanned::open(target, &mut done) {
        Ok(scanned) => scanned,
        Err(e @ Error::Interrupted { .. }) => return Err(e),
        Err(_) => return Err(e),
    };
    match source::header(&mut scanned, &target.given) {
        Ok(_) => Ok(Opened::Scanned(Box::new(scanned))),
        Err(_) => Err(e),
    }
}
