//! Figures of a database.

use crate::db::{Access, Through};
use crate::error::{Error, Result};
use crate::form::{self, Form};
use crate::gain::{self, Figures, Gain};
use crate::holder::Holder;
use crate::holders::wal_readers;
use crate::objects::{self, Bytes, Objects};
use crate::source::is_recovered;
use crate::target::{self, Target, beside, len_or_zero};
use crate::{lock, schema};
use densite_disk::File;
use densite_sqlite::{Api, HostFile};
use densite_sqlite_format::{AutoVacuum, HEADER_LEN, Header};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for a lock.
const WAIT: Duration = Duration::from_secs(1);

/// The journal mode of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalMode {
    /// A rollback journal (DELETE, TRUNCATE, PERSIST, MEMORY, OFF).
    Rollback,
    /// A write-ahead log.
    Wal,
}

/// Figures of a database. Content of a WAL that is not in the file yet counts only in `wal_bytes`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Info {
    /// The path as given; a URL without secrets.
    pub path: PathBuf,
    /// How it is stored.
    pub form: Form,
    /// Length of the database in bytes, as SQLite sees it.
    pub logical_bytes: u64,
    /// Length of the file in bytes.
    pub stored_bytes: u64,
    /// Bytes of the blocks that the file occupies on disk; the length of a remote file.
    pub allocated_bytes: u64,
    /// Bytes per page; 0 if the database has no pages yet.
    pub page_size: u32,
    /// Pages.
    pub pages: u64,
    /// Pages on SQLite's freelist.
    pub free_pages: u64,
    /// The well-known program whose database it is, if it is one of those that open it with a SQLite
    /// of their own.
    pub program: Option<&'static str>,
    /// The journal mode in the first page.
    pub journal_mode: JournalMode,
    /// The setting auto_vacuum in the first page.
    pub auto_vacuum: AutoVacuum,
    /// Length in bytes of the rollback journal beside the file, 0 if there is none.
    pub journal_bytes: u64,
    /// Length in bytes of the WAL beside the file, 0 if there is none.
    pub wal_bytes: u64,
    /// The other processes that have a transaction open on the WAL. While one of them reads, the
    /// WAL cannot restart and grows. Empty if the system does not show them.
    pub wal_readers: Vec<Holder>,
    /// The files that belong to the database and exist, itself first: its journal, its WAL, the
    /// shared memory of the WAL, and the directory of its log. Empty for a remote file.
    pub files: Vec<PathBuf>,
    /// Copies beside the file that interrupted runs left.
    pub leftovers: Vec<PathBuf>,
    /// The figures of the store by name, for a compressed file.
    pub store: Option<Vec<(String, u64)>>,
    /// Tables and indexes in the file, without the content of a WAL.
    pub objects: Objects,
    /// Why `objects` is empty, if it could not be determined.
    pub objects_problem: Option<String>,
    /// Figures of the log beside the file, or why they are not available; `None` if there is no
    /// log.
    pub log: Option<std::result::Result<crate::log::Figures, String>>,
    /// What reading a remote file has cost, by name; `None` for a local file.
    pub remote: Option<Vec<(String, u64)>>,
    /// The estimated gain of a vacuum; `None` if there is no database yet or `objects` is empty.
    pub gain: Option<Gain>,
}

impl Info {
    /// Bytes on the disk for each logical byte; `None` for an empty database.
    pub fn ratio(&self) -> Option<f64> {
        (self.logical_bytes > 0).then(|| self.allocated_bytes as f64 / self.logical_bytes as f64)
    }
}

/// How much of a remote file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Its header: one or two requests. The figures of the store, the tables and indexes, and the
    /// program are missing.
    Header,
    /// All that a local file is read for.
    Objects,
}

/// Why a remote file has no objects.
const NOT_READ: &str = "they are read from a remote file only if asked for (densite info --columns), because that can take thousands of requests";

/// Returns the figures of a database, compressed or plain. Of a remote file it reads only the
/// header, with at most three requests: see [`info_with_objects`].
///
/// # Errors
/// See [`Error`]; [`Error::Locked`] while another connection writes to it.
pub fn info(api: Api, path: &Path) -> Result<Info> {
    of(api, path, Depth::Header)
}

/// The same, with the tables and indexes of a remote file, too. That reads all interior pages of its
/// b-trees, and a sample of the other pages.
///
/// # Errors
/// As [`info`].
pub fn info_with_objects(api: Api, path: &Path) -> Result<Info> {
    of(api, path, Depth::Objects)
}

fn of(api: Api, path: &Path, depth: Depth) -> Result<Info> {
    let in_uri = crate::target::path_in(path);
    let path = in_uri.as_deref().unwrap_or(path);
    // Nothing is beside a remote file.
    let log = match target::remote_in(path) {
        Some(_) => None,
        None => crate::log::beside(api, path),
    };
    let (info, _) = info_within(api, path, depth, WAIT)?;
    Ok(Info { log, ..info })
}

/// The same, but waits up to `wait` for a lock. The second value is the error behind
/// `objects_problem`; `None` also for a file that is complete only together with the journal or WAL
/// beside it.
pub(crate) fn info_within(
    api: Api,
    path: &Path,
    depth: Depth,
    wait: Duration,
) -> Result<(Info, Option<Error>)> {
    let target = target::resolve_to_read(api, path)?;
    let path = target.given.as_path();
    let form = form::form(api, &target)?;
    let is_brief = depth == Depth::Header && target.remote.is_some();
    let companions = form.through().companions();
    let (stored_bytes, allocated_bytes) = match &target.remote {
        Some(_) => (target.len, target.len),
        None => {
            let meta = std::fs::metadata(&target.path);
            let meta = meta.map_err(|e| Error::from_std(path, "look at it", &e))?;
            (meta.len(), meta.blocks() * 512)
        }
    };
    let mut info = Info {
        path: path.to_path_buf(),
        form,
        logical_bytes: 0,
        stored_bytes,
        allocated_bytes,
        page_size: 0,
        pages: 0,
        free_pages: 0,
        program: None,
        journal_mode: JournalMode::Rollback,
        auto_vacuum: AutoVacuum::None,
        journal_bytes: len_or_zero(&beside(&target.path, companions.journal)),
        wal_bytes: len_or_zero(&beside(&target.path, companions.wal)),
        wal_readers: Vec::new(),
        files: match &target.remote {
            Some(_) => Vec::new(),
            None => target::belonging(&target.path, companions),
        },
        leftovers: target::leftovers(&target.path),
        store: None,
        objects: Objects::default(),
        objects_problem: None,
        log: None,
        remote: None,
        gain: None,
    };
    if info.wal_bytes > 0 {
        info.wal_readers = wal_readers(&target.path);
    }
    let file = Through::Host.file(api, &target, Access::Read)?;
    lock::shared(&file, &target, wait)?;
    let mut start = [0u8; HEADER_LEN];
    let mut bytes = match form {
        Form::Empty => return Ok((info, None)),
        Form::Plain => {
            let failed = |e| Error::from_disk(path, "read", &e);
            file.read_at(&mut start, 0).map_err(failed)?;
            info.logical_bytes = File::len(&file).map_err(failed)?;
            Bytes::Plain(file.clone(), info.logical_bytes, path.to_path_buf())
        }
        Form::Compressed => {
            let failed = |e| Error::from_store(path, "read", e);
            let mut store = form::open_store(&target, file.clone()).map_err(failed)?;
            info.logical_bytes = store.len().map_err(failed)?;
            info.page_size = store.page_size().map_err(failed)?;
            store.read_at(&mut start, 0).map_err(failed)?;
            if !is_brief {
                let figures = store.stats().map_err(failed)?.figures().into_iter();
                info.store = Some(figures.map(|(name, n)| (name.to_string(), n)).collect());
            }
            Bytes::Stored(Box::new(store), info.logical_bytes, path.to_path_buf())
        }
    };
    let mut failed = None;
    if let Some(header) = Header::parse(&start) {
        info.page_size = header.page_size;
        info.free_pages = u64::from(header.free_pages);
        info.journal_mode = if header.wal {
            JournalMode::Wal
        } else {
            JournalMode::Rollback
        };
        info.auto_vacuum = header.auto_vacuum;
        match is_brief {
            true => info.objects_problem = Some(NOT_READ.to_owned()),
            false => failed = add_objects(api, &target, &header, &mut bytes, &mut info).err(),
        }
    }
    if let Some(e) = &failed {
        info.objects_problem = Some(e.to_string());
    }
    if info.page_size > 0 {
        info.pages = info.logical_bytes / u64::from(info.page_size);
    }
    info.remote = target.remote.as_ref().map(|remote| {
        let figures = remote.file.figures().into_iter();
        figures.map(|(name, n)| (name.to_owned(), n)).collect()
    });
    if !info.objects.all.is_empty() && target.remote.is_none() {
        info.gain = Some(gain::gain(&Figures {
            form,
            file_bytes: info.stored_bytes,
            logical_bytes: info.logical_bytes,
            page_size: info.page_size,
            free_pages: info.free_pages,
            objects: &info.objects,
            store: info.store.as_deref().unwrap_or_default(),
        }));
    }
    Ok((info, failed))
}

/// Adds the tables and indexes, and the program that the schema shows. An error leaves them out; the
/// other figures are valid all the same, and `check` reports what is wrong.
fn add_objects(
    api: Api,
    target: &Target,
    header: &Header,
    bytes: &mut Bytes<HostFile>,
    info: &mut Info,
) -> Result<()> {
    let through = info.form.through();
    let found = schema::read(api, through, target).and_then(|schema| {
        info.program = schema.program;
        objects::objects(bytes, header, &schema.entries, info.stored_bytes)
    });
    match found {
        Ok(objects) => info.objects = objects,
        Err(e) => match is_recovered(&target.path, through)? {
            // An interrupted checkpoint leaves such a file. It is not damaged and needs no backup.
            false => {
                info.objects_problem = Some(
                    "the file is complete only together with the journal or WAL beside it, which SQLite merges into it when the database is opened or closed; `densite check` shows whether it is damaged".into(),
                );
            }
            true => return Err(e),
        },
    }
    Ok(())
}
