//! Estimates how much space a vacuum and maintenance would free. It uses figures and a sample of
//! pages, and writes nothing.

use crate::archive;
use crate::disk_space::at_most;
use crate::form::Form;
use crate::objects::{ObjectKind, Objects};

/// Cost in bytes of a compressed page besides its content and the page map: the header of its
/// frame, and the parameters of its columns. Measured by deleting every second row of tables: bytes
/// saved for each page less.
const PAGE_COST: u64 = 100;
/// Bytes of a plain database that a vacuum rewrites and verifies in a second, on two cores and a
/// solid-state disk.
const PLAIN_RATE: f64 = 150e6;
/// The same for compressed databases, in bytes as SQLite sees them.
const STORED_RATE: f64 = 85e6;
/// The same for archives.
const ARCHIVE_RATE: f64 = 6e6;

/// The use of the bytes of a database file, and the estimated result of a vacuum. All sizes are in
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Gain {
    /// Bytes of the file that hold live content.
    pub live_bytes: u64,
    /// Bytes of the file that nothing reaches, in units that also hold live bytes: replaced and
    /// dropped versions of pages. Only compressed files have them.
    pub dead_bytes: u64,
    /// Bytes of the file that can be written again: SQLite's free pages in a plain file, free units
    /// in a compressed one.
    pub free_bytes: u64,
    /// Unused bytes in the pages of tables and indexes. In a plain file they take space and are not
    /// part of `live_bytes`. In a compressed file they are not stored.
    pub unallocated_bytes: u64,
    /// Whether `unallocated_bytes` was estimated from a sample of pages.
    pub estimated: bool,
    /// Length of the file after `PRAGMA densite_maintain`; for a plain file, its length now.
    pub maintained_bytes: u64,
    /// Length of the file after a vacuum.
    pub vacuumed_bytes: u64,
    /// Bytes that a vacuum would free.
    pub reclaimable_bytes: u64,
    /// The most disk space in bytes that a vacuum needs beside the file while it runs.
    pub needed_bytes: u64,
    /// Estimated duration of a vacuum in seconds.
    pub seconds: f64,
}

/// The input of [`gain`].
pub(crate) struct Figures<'a> {
    pub(crate) form: Form,
    pub(crate) file_bytes: u64,
    pub(crate) logical_bytes: u64,
    pub(crate) page_size: u32,
    pub(crate) free_pages: u64,
    pub(crate) objects: &'a Objects,
    /// The figures of the store, by name.
    pub(crate) store: &'a [(String, u64)],
}

impl Figures<'_> {
    fn store(&self, name: &str) -> u64 {
        let found = self.store.iter().find(|(n, _)| n == name);
        found.map_or(0, |(_, n)| *n)
    }
}

/// After maintenance, at most one byte in this many is dead or free: 5 per cent of the file.
const AT_REST: u64 = 20;
/// Maintenance does not shrink a file that exceeds this share by fewer bytes than this
/// (docs/decisions/space-reclamation.md).
const AT_REST_MIN: u64 = 192 << 10;

/// Estimates the gain of a vacuum.
pub(crate) fn gain(f: &Figures<'_>) -> Gain {
    let size = u64::from(f.page_size);
    let trees = f
        .objects
        .all
        .iter()
        .filter(|o| !matches!(o.kind, ObjectKind::Overflow | ObjectKind::Free));
    let unallocated_bytes: u64 = trees.clone().map(|o| o.unallocated_bytes).sum();
    let saved_in_trees: u64 = trees.map(|o| o.pages.saturating_sub(o.packed_pages)).sum();
    let saved = saved_in_trees + f.free_pages;
    let logical_after = f.logical_bytes.saturating_sub(saved * size);
    let maintained = |live: u64| {
        let left = live + live / (AT_REST - 1);
        match f.file_bytes > left + AT_REST_MIN {
            true => left,
            false => f.file_bytes,
        }
    };
    let (live_bytes, dead_bytes, free_bytes, maintained_bytes, vacuumed_bytes, needed_bytes, rate) =
        match f.form {
            Form::Compressed => {
                let live = f.store("live_bytes");
                let free = f.objects.all.iter().find(|o| o.kind == ObjectKind::Free);
                let of_free = free.and_then(|o| o.stored_bytes).unwrap_or(0);
                let pages = (f.logical_bytes / size.max(1)).max(1);
                let map = f.store("map_bytes") * saved.min(pages) / pages;
                let after = live.saturating_sub(saved_in_trees * PAGE_COST + of_free + map);
                let after = after.max(live / 4);
                let archive = archive::is_archive(f.objects);
                // A vacuum writes an archive twice.
                let copies = if archive { 2 } else { 1 };
                (
                    live,
                    f.store("dead_bytes"),
                    f.store("free_bytes"),
                    maintained(live.saturating_sub(of_free)),
                    after.min(f.file_bytes),
                    // The new file can be larger than the old one if the tables changed after their
                    // models were learned.
                    copies * at_most(after + after / 4).min(at_most(logical_after)),
                    if archive { ARCHIVE_RATE } else { STORED_RATE },
                )
            }
            Form::Plain | Form::Empty => {
                let free = f.free_pages * size;
                let live = f.file_bytes.saturating_sub(free + unallocated_bytes);
                (
                    live,
                    0,
                    free,
                    f.file_bytes,
                    logical_after,
                    at_most(logical_after + logical_after / 16),
                    PLAIN_RATE,
                )
            }
        };
    Gain {
        live_bytes,
        dead_bytes,
        free_bytes,
        unallocated_bytes,
        estimated: !f.objects.exact,
        maintained_bytes,
        vacuumed_bytes,
        reclaimable_bytes: f.file_bytes.saturating_sub(vacuumed_bytes),
        needed_bytes,
        seconds: logical_after as f64 / rate,
    }
}
