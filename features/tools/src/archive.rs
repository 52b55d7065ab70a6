//! Settings and detection of archives: compressed files of the smallest size, which are slow to
//! read.

use crate::objects::Objects;
use densite_store::{CodecChoice, Options};

/// Pages in one frame of an archive: 128 KiB if a page has 4 KiB.
const RUN_PAGES: u32 = 32;
/// The lowest zstd level of an archive.
const LEVEL_MIN: i32 = 19;
/// A file counts as an archive if at least one page in this many is in a long run. Where tables and
/// indexes grew by turns, few pages have a neighbour of their kind.
const PAGES_FOR_EACH_IN_RUNS: u64 = 128;

/// The given settings, changed to those of an archive: long runs at a high level.
pub(crate) fn options(options: &Options) -> Options {
    Options {
        codec: CodecChoice::Archive,
        run_pages: RUN_PAGES,
        level: options.level.max(LEVEL_MIN),
        ..options.clone()
    }
}

/// Whether the pages are stored as in an archive. Only archives have frames of long runs. Pages
/// that are written to an archive later are stored in the usual way.
pub(crate) fn is_archive(objects: &Objects) -> bool {
    objects.in_long_runs > 0 && objects.in_long_runs * PAGES_FOR_EACH_IN_RUNS >= objects.framed
}
