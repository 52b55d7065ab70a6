//! One of the two databases that are compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};

/// The VFS of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// SQLite on its own VFS.
    Plain,
    /// SQLite on Densite's VFS.
    Densite,
}

/// Databases that are plain files on both sides.
const PLAIN: [&str; 2] = ["auxp", "copy_plain"];

/// A directory with databases, and the connections to the main one.
pub(crate) struct Side {
    pub(crate) flavour: Flavour,
    pub(crate) dir: PathBuf,
    pub(crate) main: Option<Connection>,
    pub(crate) second: Option<Connection>,
    /// Densite's URI parameters for `main.db`: `&level=1&threads=0`.
    pub(crate) settings: String,
}

impl Side {
    pub(crate) fn new(flavour: Flavour, dir: PathBuf) -> Side {
        fs::create_dir(&dir).expect("make a side's folder");
        Side {
            flavour,
            dir,
            main: None,
            second: None,
            settings: String::new(),
        }
    }

    pub(crate) fn dir(&self) -> &str {
        self.dir.to_str().expect("the folder's name is UTF-8")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn main(&self) -> &Connection {
        self.main
            .as_ref()
            .expect("the main connection is open between steps")
    }

    /// The second connection, which is opened on first use.
    pub(crate) fn second(&mut self) -> rusqlite::Result<&Connection> {
        if self.second.is_none() {
            self.second = Some(self.open("main.db", true)?);
        }
        Ok(self.second.as_ref().expect("just opened"))
    }

    pub(crate) fn open_main(&mut self) -> rusqlite::Result<()> {
        self.main = Some(self.open("main.db", true)?);
        Ok(())
    }

    /// Opens a file of this side: through this side's VFS, or through the host's own.
    pub(crate) fn open(&self, name: &str, own: bool) -> rusqlite::Result<Connection> {
        let vfs = match self.flavour {
            Flavour::Densite if own => format!("?vfs=densite{}", self.settings),
            _ => String::new(),
        };
        let uri = format!("file:{}{vfs}", self.path(name).display());
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(uri, flags)?;
        db.busy_timeout(Duration::ZERO)?;
        db.pragma_update(None, "cache_size", -20_000)?;
        add_functions(&db)?;
        Ok(db)
    }

    /// Names of the files in the directory. Those of a Densite file's journal and WAL are given as
    /// SQLite's.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.dir).expect("list a side's folder");
        let name = |e: fs::DirEntry| e.file_name().to_string_lossy().into_owned();
        let mut names: Vec<_> = entries
            .map(|e| self.as_sqlite_names(name(e.expect("read a directory entry"))))
            .collect();
        names.sort();
        names
    }

    /// What SQLite calls a file of this side. A companion of a Densite file that has SQLite's name
    /// does not belong to it.
    fn as_sqlite_names(&self, name: String) -> String {
        let Some((database, ending)) = name.split_once(".db-") else {
            return name;
        };
        if self.flavour != Flavour::Densite || PLAIN.contains(&database) {
            return name;
        }
        match ending {
            "dwal" | "djournal" => format!("{database}.db-{}", &ending[1..]),
            "wal" | "journal" => format!("{name} beside a Densite file"),
            _ => name,
        }
    }
}

/// Whether a file is Densite's, by its first bytes. The file must not be open: closing it here
/// drops the locks of this process on it.
pub(crate) fn is_densite(path: &Path) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"Densite"))
}

/// `text_of(seed, length)` and `blob_of(seed, length)`: content that is the same on both sides.
fn add_functions(db: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("text_of", 2, flags, |c| {
        Ok(text_of(c.get::<i64>(0)?, c.get::<i64>(1)?))
    })?;
    db.create_scalar_function("blob_of", 2, flags, |c| {
        Ok(blob_of(c.get::<i64>(0)?, c.get::<i64>(1)?))
    })
}

const WORDS: &[&str] = &[
    "apple", "river", "stone", "cloud", "winter", "signal", "letter", "garden", "copper", "sail",
    "ember", "quiet", "north", "paper", "velvet", "harbour",
];

/// Words, which compress well.
fn text_of(seed: i64, len: i64) -> String {
    let len = usize::try_from(len).unwrap_or(0);
    let mut state = seed.unsigned_abs();
    let mut text = String::with_capacity(len + 8);
    while text.len() < len {
        text.push_str(WORDS[(mix(&mut state) % WORDS.len() as u64) as usize]);
        text.push(' ');
    }
    text.truncate(len);
    text
}

/// Zeros, noise, or a mixture, depending on the seed.
fn blob_of(seed: i64, len: i64) -> Vec<u8> {
    let len = usize::try_from(len).unwrap_or(0);
    let mut state = seed.unsigned_abs();
    let mask = [0u8, 0xff, 0x0f, 0x03][(seed.unsigned_abs() % 4) as usize];
    (0..len)
        .map(|_| (mix(&mut state) >> 24) as u8 & mask)
        .collect()
}

fn mix(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 29
}
