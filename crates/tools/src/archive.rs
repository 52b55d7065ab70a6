//! Archives: compressed files that are as small as can be, and slow to read.

use crate::objects::Objects;
use densite_store::{CodecChoice, Options};

/// Pages of a frame in an archive: 128 KiB of them if they are of 4 KiB.
const RUN_PAGES: u32 = 32;
/// The least zstd level of an archive.
const LEVEL_MIN: i32 = 19;
/// An archive has at least one page in so many in long runs. Where tables and indexes grew by
/// turns, few pages have a neighbour of their kind.
const PAGES_FOR_EACH_IN_RUNS: u64 = 128;

/// The same settings for an archive: long runs, at a high level.
pub(crate) fn options(options: &Options) -> Options {
    Options {
        codec: CodecChoice::Archive,
        run_pages: RUN_PAGES,
        level: options.level.max(LEVEL_MIN),
        ..options.clone()
    }
}

/// Whether the pages are stored as those of an archive. Only archives have frames of long runs.
/// Pages that were written later are stored in the usual way.
pub(crate) fn is_archive(objects: &Objects) -> bool {
    objects.in_long_runs > 0 && objects.in_long_runs * PAGES_FOR_EACH_IN_RUNS >= objects.framed
}
