//! A vector segment's index on the disk: whether it is there, whole as far as that can be told
//! cheaply, and what it holds.
//!
//! Its folder has five files: `index_metadata.pickle` (see [`super::pickle`]), and those of the
//! HNSW library:
//!
//! `header.bin`, 100 bytes, little-endian:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | version, 1 |
//! | 4 | 8 | where in an element its links begin |
//! | 12 | 8 | elements there is room for |
//! | 20 | 8 | elements, deleted ones included |
//! | 28 | 8 | bytes of an element |
//! | 36 | 64 | offsets and parameters, not used here |
//!
//! `data_level0.bin` has the elements, `length.bin` four bytes for each, `link_lists.bin` the upper
//! levels. The last one's length follows from its content, so only its presence is asked for.

use super::hold::Hold;
use super::pickle::IndexMetadata;
use std::fs::{File, Metadata};
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

/// What Chroma calls the file that a segment's state is in.
pub(super) const PICKLE: &str = "index_metadata.pickle";

const HEADER_LEN: usize = 100;
const VERSION: u32 = 1;

/// Reads the index in `folder`; `None` when there is no pickle, so that nothing was ever stored (or
/// it is gone).
pub(super) fn read(folder: &Path) -> Result<Option<IndexMetadata>, Hold> {
    let path = folder.join(PICKLE);
    let Some(before) = read_metadata(&path)? else {
        return Ok(None);
    };
    let failed = |e: std::io::Error| damaged(&path, &words(&e));
    let file = File::open(&path).map_err(failed)?;
    let metadata = IndexMetadata::read(BufReader::with_capacity(256 << 10, file), before.len())
        .map_err(|e| damaged(&path, &e.to_string()))?;
    // A Chroma that writes it meanwhile: what was read may be half old and half new.
    let after = read_metadata(&path)?;
    let when = |meta: &Metadata| (meta.len(), meta.modified().ok());
    if after.as_ref().map(when) != Some(when(&before)) {
        return Err(damaged(&path, "it was written while it was read"));
    }
    if metadata.records() > 0 {
        check_files(folder, metadata.records() as u64)?;
    }
    Ok(Some(metadata))
}

/// Whether the library's files can hold so many records.
fn check_files(folder: &Path, records: u64) -> Result<(), Hold> {
    let path = folder.join("header.bin");
    let need = |name: &str| {
        let path = folder.join(name);
        read_metadata(&path)?.ok_or_else(|| Hold::IndexMissing {
            file: path.display().to_string(),
        })
    };
    if need("header.bin")?.len() != HEADER_LEN as u64 {
        return Err(damaged(&path, "it has another length than 100 bytes"));
    }
    let mut header = [0u8; HEADER_LEN];
    File::open(&path)
        .and_then(|mut file| file.read_exact(&mut header))
        .map_err(|e| damaged(&path, &words(&e)))?;
    if number::<4>(&header, 0) != u64::from(VERSION) {
        return Err(damaged(&path, "at byte 0: a version that is not known"));
    }
    let elements = number::<8>(&header, 20);
    let element_len = number::<8>(&header, 28);
    if elements < records {
        return Err(damaged(
            &path,
            &format!("at byte 20: {elements} elements, and {PICKLE} has {records} records"),
        ));
    }
    for (name, each) in [("data_level0.bin", element_len), ("length.bin", 4)] {
        let len = need(name)?.len();
        if elements.checked_mul(each).is_none_or(|least| len < least) {
            return Err(damaged(
                &folder.join(name),
                &format!("its {len} bytes are too few for {elements} elements"),
            ));
        }
    }
    need("link_lists.bin")?;
    Ok(())
}

/// The file's figures; `None` if there is none.
fn read_metadata(path: &Path) -> Result<Option<Metadata>, Hold> {
    match std::fs::metadata(path) {
        // Opening what is no file could wait for ever.
        Ok(meta) if !meta.is_file() => Err(damaged(path, "it is not a file")),
        Ok(meta) => Ok(Some(meta)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(damaged(path, &words(&e))),
    }
}

fn damaged(path: &Path, what: &str) -> Hold {
    Hold::IndexDamaged {
        file: path.display().to_string(),
        what: what.to_string(),
    }
}

fn words(e: &std::io::Error) -> String {
    format!("it cannot be read ({e})")
}

/// A little-endian number of `N` bytes.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0u8; 8];
    for (to, from) in eight.iter_mut().zip(bytes.iter().skip(at).take(N)) {
        *to = *from;
    }
    u64::from_le_bytes(eight)
}
