//! Folders of indexes whose collection was deleted: Chroma leaves them if the process that deletes
//! the collection has not opened its index.
//!
//! A folder belongs to no collection if no segment of the database has its name as the id. Chroma
//! makes a new id for each segment, so no collection gets it later. A folder that has anything else
//! than an index stays, and all stay if another database is beside them: it can be a copy that
//! names them.

use super::dir::{ChromaDir, DATABASE};
use super::index::PICKLE;
use super::segments::is_uuid;
use super::sql::{Sql, text};
use crate::error::{Error, Result};
use crate::form::is_database;
use crate::progress::Progress;
use crate::target::TEMP_MARK;
use std::fs::{DirEntry, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files of an index: Chroma's, and those of the HNSW library.
const FILES: [&str; 5] = [
    PICKLE,
    "header.bin",
    "data_level0.bin",
    "length.bin",
    "link_lists.bin",
];

/// Tables with ids of segments and collections, and their columns. Others have rows that Chroma leaves
/// of a deleted one: `segment_metadata`, `max_seq_id`.
const IDS: [(&str, &str); 4] = [
    ("segments", "id"),
    ("segments", "collection"),
    ("collections", "id"),
    ("embeddings", "segment_id"),
];

/// A folder of an index that no collection has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its path.
    pub path: PathBuf,
    /// The space that its files take on the disk.
    pub bytes: u64,
}

/// The folders, in the order of their names.
pub(super) fn find(sql: &Sql<'_>, dir: &ChromaDir) -> Result<Vec<Leftover>> {
    let failed = |e| Error::from_std(dir.dir(), "read it", &e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir.dir()).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        if is_other_database(&entry, &name) {
            return Ok(Vec::new());
        }
        // What cannot be read is not certain, so it stays.
        let Some(bytes) = is_uuid(&name).then(|| index_bytes(&entry)).flatten() else {
            continue;
        };
        if !is_named(sql, &name)? {
            found.push(Leftover {
                path: entry.path(),
                bytes,
            });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Removes them. Returns those that are gone. The others are told to `progress`.
pub(super) fn remove(all: Vec<Leftover>, progress: &mut dyn Progress) -> Vec<Leftover> {
    let mut gone = Vec::new();
    for folder in all {
        match remove_one(&folder.path) {
            Ok(()) => gone.push(folder),
            Err(e) => progress.message(&format!(
                "{}: this folder of a deleted collection cannot be removed: {e}; remove it",
                folder.path.display()
            )),
        }
    }
    gone
}

fn remove_one(folder: &Path) -> std::io::Result<()> {
    for name in FILES {
        match std::fs::remove_file(folder.join(name)) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    // Only an empty folder is removed.
    std::fs::remove_dir(folder)
}

/// Whether a segment or a collection has this id, or a record belongs to it.
fn is_named(sql: &Sql<'_>, id: &str) -> Result<bool> {
    for (table, column) in IDS {
        let has_column = "SELECT 1 FROM pragma_table_info(?) WHERE name = ?";
        let has_row = format!("SELECT 1 FROM main.{table} WHERE {column} = ?");
        if sql.exists(has_column, &[text(table), text(column)])?
            && sql.exists(&has_row, &[text(id)])?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The space of a folder that has files of an index, and nothing else.
fn index_bytes(entry: &DirEntry) -> Option<u64> {
    if !entry.file_type().ok()?.is_dir() {
        return None;
    }
    let mut bytes = 0;
    for file in std::fs::read_dir(entry.path()).ok()? {
        let file = file.ok()?;
        let meta = file.metadata().ok()?;
        let is_known = file
            .file_name()
            .to_str()
            .is_some_and(|name| FILES.contains(&name));
        if !is_known || !meta.is_file() {
            return None;
        }
        bytes += meta.blocks() * 512;
    }
    Some(bytes)
}

/// Whether this is a database beside Chroma's.
fn is_other_database(entry: &DirEntry, name: &str) -> bool {
    let mut begin = [0; 16];
    let is_file = std::fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file());
    is_file
        && name != DATABASE
        && !name.contains(TEMP_MARK)
        && File::open(entry.path()).is_ok_and(|mut file| file.read_exact(&mut begin).is_ok())
        && is_database(&begin)
}
