//! Rewrites a database in the place of its file, without deleted data and free space
//! (docs/decisions/vacuum.md).
//!
//! [`VacuumPlan::new`] computes the figures, and [`VacuumPlan::check`] checks that there is space
//! and that a file can be created beside it. Then SQLite recovers the database, which is held alone
//! ([`crate::source`]). It is pruned in a view that is not in any file, written and proved
//! ([`crate::rewrite`]). A rename replaces the file ([`crate::replace`]), unless the new one is
//! larger and nothing was pruned. Until then the content is unchanged.

use crate::archive;
use crate::db::Through;
use crate::disk_space;
use crate::error::{Error, Result};
use crate::form::{self, Form};
use crate::gain::Gain;
use crate::holders::holders;
use crate::info::{self, Info};
use crate::lock::{patiently, unless_cancelled};
use crate::progress::Progress;
use crate::replace;
use crate::rewrite::{self, Prune};
use crate::source::{self, PAUSE, STEP, Source};
use crate::target::{self, Target};
use crate::temp::{self, Temp};
use densite_disk::wait::Retry;
use densite_sqlite::Api;
use densite_store::Options;
use densite_vfs::failpoint;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of a vacuum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VacuumOptions {
    /// Settings of a compressed file's new frames, threads and cache.
    pub store: Options,
    /// How long to wait for the lock of another connection.
    pub wait: Duration,
}

impl Default for VacuumOptions {
    fn default() -> Self {
        VacuumOptions {
            store: Options::default(),
            wait: Duration::from_secs(5),
        }
    }
}

/// The result of a vacuum.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VacuumReport {
    /// The path as given.
    pub path: PathBuf,
    /// How it is stored, before and after.
    pub form: Form,
    /// Bytes per page.
    pub page_size: u32,
    /// Pages before.
    pub pages_before: u64,
    /// Pages after.
    pub pages_after: u64,
    /// Length of the file in bytes before.
    pub bytes_before: u64,
    /// Length of the file in bytes after.
    pub bytes_after: u64,
    /// Bytes that the file occupied on disk before.
    pub allocated_before: u64,
    /// Bytes that the file occupies on disk after.
    pub allocated_after: u64,
    /// Number of tables that were compared with the old ones.
    pub tables: u64,
    /// Number of indexes that were compared.
    pub indexes: u64,
    /// Number of rows of the tables.
    pub rows: u64,
    /// Whether the new file replaced the old one: it was not larger, or something was pruned.
    pub replaced: bool,
    /// Length in bytes of the new file, whether it was used or not.
    pub written_bytes: u64,
    /// Wall time, without the time for asking the user.
    pub elapsed: Duration,
}

impl VacuumReport {
    /// Bytes freed on disk; negative if the file occupies more than before.
    pub fn freed_bytes(&self) -> i64 {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        signed(self.allocated_before) - signed(self.allocated_after)
    }
}

/// Rewrites a database in place, compressed or plain as it is, without asking.
///
/// # Errors
/// See [`Error`]. After any error the content of the database is unchanged.
pub fn vacuum(
    api: Api,
    path: &Path,
    options: &VacuumOptions,
    progress: &mut dyn Progress,
) -> Result<VacuumReport> {
    let plan = VacuumPlan::new(api, path, options)?;
    plan.check()?;
    plan.run(options, None, progress)
}

/// A planned vacuum: what it would free and what it needs.
#[derive(Debug, Clone)]
pub struct VacuumPlan {
    api: Api,
    target: Target,
    info: Info,
    gain: Gain,
    looked: Duration,
}

impl VacuumPlan {
    /// Plans the vacuum of a database. SQLite rolls back a hot journal and writes a WAL into the
    /// file, as far as other connections allow.
    ///
    /// # Errors
    /// Any [`Error`] that prevents the vacuum, except for space and permission.
    pub fn new(api: Api, path: &Path, options: &VacuumOptions) -> Result<VacuumPlan> {
        let started = Instant::now();
        loop {
            let plan = VacuumPlan::try_new(api, path, options)?;
            // If this process waited for another vacuum, the plan is that of the replaced file.
            if target::still_there(&plan.target).is_ok() {
                return Ok(VacuumPlan {
                    looked: started.elapsed(),
                    ..plan
                });
            }
        }
    }

    fn try_new(api: Api, path: &Path, options: &VacuumOptions) -> Result<VacuumPlan> {
        let target = target::resolve(path)?;
        let through = form::form(api, &target)?.through();
        if target.links > 1 {
            return Err(Error::SeveralLinks {
                path: target.given,
                links: target.links,
            });
        }
        if through == Through::Densite {
            // Opening the store here reports damage and newer formats in full. Through the VFS,
            // SQLite would only get an error code.
            let file = Through::Host.file(api, &target, crate::db::Access::Read)?;
            let opened = form::open_store(&target, file);
            drop(opened.map_err(|e| Error::from_store(&target.given, "open", e))?);
        }
        let (info, failed) = patiently(Retry::within(options.wait).every(PAUSE), || {
            drop(source::open_reading(api, through, &target, STEP)?);
            whole(api, through, &target)
        })?;
        if info.form == Form::Empty {
            return Err(Error::NotADatabase {
                path: target.given,
                empty: true,
            });
        }
        let Some(gain) = info.gain else {
            // Only the error itself tells whether the file is damaged.
            return Err(failed.unwrap_or_else(|| Error::Damaged {
                path: target.given,
                what: "its schema cannot be read".into(),
            }));
        };
        Ok(VacuumPlan {
            api,
            target,
            info,
            gain,
            looked: Duration::ZERO,
        })
    }

    /// The figures of the database.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// What a vacuum would free and need.
    pub fn gain(&self) -> &Gain {
        &self.gain
    }

    /// Free bytes in the file system of the database.
    ///
    /// # Errors
    /// I/O.
    pub fn available_bytes(&self) -> Result<u64> {
        disk_space::available(&self.target.path)
    }

    /// Checks that there is space for the new file beside the old one, and permission to create it.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Permission`].
    pub fn check(&self) -> Result<()> {
        let path = &self.target.path;
        drop(Temp::create(path, &self.target, true)?);
        disk_space::require(path, self.gain.needed_bytes)
    }

    /// Runs the vacuum. `prune` can delete content that need not be kept.
    ///
    /// # Errors
    /// See [`Error`]. After any error the content of the database is unchanged.
    pub fn run(
        &self,
        options: &VacuumOptions,
        prune: Option<&mut Prune<'_>>,
        progress: &mut dyn Progress,
    ) -> Result<VacuumReport> {
        self.run_and(options, prune, &mut |_| {}, progress)
    }

    /// As [`VacuumPlan::run`]. `then` is called after success, while the lock is still held.
    pub(crate) fn run_and(
        &self,
        options: &VacuumOptions,
        prune: Option<&mut Prune<'_>>,
        then: &mut dyn FnMut(&mut dyn Progress),
        progress: &mut dyn Progress,
    ) -> Result<VacuumReport> {
        let started = Instant::now();
        let target = &self.target;
        temp::clear_leftovers(&target.path, progress)?;
        let through = self.info.form.through();
        let source = unless_cancelled(target, options.wait, progress, |wait| {
            let source = Source::alone(self.api, through, target, wait)?;
            replace::wait_for_others(target, wait)?;
            Ok(source)
        })?;
        failpoint::at("vacuum-locked");
        let temp = Temp::create(&target.path, target, true)?;
        let before = sizes(&target.path)?;
        let store = match archive::is_archive(&self.info.objects) {
            true => archive::options(&options.store),
            false => options.store.clone(),
        };
        let pages_before = source.state().len() / u64::from(source.header().page_size);
        let job = rewrite::Job {
            api: self.api,
            state: source.state(),
            through,
            temp,
            wanted: &target.path,
            replaces: true,
            to: through,
            options: &store,
            page_size: None,
            prune,
        };
        let new = rewrite::rewrite(job, progress)?;
        failpoint::at("verified");
        if progress.cancelled() {
            return Err(Error::Interrupted {
                path: target.given.clone(),
            });
        }
        let written = new.temp.sizes()?;
        let replaced = new.pruned || written.0 <= before.0;
        let (after, pages_after) = match replaced {
            true => (written, new.pages),
            false => (before, pages_before),
        };
        if replaced {
            replace::replace(&source, target, new.temp, options.wait, progress)?;
        }
        then(progress);
        Ok(VacuumReport {
            path: target.given.clone(),
            form: self.info.form,
            page_size: new.page_size,
            pages_before,
            pages_after,
            bytes_before: before.0,
            bytes_after: after.0,
            allocated_before: before.1,
            allocated_after: after.1,
            tables: new.proven.tables,
            indexes: new.proven.indexes,
            rows: new.proven.rows,
            replaced,
            written_bytes: written.0,
            elapsed: self.looked + started.elapsed(),
        })
    }
}

/// The figures of the complete database. Without its WAL the file can be incomplete while another
/// process prevents a checkpoint. Taking the database alone writes the WAL into the file; if this
/// fails, the error names the lock holders.
fn whole(api: Api, through: Through, target: &Target) -> Result<(Info, Option<Error>)> {
    let look = || {
        let (info, failed) = info::info_within(api, &target.given, info::Depth::Objects, STEP)?;
        let is_whole = info.objects_problem.is_none() || failed.is_some();
        Ok(is_whole.then_some((info, failed)))
    };
    if let Some(found) = look()? {
        return Ok(found);
    }
    drop(Source::alone(api, through, target, STEP)?);
    // If it is still incomplete, other connections wrote in the meantime.
    look()?.ok_or_else(|| Error::Locked {
        path: target.given.clone(),
        by: holders(&target.path),
    })
}

/// Length and allocated bytes.
fn sizes(path: &Path) -> Result<(u64, u64)> {
    let meta = std::fs::metadata(path).map_err(|e| Error::from_std(path, "look at it", &e))?;
    Ok((meta.len(), meta.blocks() * 512))
}
