//! Blocks of remote files on the local disk, for all processes of a user.
//!
//! Each version of a remote file has a sparse file of its own. It begins with a checksum of 8 bytes
//! for each block, and the blocks follow at their places. A block counts only if its checksum
//! matches. So nothing is locked and nothing is synced: processes write the same bytes, and a block
//! that a kill or a power cut has torn is fetched again. The name has the layout in its hash:
//! another layout has other files.

use crate::blocks::BLOCK;
use crate::error::Problem;
use densite_disk::sync::Mutex;
use densite_disk::{Anchor, ErrorKind, File, OpenMode, RealFile, hash};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The end of the names of these files.
const SUFFIX: &str = ".densite-blocks";
/// Part of the hash in a name.
const LAYOUT: &str = "1";
/// Bytes of a checksum.
const SUM: u64 = 8;
/// The blocks begin at a multiple of this.
const ALIGNED: u64 = 4096;
/// The parts of the limit after which the other files are looked at again.
const LOOKS: u64 = 16;
/// Bits that let other users write to a directory.
const OTHERS_WRITE: u32 = 0o022;

/// The blocks of one version of a remote file.
pub(crate) struct DiskCache {
    dir: PathBuf,
    name: String,
    file: RealFile,
    /// The offset of block 0.
    first: u64,
    /// The most bytes that all such files take.
    limit: u64,
    room: Mutex<Room>,
}

/// How much can be written until the directory is looked at again.
#[derive(Default)]
struct Room {
    left: u64,
    /// The limit is reached by this file alone, or the disk refuses.
    is_over: bool,
}

impl std::fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskCache")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl DiskCache {
    /// Opens the file of a version with `blocks` blocks in a directory, which is created if it is
    /// missing. All files there take at most `limit` bytes.
    ///
    /// # Errors
    /// [`Problem::Setting`]: the directory cannot be used, or other users can write to it.
    pub(crate) fn open(
        dir: &Path,
        limit: u64,
        version: &str,
        blocks: u64,
    ) -> Result<DiskCache, Problem> {
        let refused = |why: String| Problem::Setting(format!("cache_dir={}: {why}", dir.display()));
        private(dir).map_err(refused)?;
        let name = hash::xxh3_128(format!("{LAYOUT} {BLOCK} {version}").as_bytes());
        let name = format!("{name:032x}{SUFFIX}");
        let failed = |e: densite_disk::Error| refused(e.to_string());
        let path = dir.join(&name);
        let file = match RealFile::open(&path, OpenMode::Write) {
            Err(e) if e.kind == ErrorKind::NotFound => {
                match Anchor::open(dir).and_then(|dir| dir.create_private(&name)) {
                    // Another process was faster.
                    Err(e) if e.kind == ErrorKind::Exists => RealFile::open(&path, OpenMode::Write),
                    created => created,
                }
            }
            opened => opened,
        };
        let cache = DiskCache {
            dir: dir.to_owned(),
            name,
            file: file.map_err(failed)?,
            first: (blocks * SUM).next_multiple_of(ALIGNED),
            limit,
            room: Mutex::default(),
        };
        cache.touch();
        Ok(cache)
    }

    /// Marks the file as used now: those that were not used for the longest time are removed first.
    fn touch(&self) {
        let file = std::fs::File::options()
            .write(true)
            .open(self.dir.join(&self.name));
        let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
    }

    /// A block of `len` bytes, if it is here.
    pub(crate) fn read(&self, block: u64, len: usize) -> Option<Vec<u8>> {
        let mut sum = [0; SUM as usize];
        let n = self.file.read_at(&mut sum, block * SUM).ok()?;
        if n < sum.len() || sum == [0; SUM as usize] {
            return None;
        }
        let mut bytes = vec![0; len];
        let n = self
            .file
            .read_at(&mut bytes, self.first + block * BLOCK)
            .ok()?;
        (n == len && sum_of(&bytes, block) == sum).then_some(bytes)
    }

    /// Keeps the blocks from `first` on. Failures are not reported: the cache only saves requests.
    pub(crate) fn keep(&self, first: u64, bytes: &[u8]) {
        if !self.has_room(bytes.len() as u64) {
            return;
        }
        let size = usize::try_from(BLOCK).unwrap_or(usize::MAX);
        let blocks = (first..).zip(bytes.chunks(size));
        let sums: Vec<u8> = blocks
            .flat_map(|(block, bytes)| sum_of(bytes, block))
            .collect();
        let written = self.file.write_at(bytes, self.first + first * BLOCK);
        if written
            .and_then(|()| self.file.write_at(&sums, first * SUM))
            .is_err()
        {
            self.room.lock().is_over = true;
        }
    }

    /// Whether so many bytes can be written. Removes other files if needed.
    fn has_room(&self, bytes: u64) -> bool {
        let mut room = self.room.lock();
        if room.left < bytes && !room.is_over {
            let free = self.make_room(bytes);
            room.left = free.min((self.limit / LOOKS).max(bytes));
            room.is_over = free < bytes;
        }
        if room.is_over {
            return false;
        }
        room.left -= bytes;
        true
    }

    /// Removes other files, those that were not used for the longest time first, until `bytes` can
    /// be written or none remains. Returns the bytes that can be written.
    fn make_room(&self, bytes: u64) -> u64 {
        let mut files = files(&self.dir);
        files.sort_by_key(|(_, meta)| meta.modified().unwrap_or(SystemTime::UNIX_EPOCH));
        let taken = |meta: &Metadata| meta.blocks() * 512;
        let mut used: u64 = files.iter().map(|(_, meta)| taken(meta)).sum();
        for (path, meta) in &files {
            if used + bytes <= self.limit {
                break;
            }
            if path.file_name() != Some(OsStr::new(&self.name))
                && std::fs::remove_file(path).is_ok()
            {
                used -= taken(meta);
            }
        }
        self.limit.saturating_sub(used)
    }
}

/// Makes sure that no other user can write to a directory, which is created if it is missing.
fn private(dir: &Path) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(dir);
    made.map_err(|e| format!("it cannot be created: {e}"))?;
    let meta = std::fs::metadata(dir).map_err(|e| e.to_string())?;
    let own = densite_disk::Rights::own(0).owner();
    match meta.uid() == own && meta.mode() & OTHERS_WRITE == 0 {
        true => Ok(()),
        false => Err("other users can write to it and could change rows; name a directory that only you can write to".into()),
    }
}

/// The files of caches in a directory.
fn files(dir: &Path) -> Vec<(PathBuf, Metadata)> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let entries = entries.filter_map(Result::ok).map(|entry| entry.path());
    entries
        .filter(|path| path.to_string_lossy().ends_with(SUFFIX))
        .filter_map(|path| Some((path.clone(), std::fs::symlink_metadata(path).ok()?)))
        .filter(|(_, meta)| meta.is_file())
        .collect()
}

/// The checksum of a block, which is never all zeros: a hole reads as zeros.
fn sum_of(bytes: &[u8], block: u64) -> [u8; SUM as usize] {
    (hash::xxh3_64_with_seed(bytes, block) | 1).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, PermissionsExt};

    const LEN: usize = BLOCK as usize;

    fn open(dir: &Path, limit: u64, version: &str) -> DiskCache {
        DiskCache::open(dir, limit, version, 1000).expect("a cache")
    }

    fn total(dir: &Path) -> u64 {
        files(dir).iter().map(|(_, meta)| meta.blocks() * 512).sum()
    }

    #[test]
    fn blocks_are_found_by_another_process_of_the_same_version() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().join("made/here");
        let cache = open(&dir, 1 << 20, "a");
        let bytes: Vec<u8> = (0..2 * LEN + 100).map(|i| (i / 7) as u8).collect();
        cache.keep(5, &bytes);
        let again = open(&dir, 1 << 20, "a");
        assert_eq!(again.read(5, LEN).as_deref(), bytes.get(..LEN));
        assert_eq!(again.read(7, 100).as_deref(), bytes.get(2 * LEN..));
        assert_eq!(again.read(4, LEN), None);
        assert_eq!(again.read(999, LEN), None);
        assert_eq!(
            open(&dir, 1 << 20, "b").read(5, LEN),
            None,
            "another version"
        );
    }

    /// docs/FORMAT.md has the layout.
    #[test]
    fn the_table_of_the_format_is_right() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = DiskCache::open(dir.path(), 1 << 20, "URL 40000 \"tag\"", 3).expect("a cache");
        let bytes: Vec<u8> = (0..40_000).map(|i| (i / 11) as u8).collect();
        cache.keep(0, &bytes);
        let name = hash::xxh3_128(b"1 16384 URL 40000 \"tag\"");
        let path = dir.path().join(format!("{name:032x}.densite-blocks"));
        let blocks: Vec<&[u8]> = bytes.chunks(16_384).collect();
        let sum = |n: usize| {
            let sum = hash::xxh3_64_with_seed(blocks[n], n as u64) | 1;
            sum.to_le_bytes().to_vec()
        };
        densite_format_doc::Tables::of("cache table").check(
            "blocks",
            &std::fs::read(path).expect("a file"),
            &[
                ("sum_0", sum(0)),
                ("sum_1", sum(1)),
                ("sum_2", sum(2)),
                ("zeros", vec![0; 4072]),
                ("block_0", blocks[0].to_vec()),
                ("block_1", blocks[1].to_vec()),
                ("block_2", blocks[2].to_vec()),
            ],
        );
    }

    #[test]
    fn a_torn_or_damaged_block_is_not_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = open(dir.path(), 1 << 20, "a");
        cache.keep(0, &vec![7; 3 * LEN]);
        let (path, meta) = files(dir.path()).remove(0);
        let file = std::fs::File::options()
            .write(true)
            .open(path)
            .expect("open");
        file.write_all_at(&[8], cache.first + 100).expect("damaged");
        file.set_len(meta.len() - 1).expect("cut");
        assert_eq!(cache.read(0, LEN), None);
        assert_eq!(cache.read(1, LEN), Some(vec![7; LEN]));
        assert_eq!(cache.read(2, LEN), None);
        cache.keep(0, &vec![9; LEN]);
        assert_eq!(cache.read(0, LEN), Some(vec![9; LEN]));
    }

    #[test]
    fn the_limit_holds_and_the_oldest_files_go_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let limit = 40 * BLOCK;
        for version in ["a", "b", "c"] {
            let cache = open(dir.path(), limit, version);
            for block in 0..15 {
                cache.keep(block, &vec![1; LEN]);
                assert!(total(dir.path()) <= limit, "{version} {block}");
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(
            open(dir.path(), limit, "a").read(0, LEN),
            None,
            "the oldest"
        );
        assert!(open(dir.path(), limit, "c").read(14, LEN).is_some());
        // One file alone stops at the limit.
        let cache = open(dir.path(), limit, "large");
        for block in 0..100 {
            cache.keep(block, &vec![1; LEN]);
        }
        assert!(total(dir.path()) <= limit);
        assert!(cache.read(0, LEN).is_some() && cache.read(99, LEN).is_none());
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = |path: &Path| DiskCache::open(path, 1 << 20, "a", 1).map(drop);
        open(dir.path()).expect("private");
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(dir.path(), all).expect("open to all");
        let said = open(dir.path()).expect_err("refused").to_string();
        assert!(said.contains("other users can write to it"), "{said}");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("written");
        assert!(open(&file).is_err());
    }
}
