//! Converts a database from one form to the other.
//!
//! It checks source, destination and disk space, and creates a temporary file beside the
//! destination, which removes itself unless the last step succeeds. SQLite recovers the source,
//! whose state is then kept unchanged ([`crate::source`]). Pages are copied, made durable, read
//! back and compared. In place, the copy then replaces the source ([`crate::replace`]); otherwise
//! it gets its name if that is still free. Until then any error leaves the content of the source
//! unchanged; only SQLite's own recovery can write to it.

use crate::copy::{self, Input};
use crate::db::Through;
use crate::disk_space::{self, at_most};
use crate::error::{Error, Result};
use crate::form::{self, Form};
use crate::free_pages::free_pages;
use crate::lock::unless_cancelled;
use crate::log::left_behind;
use crate::progress::Progress;
use crate::source::{self, Pages, Source};
use crate::target::{self, Target};
use crate::temp::{self, Temp};
use crate::{archive, known, replace, rewrite, view};
use densite_sqlite::Api;
use densite_sqlite_format::{AutoVacuum, PageSet};
use densite_store::Options;
use densite_vfs::failpoint;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of a conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertOptions {
    /// Settings of the compressed file's frames, threads and cache.
    pub store: Options,
    /// Whether small size is more important than fast reads.
    pub archive: bool,
    /// Whether a database is converted whose freelist names pages that tables use. The copy keeps
    /// them, and has no freelist.
    pub keeps_damage: bool,
    /// Whether the database of a well-known program is compressed in place, which opens it with a
    /// SQLite of its own, and could not open it any more.
    pub known_program: bool,
    /// The page size in bytes of the result, if it differs: the database is then rewritten.
    pub page_size: Option<u32>,
    /// Whether to refuse to replace a plain database by a compressed one that is half as large again.
    pub not_larger: bool,
    /// How long to wait for the lock of another connection.
    pub wait: Duration,
}

impl Default for ConvertOptions {
    fn default() -> Self {
        ConvertOptions {
            store: Options::default(),
            archive: false,
            keeps_damage: false,
            known_program: false,
            page_size: None,
            not_larger: false,
            wait: Duration::from_secs(5),
        }
    }
}

/// The result of a conversion.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConvertReport {
    /// The source, as the caller gave it.
    pub source: PathBuf,
    /// The file that holds the result.
    pub destination: PathBuf,
    /// Whether the result replaced the source.
    pub in_place: bool,
    /// Bytes per page of the result.
    pub page_size: u32,
    /// Pages of the result.
    pub pages: u64,
    /// Pages of SQLite's freelist whose content was not copied.
    pub free_pages_zeroed: u64,
    /// Pages that the freelist names and that tables use. They were kept.
    pub free_pages_in_use: u64,
    /// Length of the source's file in bytes, after recovery.
    pub source_bytes: u64,
    /// Length of the result's file in bytes.
    pub destination_bytes: u64,
    /// Wall time.
    pub elapsed: Duration,
}

impl ConvertReport {
    /// Bytes of the result for each byte of the source; 0 for an empty source.
    pub fn ratio(&self) -> f64 {
        match self.source_bytes {
            0 => 0.0,
            source => self.destination_bytes as f64 / source as f64,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Compressed,
    Plain,
}

/// Converts the plain database `src` into a compressed one, at `dst` or in place.
///
/// # Errors
/// See [`Error`]. After any error the content of `src` is unchanged and `dst` does not exist.
pub fn compress(
    api: Api,
    src: &Path,
    dst: Option<&Path>,
    options: &ConvertOptions,
    progress: &mut dyn Progress,
) -> Result<ConvertReport> {
    let archive = options.archive.then(|| ConvertOptions {
        store: archive::options(&options.store),
        ..options.clone()
    });
    let options = archive.as_ref().unwrap_or(options);
    convert(api, To::Compressed, src, dst, options, progress)
}

/// Converts the compressed database `src` into a plain one, at `dst` or in place.
///
/// # Errors
/// See [`Error`]. After any error the content of `src` is unchanged and `dst` does not exist.
pub fn decompress(
    api: Api,
    src: &Path,
    dst: Option<&Path>,
    options: &ConvertOptions,
    progress: &mut dyn Progress,
) -> Result<ConvertReport> {
    convert(api, To::Plain, src, dst, options, progress)
}

fn convert(
    api: Api,
    to: To,
    src: &Path,
    dst: Option<&Path>,
    options: &ConvertOptions,
    progress: &mut dyn Progress,
) -> Result<ConvertReport> {
    let started = Instant::now();
    let conversion = Conversion::of(api, to, src, dst, options)?;
    let temp = conversion.make_room(progress)?;
    let mut source = conversion.hold(progress)?;
    let source_bytes = conversion.target.len_now();
    let parts = conversion.parts(&mut source, progress)?;
    let (zeroed, in_use) = (parts.zero.len(), parts.in_use);
    let (temp, page_size, pages) = match conversion.new_page_size(&source) {
        Some(size) => conversion.rewrite(&source, temp, size, progress)?,
        None => conversion.copy(&mut source, parts, temp, progress)?,
    };
    source.confirm()?;
    failpoint::at("verified");
    if progress.cancelled() {
        let path = conversion.target.given;
        return Err(Error::Interrupted { path });
    }
    let (destination_bytes, _) = temp.sizes()?;
    conversion.must_not_grow(source_bytes, destination_bytes)?;
    conversion.give_its_name(source, temp, progress)?;
    Ok(ConvertReport {
        destination: conversion.wanted().to_path_buf(),
        in_place: dst.is_none(),
        page_size,
        pages,
        free_pages_zeroed: zeroed,
        free_pages_in_use: in_use,
        source_bytes,
        destination_bytes,
        elapsed: started.elapsed(),
        source: conversion.target.given,
    })
}

/// From which form to which, where, and how. Its methods are the steps.
struct Conversion<'a> {
    api: Api,
    to: To,
    target: Target,
    /// The VFS to read the source with.
    through: Through,
    /// `None`: in place.
    dst: Option<&'a Path>,
    options: &'a ConvertOptions,
}

/// What a copy takes of the source.
#[derive(Default)]
struct Parts {
    /// See [`Input::zero`].
    zero: PageSet,
    /// See [`Input::held`].
    held: Option<PageSet>,
    /// Free pages that b-trees use.
    in_use: u64,
}

impl<'a> Conversion<'a> {
    fn of(
        api: Api,
        to: To,
        src: &Path,
        dst: Option<&'a Path>,
        options: &'a ConvertOptions,
    ) -> Result<Conversion<'a>> {
        let target = match dst {
            Some(_) => target::resolve_to_read(api, src)?,
            None => target::resolve(src)?,
        };
        let through = check_form(api, to, &target)?;
        if let Some(dst) = dst {
            target::must_be_another(&target, dst)?;
            target::must_be_free(dst)?;
        } else if target.links > 1 {
            return Err(Error::SeveralLinks {
                path: target.given,
                links: target.links,
            });
        }
        Ok(Conversion {
            api,
            to,
            target,
            through,
            dst,
            options,
        })
    }

    /// The path of the result.
    fn wanted(&self) -> &Path {
        self.dst.unwrap_or(&self.target.path)
    }

    /// The file for the result, if the disk has space for it.
    fn make_room(&self, progress: &mut dyn Progress) -> Result<Temp> {
        let wanted = self.wanted();
        temp::clear_leftovers(wanted, progress)?;
        if self.to == To::Compressed {
            // A rewrite has a draft beside the result.
            let copies = 1 + u64::from(self.options.page_size.is_some());
            disk_space::require(wanted, at_most(self.target.len.saturating_mul(copies)))?;
        }
        Temp::create(wanted, &self.target, self.dst.is_none())
    }

    /// Keeps the source unchanged: beside other connections, or alone if it is to be replaced.
    fn hold(&self, progress: &mut dyn Progress) -> Result<Source> {
        let (api, through, target) = (self.api, self.through, &self.target);
        let wait = self.options.wait;
        if self.dst.is_some() {
            return unless_cancelled(target, wait, progress, |wait| {
                Source::shared(api, through, target, wait)
            });
        }
        let source = unless_cancelled(target, wait, progress, |wait| {
            let source = Source::alone(api, through, target, wait)?;
            replace::wait_for_others(target, wait)?;
            Ok(source)
        })?;
        if self.to == To::Compressed && !self.options.known_program {
            must_be_of_no_known_program(api, &source, target)?;
        }
        Ok(source)
    }

    fn parts(&self, source: &mut Source, progress: &mut dyn Progress) -> Result<Parts> {
        match self.to {
            To::Compressed => self.without_free_pages(source, progress),
            To::Plain => self.without_holes(source),
        }
    }

    /// Without the free pages.
    fn without_free_pages(
        &self,
        source: &mut Source,
        progress: &mut dyn Progress,
    ) -> Result<Parts> {
        let header = source.header();
        if self.new_page_size(source).is_some() {
            // A rewrite reads only what tables use.
            return Ok(Parts {
                zero: source::free_leaves(source, &header)?,
                ..Parts::default()
            });
        }
        let free = free_pages(self.api, source, &self.target.given, progress)?;
        let Some(conflict) = free.conflict(&self.target.given) else {
            return Ok(Parts {
                zero: free.leaves,
                ..Parts::default()
            });
        };
        // Without the list, auto_vacuum would find free pages in its map that are not in the list.
        if !self.options.keeps_damage || header.auto_vacuum != AutoVacuum::None {
            return Err(conflict);
        }
        Ok(Parts {
            in_use: free.in_use.len(),
            ..Parts::default()
        })
    }

    /// Without the free pages that the store dropped, for which it returns zeros. Checks the space
    /// for the rest.
    fn without_holes(&self, source: &Source) -> Result<Parts> {
        // If pages of a WAL are laid over the file, the frames of the file do not show which pieces
        // hold data.
        let held = match source.state().is_file_alone() {
            true => Some(copy::held(self.api, &self.target)?),
            false => None,
        };
        let len = source.len();
        let bytes = held.as_ref().map_or(len, |h| copy::held_bytes(h, len));
        disk_space::require(self.wanted(), at_most(bytes))?;
        Ok(Parts {
            held,
            ..Parts::default()
        })
    }

    /// The page size of the result, if it is another one.
    fn new_page_size(&self, source: &Source) -> Option<u32> {
        let wanted = self.options.page_size.filter(|_| self.to == To::Compressed);
        wanted.filter(|size| *size != source.header().page_size)
    }

    /// Copies all pages and proves the copy. Returns it, its page size and its pages.
    fn copy(
        &self,
        source: &mut Source,
        parts: Parts,
        temp: Temp,
        progress: &mut dyn Progress,
    ) -> Result<(Temp, u32, u64)> {
        let header = source.header();
        let pages = source.len() / u64::from(header.page_size);
        let mut input = Input {
            pages: source,
            header,
            zero: parts.zero,
            held: parts.held,
            without_freelist: parts.in_use > 0,
            scrub: self.to == To::Compressed,
            path: &self.target.given,
        };
        match self.to {
            To::Compressed => {
                let options = &self.options.store;
                copy::to_compressed(&mut input, &temp, options, progress)?;
                copy::prove_compressed(&mut input, &temp, options, progress)?;
            }
            To::Plain => {
                copy::to_plain(&mut input, &temp, progress)?;
                copy::prove_plain(&mut input, &temp, progress)?;
            }
        }
        Ok((temp, header.page_size, pages))
    }

    /// Writes the tables with another page size. Returns the same as [`Conversion::copy`].
    fn rewrite(
        &self,
        source: &Source,
        temp: Temp,
        page_size: u32,
        progress: &mut dyn Progress,
    ) -> Result<(Temp, u32, u64)> {
        let job = rewrite::Job {
            api: self.api,
            state: source.state(),
            through: self.through,
            temp,
            wanted: self.wanted(),
            replaces: self.dst.is_none(),
            to: Through::Densite,
            options: &self.options.store,
            page_size: Some(page_size),
            prune: None,
        };
        let new = rewrite::rewrite(job, progress)?;
        Ok((new.temp, page_size, new.pages))
    }

    /// A small result that is only a little larger is allowed: it can be meant to grow.
    fn must_not_grow(&self, before: u64, after: u64) -> Result<()> {
        let replaces = self.to == To::Compressed && self.dst.is_none();
        if self.options.not_larger && replaces && after > before + before / 2 {
            return Err(Error::Larger {
                path: self.target.given.clone(),
                plain: before,
                compressed: after,
            });
        }
        Ok(())
    }

    /// The last step, which ends with the result under its name.
    fn give_its_name(
        &self,
        source: Source,
        mut temp: Temp,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        let Some(dst) = self.dst else {
            return replace::replace(&source, &self.target, temp, self.options.wait, progress);
        };
        temp.rename_to(dst)?;
        if let Some(word) = left_behind(self.api, &self.target.given, dst) {
            progress.message(&word);
        }
        Ok(())
    }
}

/// Returns an error if the database is one of a program that opens it with a SQLite of its own.
fn must_be_of_no_known_program(api: Api, source: &Source, target: &Target) -> Result<()> {
    // A schema that cannot be read is that of no program.
    match view::reading(api, &source.state(), known::program) {
        Ok(Some(program)) => Err(Error::KnownProgram {
            path: target.given.clone(),
            program,
        }),
        _ => Ok(()),
    }
}

/// Checks that the source has the form to convert from, and returns the VFS to read it with.
fn check_form(api: Api, to: To, target: &Target) -> Result<Through> {
    let through = through_of(api, target)?;
    match (to, through) {
        (To::Compressed, Through::Densite) => Err(Error::AlreadyCompressed {
            path: target.given.clone(),
        }),
        (To::Plain, Through::Host) => Err(Error::AlreadyPlain {
            path: target.given.clone(),
        }),
        _ => Ok(through),
    }
}

/// The VFS to read a database with.
pub(crate) fn through_of(api: Api, target: &Target) -> Result<Through> {
    match form::form(api, target)? {
        Form::Plain => Ok(Through::Host),
        Form::Compressed => {
            // Opening the store here reports damage and newer formats in full. Through the VFS,
            // SQLite would only get an error code.
            let file = Through::Host.file(api, target, crate::db::Access::Read)?;
            drop(
                form::open_store(target, file)
                    .map_err(|e| Error::from_store(&target.given, "open", e))?,
            );
            Ok(Through::Densite)
        }
        Form::Empty => Err(Error::NotADatabase {
            path: target.given.clone(),
            empty: true,
        }),
    }
}
