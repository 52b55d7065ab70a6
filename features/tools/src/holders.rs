//! Lists the processes that hold locks on a database, where the system shows them.
//!
//! Linux lists record locks in `/proc/locks`, with process, device and inode. Reading that list
//! opens no descriptor on the database. So it cannot drop a lock of this process, as closing a
//! descriptor would.

use crate::holder::Holder;
use crate::target::beside;
use densite_sqlite::SHM;
use densite_sqlite_format::wal_index::READERS;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the list is read at most. The system counts entries to know where to continue. A list
/// that changes while it is read can lack entries that never changed, and can contain others twice.
const TRIES: usize = 16;
/// A process that reads for longer than this counts as a reader.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The other processes that hold locks on the database or its shared memory. Empty if the system
/// does not show them.
pub fn holders(db: &Path) -> Vec<Holder> {
    others(&[db.to_path_buf(), beside(db, SHM)], 0..=u64::MAX)
}

/// The other processes that had a transaction open on the WAL at two times, shortly after each
/// other. While one of them reads, the WAL cannot restart. Empty if the system does not show them.
pub(crate) fn wal_readers(db: &Path) -> Vec<Holder> {
    let look = || others(&[beside(db, SHM)], READERS);
    let mut readers = look();
    if !readers.is_empty() {
        densite_disk::wait::pause(BETWEEN_LOOKS);
        let again = look();
        readers.retain(|r| again.contains(r));
    }
    readers
}

/// The other processes that hold locks on bytes of this range in these files.
fn others(paths: &[PathBuf], bytes: RangeInclusive<u64>) -> Vec<Holder> {
    let metas = paths.iter().filter_map(|path| std::fs::metadata(path).ok());
    let files: Vec<(u64, u64)> = metas.map(|meta| (meta.dev(), meta.ino())).collect();
    let me = std::process::id();
    let mut pids = listed(&files, &bytes);
    pids.remove(&me);
    pids.into_iter()
        .map(|pid| Holder {
            pid,
            name: name_of(pid),
        })
        .collect()
}

/// The processes that hold locks on bytes of this range in these files. Reads the list until it
/// stays the same.
fn listed(files: &[(u64, u64)], bytes: &RangeInclusive<u64>) -> BTreeSet<u32> {
    let (mut pids, mut before) = (BTreeSet::new(), None);
    for _ in 0..TRIES {
        let Ok(list) = std::fs::read_to_string("/proc/locks") else {
            break;
        };
        pids.extend(parse(&list, files, bytes));
        if before.as_ref() == Some(&list) {
            break;
        }
        before = Some(list);
    }
    pids
}

/// The other processes that have a file open, with or without a lock. `file` is its device and
/// inode.
///
/// `/proc` shows only the files of processes of the same user. Root sees the files of all
/// processes.
pub(crate) fn openers(file: (u64, u64)) -> Vec<Holder> {
    let me = std::process::id();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = processes
        .flatten()
        .filter_map(|p| p.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |pid: &u32| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd"));
        fds.is_ok_and(|mut fds| {
            fds.any(|fd| {
                // The entry refers to the open file even if the file was renamed.
                let meta = fd.and_then(|fd| std::fs::metadata(fd.path()));
                meta.is_ok_and(|meta| (meta.dev(), meta.ino()) == file)
            })
        })
    };
    pids.filter(|pid| *pid != me)
        .filter(has_it)
        .map(|pid| Holder {
            pid,
            name: name_of(pid),
        })
        .collect()
}

/// The name of a process, if it can be read.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_string())
}

/// Process ids of the lines of `/proc/locks` that hold (not wait for) a lock on bytes of this range
/// in one of `files`, given as (device, inode).
fn parse(list: &str, files: &[(u64, u64)], bytes: &RangeInclusive<u64>) -> Vec<u32> {
    let mut pids = Vec::new();
    for line in list.lines() {
        // "1: POSIX  ADVISORY  READ 8079 fe:00:9978034 128 128"; the second word of a waiter is
        // "->".
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, kind, _, _, pid, place, from, to, ..] = words.as_slice() else {
            continue;
        };
        if *kind == "->" {
            continue;
        }
        let (Ok(pid), Ok(from)) = (pid.parse::<u32>(), from.parse::<u64>()) else {
            continue;
        };
        // EOF stands for the end of the file.
        let to = to.parse::<u64>().unwrap_or(u64::MAX);
        if from > *bytes.end() || to < *bytes.start() {
            continue;
        }
        let mut parts = place.split(':');
        let (Some(major), Some(minor), Some(inode)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (Ok(major), Ok(minor), Ok(inode)) = (
            u64::from_str_radix(major, 16),
            u64::from_str_radix(minor, 16),
            inode.parse::<u64>(),
        ) else {
            continue;
        };
        if files
            .iter()
            .any(|(dev, ino)| *ino == inode && (major_of(*dev), minor_of(*dev)) == (major, minor))
        {
            pids.push(pid);
        }
    }
    pids
}

// The layout of device numbers in the Linux C library (gnu_dev_major, gnu_dev_minor).
fn major_of(dev: u64) -> u64 {
    ((dev >> 8) & 0xfff) | ((dev >> 32) & 0xffff_f000)
}

fn minor_of(dev: u64) -> u64 {
    (dev & 0xff) | ((dev >> 12) & 0xffff_ff00)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn another_process_is_seen_by_the_file_it_has_open() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a");
        std::fs::write(&path, b"x").expect("write");
        let meta = std::fs::metadata(&path).expect("metadata");
        let file = (meta.dev(), meta.ino());
        assert_eq!(openers(file), []);
        let mine = std::fs::File::open(&path).expect("open");
        assert_eq!(openers(file), [], "this process does not count");
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .stdin(mine)
            .spawn()
            .expect("sleep runs");
        let pids: Vec<u32> = openers(file).iter().map(|h| h.pid).collect();
        other.kill().expect("kill");
        other.wait().expect("wait");
        assert_eq!(pids, [other.id()]);
    }

    /// This also holds while other locks are taken and released.
    #[test]
    fn no_holder_is_missed() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: String| std::fs::File::create(dir.path().join(name)).expect("made");
        let held = file("held".into());
        held.lock().expect("locked");
        let meta = held.metadata().expect("metadata");
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let files: Vec<_> = (0..60).map(|n| file(format!("{thread}-{n}"))).collect();
                let ended = &ended;
                scope.spawn(move || {
                    while !ended.load(Ordering::Relaxed) {
                        files.iter().for_each(|f| f.lock().expect("locked"));
                        files.iter().for_each(|f| f.unlock().expect("unlocked"));
                    }
                });
            }
            let missed = (0..1000).filter(|_| {
                let pids = listed(&[(meta.dev(), meta.ino())], &(0..=u64::MAX));
                pids != BTreeSet::from([std::process::id()])
            });
            let missed = missed.count();
            ended.store(true, Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
    }

    #[test]
    fn takes_holders_and_not_waiters_of_the_named_file() {
        let list = "1: POSIX  ADVISORY  READ 8079 fe:00:9978034 128 128\n\
                    1: -> POSIX  ADVISORY  WRITE 8080 fe:00:9978034 128 128\n\
                    2: OFDLCK ADVISORY  READ -1 fe:00:9978034 0 EOF\n\
                    3: POSIX  ADVISORY  READ 8081 fe:01:9978034 128 128\n\
                    garbage\n\
                    4: POSIX  ADVISORY  WRITE 8082 fe:00:1 0 0\n";
        let dev = 0xfe00;
        let all = 0..=u64::MAX;
        assert_eq!(parse(list, &[(dev, 9_978_034)], &all), vec![8079]);
        let both = [(dev, 9_978_034), (dev, 1)];
        assert_eq!(parse(list, &both, &all), vec![8079, 8082]);
        assert_eq!(parse(list, &both, &(128..=128)), vec![8079]);
        assert_eq!(parse(list, &both, &READERS), Vec::<u32>::new());
    }
}
