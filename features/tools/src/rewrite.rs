//! Rewrites a database that this process holds alone, through SQL: SQLite's VACUUM INTO from a view
//! of the source, and the proof of the result.
//!
//! SQLite runs on its own thread, so this thread can report progress and stop SQLite: the view then
//! fails SQLite's next read. SQLite writes through a file of ours too ([`crate::output`]). VACUUM
//! INTO does not keep WAL mode, so it is set again. It keeps page size, encoding, auto_vacuum,
//! user_version and application_id, and adds one to the version of the schema.

use crate::copy::{self, Input};
use crate::db::{Through, from_sqlite};
use crate::error::{Error, Result};
use crate::output::{self, Output};
use crate::progress::{Progress, Silent};
use crate::proof::{self, OldSide, Side as _};
use crate::source::{self, State};
use crate::temp::Temp;
use crate::view::{self, View};
use crate::{integrity, stand_in};
use densite_sqlite::{Api, Connection};
use densite_sqlite_format::PageSet;
use densite_store::{CodecChoice, Options};
use densite_vfs::{LockedView, ViewBytes, failpoint};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Deletes content that need not be kept, before the rewrite. It is called once, with the only
/// connection that has the database. The rewrite sees its changes. The file of the database does
/// not have them until the new file takes its place. There is no journal: an error ends the work.
pub type Prune<'a> = dyn FnMut(&Connection) -> Result<()> + Send + 'a;

/// The interval of progress reports.
const TICK: Duration = Duration::from_millis(20);

/// The input of a rewrite.
pub(crate) struct Job<'a, 'p> {
    pub(crate) api: Api,
    /// The source. The caller keeps it unchanged.
    pub(crate) state: Arc<State>,
    /// How the source is read.
    pub(crate) through: Through,
    /// The empty file to write.
    pub(crate) temp: Temp,
    /// The final path of the result, and whether the result replaces the source.
    pub(crate) wanted: &'a Path,
    pub(crate) replaces: bool,
    /// The form of the result.
    pub(crate) to: Through,
    /// How a compressed result is stored.
    pub(crate) options: &'a Options,
    /// The page size in bytes of the result, if it differs from that of the source.
    pub(crate) page_size: Option<u32>,
    pub(crate) prune: Option<&'a mut Prune<'p>>,
}

/// The result of a rewrite.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) temp: Temp,
    pub(crate) page_size: u32,
    pub(crate) pages: u64,
    pub(crate) proven: proof::Proven,
    /// Whether the result holds less than the source because something was pruned.
    pub(crate) pruned: bool,
}

impl Job<'_, '_> {
    /// Whether SQLite writes only a draft, and the result is a copy of it. The frames of an archive
    /// are runs of pages in order. With another page size, training needs pages that do not exist
    /// before the draft.
    fn is_draft(&self) -> bool {
        let archive = self.options.codec == CodecChoice::Archive;
        self.to == Through::Densite && (archive || self.page_size.is_some())
    }

    /// The store options for the file that SQLite writes.
    fn store(&self) -> Options {
        let options = self.options.clone();
        match self.is_draft() {
            // A draft is read once and removed, so the lowest level is enough.
            true => Options {
                level: 1,
                codec: CodecChoice::Auto,
                run_pages: 0,
                ..options
            },
            false => options,
        }
    }
}

/// Writes the new file, proves it, and makes it durable.
pub(crate) fn rewrite(mut job: Job<'_, '_>, progress: &mut dyn Progress) -> Result<Rewritten> {
    let header = job.state.header();
    let target = job.state.target().clone();
    let prune = job.prune.take();
    let failed = |e| from_sqlite(&target.given, e);
    let view = Arc::new(View::new(Arc::clone(&job.state), header.page_size));
    let locked = LockedView::new(job.api, view.clone()).map_err(failed)?;
    let output = Arc::new(Output::new(&job.temp, job.to, &job.store())?);
    let into = LockedView::output(job.api, output.clone()).map_err(failed)?;
    let old_side = OldSide {
        api: job.api,
        through: job.through,
        view: &view,
        stop: AtomicBool::new(false),
        alone: AtomicBool::new(false),
    };

    progress.phase("rewriting", job.state.len());
    let mut stopped = false;
    let part = SqlPart {
        api: job.api,
        locked: &locked,
        given: &target.given,
        into: &into.uri(),
        page_size: job.page_size,
        old_side: &old_side,
        learner: (!job.is_draft()).then_some(&*output),
    };
    let written = std::thread::scope(|scope| {
        let sql = scope.spawn(|| part.run(prune));
        while !sql.is_finished() {
            std::thread::park_timeout(TICK);
            progress.done(view.bytes_read());
            if progress.cancelled() {
                stopped = true;
                old_side.give_up();
            }
        }
        sql.join()
            .unwrap_or_else(|_| Err(Error::panicked(&target.given)))
    });
    if stopped {
        return Err(Error::Interrupted { path: target.given });
    }
    let old = written.map_err(|e| {
        let first = view.take_error().or_else(|| output.take_error());
        first.unwrap_or(e)
    })?;
    if ViewBytes::is_empty(&*output) {
        return Err(Error::Unsupported(
            "this SQLite's VACUUM INTO wrote nothing; use a newer SQLite".into(),
        ));
    }
    output.finish(header.wal)?;
    drop((into, output));
    let temp = match job.is_draft() {
        true => copied(&job, progress)?,
        false => job.temp,
    };
    let (shape, len) = output::shape(&temp, job.to)?;
    let wanted = job.page_size.unwrap_or(header.page_size);
    if shape.page_size != wanted {
        return Err(Error::Io {
            path: target.given,
            doing: "rewrite".into(),
            message: format!("SQLite kept another page size than {wanted}"),
        });
    }
    failpoint::at("vacuum-written");
    let new_side = proof::NewSide {
        api: job.api,
        form: job.to,
        temp: &temp,
    };
    let proven = proof::prove(&old_side, &locked, old, &new_side, progress)
        .map_err(|e| of_source(job.api, &locked, &target.given, e))?;
    Ok(Rewritten {
        pruned: view.is_changed(),
        temp,
        page_size: shape.page_size,
        pages: len / u64::from(shape.page_size),
        proven,
    })
}

/// A new file that fails the integrity check has what the source has: a row that is missing in an
/// index, or NULL where it is not allowed. Then the source is damaged, and the error says so.
fn of_source(api: Api, locked: &LockedView, given: &Path, e: Error) -> Error {
    let is_of_check = matches!(&e, Error::Io { doing, .. } if doing == integrity::VERIFY);
    if !is_of_check {
        return e;
    }
    let lines = view::connect(api, locked)
        .ok()
        .and_then(|db| integrity::lines(&db, given).ok());
    match lines.as_deref().and_then(<[String]>::first) {
        Some(line) if line != "ok" => Error::Damaged {
            path: given.to_path_buf(),
            what: format!("SQLite's integrity check says: {line}"),
        },
        _ => e,
    }
}

/// Copies the pages of the draft in the way of `compress`.
fn copied(job: &Job<'_, '_>, progress: &mut dyn Progress) -> Result<Temp> {
    let target = job.state.target();
    let mut pages = output::reader(&job.temp, job.to)?;
    let mut input = Input {
        header: source::header(&mut pages, job.temp.path())?,
        pages: &mut pages,
        zero: PageSet::default(),
        held: None,
        without_freelist: false,
        scrub: true,
        path: &target.given,
    };
    let second = Temp::create(job.wanted, target, job.replaces)?;
    copy::to_compressed(&mut input, &second, job.options, progress)?;
    Ok(second)
}

/// The work of SQLite's thread.
struct SqlPart<'a> {
    api: Api,
    locked: &'a LockedView,
    given: &'a Path,
    into: &'a str,
    page_size: Option<u32>,
    old_side: &'a OldSide<'a>,
    /// The output that trains on pages of the source before the rewrite.
    learner: Option<&'a Output>,
}

impl SqlPart<'_> {
    fn run(&self, prune: Option<&mut Prune<'_>>) -> Result<proof::Old> {
        let failed = |e| from_sqlite(self.given, e);
        let db = view::connect(self.api, self.locked).map_err(failed)?;
        // No journal is needed: after a failure all changes over the source are discarded.
        db.exec("PRAGMA journal_mode=OFF").map_err(failed)?;
        stand_in::provide(&db).map_err(failed)?;
        if let Some(prune) = prune {
            prune(&db)?;
        }
        if let Some(size) = self.page_size {
            db.exec(&format!("PRAGMA page_size={size}"))
                .map_err(failed)?;
        }
        let trees = proof::trees(&db).map_err(failed)?;
        self.learn()?;
        std::thread::scope(|scope| {
            // A second thread pays off: SQLite often waits for the disk and for pages to be
            // encoded.
            let digests = scope.spawn(|| proof::digest_old(self.old_side, &trees));
            let done = db.exec(&format!("VACUUM INTO '{}'", self.into));
            self.old_side.alone.store(true, Ordering::Relaxed);
            if done.is_err() {
                self.old_side.give_up();
            }
            let digests = digests.join();
            done.map_err(failed)?;
            let digests = digests.map_err(|_| Error::panicked(self.given))??;
            Ok(digests)
        })
        .map(|digests| proof::Old { trees, digests })
    }

    /// Trains before the first page is written. Training during the rewrite would be too late for
    /// the first pages, and its time would depend on chance.
    fn learn(&self) -> Result<()> {
        let Some(learner) = self.learner else {
            return Ok(());
        };
        let mut pages = self.old_side.reader()?;
        let header = source::header(&mut *pages, self.given)?;
        let free = source::free_leaves(&mut *pages, &header)?;
        let samples = copy::samples(&mut *pages, &header, &free, self.given, &mut Silent)?;
        learner.learn(&samples, pages.len())
    }
}
