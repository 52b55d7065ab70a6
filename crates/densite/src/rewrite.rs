//! Writing a held database anew through SQL: SQLite's VACUUM INTO, from a view of the source, and the proof of what came out.
//!
//! SQLite runs on a thread of its own, so that this one can tell how far it is and stop it: the view fails SQLite's next read. What
//! VACUUM INTO does not carry over is WAL mode, which is set again. An archive, whose frames are runs of pages in order, is copied once more:
//! SQLite writes pages as its cache gives them up. Page size, encoding, auto_vacuum, user_version and application_id it
//! keeps, and it adds one to the schema's version.

use crate::convert::ConvertOptions;
use crate::copy::{self, Input};
use crate::db::{Access, Through, from_sqlite, uri};
use crate::error::{Error, Result};
use crate::freelist::PageSet;
use crate::progress::Progress;
use crate::proof::{self, OldSide, Side as _};
use crate::source::State;
use crate::temp::Temp;
use crate::view::View;
use densite_disk::{File, OpenMode, RealFile};
use densite_sqlite::{Api, Connection, ffi};
use densite_store::{CodecChoice, Options};
use densite_vfs::{Held, pause};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Deletes what need not be kept, before the rewriting: called once, with a connection that alone has the database. What it changes
/// is seen by the rewriting and is in no file of the database until the new one takes its place. There is no journal: an error ends all.
pub type Prune<'a> = dyn FnMut(&Connection) -> Result<()> + Send + 'a;

/// Between two looks at how far it is.
const TICK: Duration = Duration::from_millis(20);

/// What is to be written, and where to.
pub(crate) struct Job<'a, 'p> {
    pub(crate) api: Api,
    /// The source, which the caller holds still.
    pub(crate) state: Arc<State>,
    /// How the source is read.
    pub(crate) through: Through,
    /// The empty file to write.
    pub(crate) temp: Temp,
    /// The form of the result.
    pub(crate) to: Through,
    /// How a compressed result is stored.
    pub(crate) options: &'a ConvertOptions,
    /// Another page size than the source's.
    pub(crate) page_size: Option<u32>,
    pub(crate) prune: Option<&'a mut Prune<'p>>,
}

/// What was written.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) temp: Temp,
    pub(crate) page_size: u32,
    pub(crate) pages: u64,
    pub(crate) proven: proof::Proven,
}

/// Writes and proves it, durably.
pub(crate) fn rewrite(mut job: Job<'_, '_>, progress: &mut dyn Progress) -> Result<Rewritten> {
    let header = job.state.header();
    let target = job.state.target().clone();
    let prune = job.prune.take();
    let view = Arc::new(View::new(Arc::clone(&job.state), header.page_size));
    let held = Held::new(job.api, view.clone()).map_err(|e| from_sqlite(&target.given, e))?;
    let into = destination(&job)?;
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
        held: &held,
        given: &target.given,
        into: &into,
        page_size: job.page_size,
        old_side: &old_side,
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
        sql.join().unwrap_or_else(|_| Err(panicked(&target.given)))
    });
    if stopped {
        return Err(Error::Interrupted { path: target.given });
    }
    let old = written.map_err(|e| view.take_error().unwrap_or_else(|| cause(e, &job.temp)))?;

    let new = job.to.connect(job.api, job.temp.path(), Access::Write, 0)?;
    if header.wal {
        // VACUUM INTO gives a rollback journal whatever the source has.
        set_wal(&new, job.temp.path())?;
    }
    let number = |sql: &str| {
        let n = new.query_i64(sql);
        n.map_err(|e| from_sqlite(job.temp.path(), e))
            .map(|n| n.unwrap_or(0))
    };
    let pages = u64::try_from(number("PRAGMA page_count")?).unwrap_or(0);
    let page_size = u32::try_from(number("PRAGMA page_size")?).unwrap_or(0);
    if pages == 0 {
        return Err(Error::Unsupported(
            "this SQLite's VACUUM INTO wrote nothing; use a newer SQLite".into(),
        ));
    }
    let wanted = job.page_size.unwrap_or(header.page_size);
    if page_size != wanted {
        return Err(Error::Io {
            path: target.given,
            doing: "rewrite".into(),
            message: format!("SQLite kept another page size than {wanted}"),
        });
    }
    new.close().map_err(|e| from_sqlite(job.temp.path(), e))?;
    job.temp.sync()?;
    pause::at("vacuum-written");
    let proven = proof::prove(
        &old_side,
        &held,
        old,
        &proof::NewSide {
            api: job.api,
            through: job.to,
            path: job.temp.path(),
        },
        progress,
    )?;
    let archive = job.to == Through::Densite && job.options.store.codec == CodecChoice::Archive;
    Ok(Rewritten {
        temp: match archive {
            true => as_archive(job, progress)?,
            false => job.temp,
        },
        page_size,
        pages,
        proven,
    })
}

/// The same pages in runs.
fn as_archive(job: Job<'_, '_>, progress: &mut dyn Progress) -> Result<Temp> {
    let target = job.state.target();
    let side = proof::NewSide {
        api: job.api,
        through: job.to,
        path: job.temp.path(),
    };
    let mut pages = side.reader()?;
    let header = proof::header(&mut *pages, side.path)?;
    let mut input = Input {
        pages: &mut *pages,
        header,
        zero: PageSet::default(),
        scrub: true,
        path: &target.given,
    };
    let (second, file) = Temp::create(&target.path, &target.path, true)?;
    drop(file);
    copy::to_compressed(&mut input, second.path(), &job.options.store, progress)?;
    copy::prove_compressed(&mut input, second.path(), &job.options.store, progress)?;
    Ok(second)
}

/// SQLite has one code for most failures of writing: whether the disk is full is found out by writing on.
fn cause(e: Error, temp: &Temp) -> Error {
    const MORE: [u8; 4096] = [0; 4096];
    let Error::Sqlite { .. } = e else { return e };
    let path = temp.path();
    let tried = RealFile::open(path, OpenMode::Write).and_then(|file| {
        let end = file.len()?;
        file.write_at(&MORE, end)
    });
    match tried {
        Err(tried) if tried.kind == densite_disk::ErrorKind::Full => {
            Error::from_disk(path, "write", &tried)
        }
        _ => e,
    }
}

/// What SQLite's thread does.
struct SqlPart<'a> {
    api: Api,
    held: &'a Held,
    given: &'a Path,
    into: &'a str,
    page_size: Option<u32>,
    old_side: &'a OldSide<'a>,
}

impl SqlPart<'_> {
    fn run(&self, prune: Option<&mut Prune<'_>>) -> Result<proof::Old> {
        let failed = |e| from_sqlite(self.given, e);
        let db = open(self.api, self.held).map_err(failed)?;
        // What is written over the source is thrown away as a whole if anything fails.
        db.exec("PRAGMA journal_mode=OFF").map_err(failed)?;
        if let Some(prune) = prune {
            prune(&db)?;
        }
        if let Some(size) = self.page_size {
            db.exec(&format!("PRAGMA page_size={size}"))
                .map_err(failed)?;
        }
        let trees = proof::trees(&db).map_err(failed)?;
        std::thread::scope(|scope| {
            // SQLite waits for the disk, and for pages to be encoded, often enough.
            let digests = scope.spawn(|| proof::digest_old(self.old_side, &trees));
            let done = db.exec(&format!("VACUUM INTO '{}'", self.into));
            self.old_side.alone.store(true, Ordering::Relaxed);
            if done.is_err() {
                self.old_side.give_up();
            }
            let digests = digests.join();
            done.map_err(failed)?;
            let digests = digests.map_err(|_| panicked(self.given))??;
            Ok(digests)
        })
        .map(|digests| proof::Old { trees, digests })
    }
}

/// A connection to what is held.
pub(crate) fn open(api: Api, held: &Held) -> densite_sqlite::Result<Connection> {
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_URI | ffi::OPEN_NOMUTEX;
    Connection::open(api, &held.uri(), flags, None)
}

/// The name of the file to write, with how it is to be stored.
fn destination(job: &Job<'_, '_>) -> Result<String> {
    let vfs = job.to.vfs(job.api)?.name();
    let mut parameters = vec![("vfs", vfs)];
    if job.to == Through::Densite {
        parameters.extend(stored_as(&job.options.store));
    }
    let parameters: Vec<(&str, &str)> = parameters.iter().map(|(k, v)| (*k, &**v)).collect();
    uri(job.temp.path(), &parameters)
}

fn stored_as(options: &Options) -> Vec<(&'static str, String)> {
    // An archive is read once and thrown away: the cheapest level will do.
    let level = match options.codec {
        CodecChoice::Archive => 1,
        _ => options.level,
    };
    vec![
        ("level", level.to_string()),
        ("threads", options.threads.to_string()),
        (
            "decoded_cache",
            (options.decoded_cache_bytes >> 20).to_string(),
        ),
        ("maintain", "off".to_string()),
    ]
}

fn set_wal(db: &Connection, path: &Path) -> Result<()> {
    let mode = db
        .query_string("PRAGMA journal_mode=WAL")
        .map_err(|e| from_sqlite(path, e))?;
    if mode.as_deref() == Some("wal") {
        return Ok(());
    }
    Err(Error::Io {
        path: path.to_path_buf(),
        doing: "keep WAL mode in".into(),
        message: "SQLite refused it".into(),
    })
}

/// A thread of ours ended by a fault of ours.
pub(crate) fn panicked(path: &Path) -> Error {
    Error::Io {
        path: path.to_path_buf(),
        doing: "work on".into(),
        message: "an internal error ended a thread".into(),
    }
}
