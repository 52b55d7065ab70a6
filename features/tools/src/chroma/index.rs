//! Reads the index of a vector segment from disk: whether it is present, whether it is complete as
//! far as a cheap check can tell, and which records it holds. The folder has
//! `index_metadata.pickle` (see [`super::pickle`]) and four files of the HNSW library.

use super::hold::Hold;
use super::pickle::IndexMetadata;
use std::fs::{File, Metadata};
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

/// The file in which Chroma keeps the state of a segment.
pub(super) const PICKLE: &str = "index_metadata.pickle";

const HEADER_LEN: usize = 100;
const VERSION: u32 = 1;

/// Reads the index in `folder`. `None` if there is no pickle: nothing was ever stored, or the file
/// is gone.
pub(super) fn read(folder: &Path) -> Result<Option<IndexMetadata>, Hold> {
    let path = folder.join(PICKLE);
    let Some(before) = read_metadata(&path)? else {
        return Ok(None);
    };
    let failed = |e: std::io::Error| damaged(&path, &words(&e));
    let file = File::open(&path).map_err(failed)?;
    let metadata = IndexMetadata::read(BufReader::with_capacity(256 << 10, file), before.len())
        .map_err(|e| damaged(&path, &e.to_string()))?;
    // Chroma may have written the file in the meantime. Then the content can be half old and half
    // new.
    let after = read_metadata(&path)?;
    let when = |meta: &Metadata| (meta.len(), meta.modified().ok());
    if after.as_ref().map(when) != Some(when(&before)) {
        return Err(damaged(&path, "Chroma wrote it while it was read"));
    }
    if metadata.records() > 0 {
        check_files(folder, metadata.records() as u64)?;
    }
    Ok(Some(metadata))
}

/// Checks that the files of the library are large enough for `records` records.
///
/// `header.bin` has 100 bytes, little-endian:
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 4 | version, 1 |
/// | 4 | 8 | offset of the links in an element |
/// | 12 | 8 | capacity in elements |
/// | 20 | 8 | elements, deleted ones included |
/// | 28 | 8 | length of an element in bytes |
/// | 36 | 64 | offsets and parameters, not used here |
///
/// `data_level0.bin` has the elements, `length.bin` has four bytes for each element, and
/// `link_lists.bin` has the upper levels. The length of `link_lists.bin` depends on its content, so
/// only its presence is checked.
fn check_files(folder: &Path, records: u64) -> Result<(), Hold> {
    let path = folder.join("header.bin");
    let need = |name: &str| {
        let path = folder.join(name);
        read_metadata(&path)?.ok_or_else(|| Hold::IndexMissing {
            file: path.display().to_string(),
        })
    };
    if need("header.bin")?.len() != HEADER_LEN as u64 {
        return Err(damaged(&path, "its length is not 100 bytes"));
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

/// The metadata of the file at `path`; `None` if there is no file.
fn read_metadata(path: &Path) -> Result<Option<Metadata>, Hold> {
    match std::fs::metadata(path) {
        // Opening something that is not a regular file could block forever.
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

/// The little-endian number of `N` bytes at offset `at`.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0u8; 8];
    for (to, from) in eight.iter_mut().zip(bytes.iter().skip(at).take(N)) {
        *to = *from;
    }
    u64::from_le_bytes(eight)
}
