//! Converts a database from one form to the other.
//!
//! It checks source, destination and disk space, and creates a temporary file beside the
//! destination, which removes itself unless the last step succeeds. SQLite recovers the source,
//! whose state is then kept unchanged ([`crate::source`]). Pages are copied, made durable, read
//! back and compared. In place, the copy then replaces the source ([`crate::replace`]); otherwise
//! it gets its name if that is still free. Until then any error leaves the content of the source
//! unchanged; only SQLite's own recovery can write to it.

use crate::archive;
use crate::copy::{self, Input};
use crate::db::Through;
use crate::error::{Error, Result};
use crate::form::{self, Form};
use crate::free_pages::{FreePages, free_pages};
use crate::known;
use crate::lock::unless_cancelled;
use crate::log::left_behind;
use crate::page_source::{self, Pages};
use crate::paths;
use crate::progress::Progress;
use crate::replace;
use crate::rewrite;
use crate::source::Source;
use crate::space::{self, at_most};
use crate::target::{self, Target};
use crate::temp::{self, Temp};
use crate::view;
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
    let target = match dst {
        Some(_) => target::resolve_to_read(api, src)?,
        None => target::resolve(src)?,
    };
    let through = check_form(api, to, &target)?;
    match dst {
        Some(dst) => {
            target::must_be_another(&target, dst)?;
            paths::must_be_free(dst)?;
        }
        None if target.links > 1 => {
            return Err(Error::SeveralLinks {
                path: target.given,
                links: target.links,
            });
        }
        None => {}
    }
    let wanted = dst.unwrap_or(&target.path);
    temp::clear_leftovers(wanted, progress)?;
    if to == To::Compressed {
        // A rewrite has a draft beside the result.
        let copies = if options.page_size.is_some() { 2 } else { 1 };
        space::require(wanted, at_most(target.len.saturating_mul(copies)))?;
    }

    let temp = Temp::create(wanted, &target, dst.is_none())?;
    let mut source = match dst {
        Some(_) => unless_cancelled(&target, options.wait, progress, |wait| {
            Source::shared(api, through, &target, wait)
        })?,
        None => unless_cancelled(&target, options.wait, progress, |wait| {
            let source = Source::alone(api, through, &target, wait)?;
            replace::wait_for_others(&target, wait)?;
            Ok(source)
        })?,
    };
    if to == To::Compressed && dst.is_none() && !options.known_program {
        must_be_of_no_known_program(api, &source, &target)?;
    }
    let header = source.header();
    // If pages of a WAL are laid over the file, the frames of the file do not show which pieces
    // hold data.
    let held = match to == To::Plain && source.state().is_file_alone() {
        true => Some(copy::held(api, &target)?),
        false => None,
    };
    if to == To::Plain {
        let len = source.len();
        let bytes = held.as_ref().map_or(len, |h| copy::held_bytes(h, len));
        space::require(wanted, at_most(bytes))?;
    }
    let source_bytes = target.len_now();
    let is_rewritten = options
        .page_size
        .is_some_and(|size| size != header.page_size);
    let mut free = match to {
        To::Compressed if is_rewritten => FreePages {
            // A rewrite reads only what tables use.
            leaves: page_source::free_leaves(&mut source, &header)?,
            ..FreePages::default()
        },
        To::Compressed => free_pages(api, &mut source, &target.given, progress)?,
        // The store returns zeros for free pages that it dropped.
        To::Plain => FreePages::default(),
    };
    let conflict = free.conflict(&target.given);
    let without_freelist = conflict.is_some();
    if let Some(conflict) = conflict {
        // Without the list, auto_vacuum would find free pages in its map that are not in the list.
        if !options.keeps_damage || header.auto_vacuum != AutoVacuum::None {
            return Err(conflict);
        }
        free.leaves = PageSet::default();
    }
    let free_pages_zeroed = free.leaves.len();
    let mut input = Input {
        pages: &mut source,
        header,
        zero: free.leaves,
        held,
        without_freelist,
        scrub: to == To::Compressed,
        path: &target.given,
    };

    let (mut temp, page_size, pages) = match options.page_size {
        Some(size) if to == To::Compressed && size != header.page_size => {
            let job = rewrite::Job {
                api,
                state: source.state(),
                through,
                temp,
                wanted,
                replaces: dst.is_none(),
                to: Through::Densite,
                options: &options.store,
                page_size: Some(size),
                prune: None,
            };
            let new = rewrite::rewrite(job, progress)?;
            (new.temp, size, new.pages)
        }
        _ => {
            match to {
                To::Compressed => {
                    copy::to_compressed(&mut input, &temp, &options.store, progress)?;
                    copy::prove_compressed(&mut input, &temp, &options.store, progress)?;
                }
                To::Plain => {
                    copy::to_plain(&mut input, &temp, progress)?;
                    copy::prove_plain(&mut input, &temp, progress)?;
                }
            }
            (
                temp,
                header.page_size,
                source.len() / u64::from(header.page_size),
            )
        }
    };

    source.confirm()?;
    failpoint::at("verified");
    if progress.cancelled() {
        return Err(Error::Interrupted { path: target.given });
    }
    let (destination_bytes, _) = temp.sizes()?;
    // A small one that is only a little larger can be meant to grow.
    let is_larger = to == To::Compressed && destination_bytes > source_bytes + source_bytes / 2;
    if options.not_larger && dst.is_none() && is_larger {
        return Err(Error::Larger {
            path: target.given,
            plain: source_bytes,
            compressed: destination_bytes,
        });
    }
    match dst {
        Some(dst) => {
            temp.rename_to(dst)?;
            if let Some(word) = left_behind(api, &target.given, dst) {
                progress.message(&word);
            }
        }
        None => replace::replace(&source, &target, temp, options.wait, progress)?,
    }
    drop(source);
    Ok(ConvertReport {
        source: target.given,
        destination: wanted.to_path_buf(),
        in_place: dst.is_none(),
        page_size,
        pages,
        free_pages_zeroed,
        free_pages_in_use: free.in_use.len(),
        source_bytes,
        destination_bytes,
        elapsed: started.elapsed(),
    })
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
