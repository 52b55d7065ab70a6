//! Streams in a directory.

use crate::contract::{Place, contract};
use crate::members::{append_numbers, check_numbers, name, open, read_all, spawn};
use densite_directory_stream::Directory;
use densite_stream::{Error, Extent};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

struct Dir(TempDir);

impl Dir {
    fn path(&self) -> PathBuf {
        self.0.path().join("stream")
    }

    fn file(&self) -> PathBuf {
        self.path().join("stream")
    }

    fn copied(&self) -> PathBuf {
        self.0.path().join("copy")
    }
}

impl Place for Dir {
    fn name(&self) -> String {
        format!("directory={}", self.path().display())
    }

    fn remove(&self) {
        std::fs::remove_dir_all(self.path()).expect("removed");
    }

    /// Kills a process that appends.
    fn kill(&self) {
        let mut child = spawn(&self.name(), "killed", 1_000_000);
        std::thread::sleep(Duration::from_millis(100));
        child.kill().expect("killed");
        child.wait().expect("ended");
    }

    fn copy(&self) {
        std::fs::copy(self.file(), self.copied()).expect("copied");
    }

    fn put_back(&self) {
        std::fs::rename(self.copied(), self.file()).expect("put back");
    }
}

fn place() -> Option<Dir> {
    Some(Dir(tempfile::tempdir().expect("a directory")))
}

contract!(place);

/// A stream with three messages, of 33, 33 and 33 bytes with their origin and payload.
fn three() -> (Dir, Vec<u8>) {
    let dir = place().expect("a place");
    append_numbers(&*open(&dir.name()), &name("a"), 3);
    let bytes = std::fs::read(dir.file()).expect("the file");
    assert_eq!(bytes.len(), 4096 + 3 * 34);
    (dir, bytes)
}

#[test]
fn a_torn_record_behind_the_end_is_written_over() {
    let (dir, whole) = three();
    for torn in [1, 20, 33] {
        let mut bytes = whole.clone();
        bytes.extend_from_slice(&whole[4096..4096 + torn]);
        std::fs::write(dir.file(), &bytes).expect("written");
        let stream = open(&dir.name());
        assert_eq!(stream.extent(), Ok(Extent { first: 1, last: 3 }));
    }
    let stream = open(&dir.name());
    assert_eq!(stream.append(&name("a"), 3, b"3"), Ok(4));
    assert_eq!(check_numbers(&read_all(&*stream, 4), &name("a")), 4);
}

/// A process was killed, or the power was cut, between the sync and the end word.
#[test]
fn a_whole_record_behind_the_end_is_kept() {
    let (dir, before) = three();
    let stream = open(&dir.name());
    assert_eq!(stream.append(&name("a"), 3, b"3"), Ok(4));
    drop(stream);
    let file = std::fs::File::options().write(true).open(dir.file());
    let file = file.expect("the file");
    for end_word in [&before[2048..2080], &[0; 32]] {
        file.write_all_at(end_word, 2048).expect("the end word");
        let stream = open(&dir.name());
        let last = stream
            .last_of(&name("a"))
            .expect("read")
            .expect("a message");
        assert_eq!((last.sequence, last.bytes.as_slice()), (4, &b"3"[..]));
        assert_eq!(check_numbers(&read_all(&*stream, 4), &name("a")), 4);
    }
}

#[test]
fn a_changed_byte_of_an_acknowledged_message_is_damage() {
    let (dir, whole) = three();
    for at in 4096..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(dir.file(), &bytes).expect("written");
        match Directory::open(dir.path()).map(drop) {
            Err(Error::Refused(said)) => {
                let offset = said.split_once("the stream is damaged: stream, offset ");
                let offset = offset.and_then(|(_, rest)| rest.split(':').next()?.parse().ok());
                let offset: usize = offset.unwrap_or_else(|| panic!("byte {at}: {said}"));
                assert!((offset..offset + 34).contains(&at), "byte {at}: {said}");
            }
            other => panic!("byte {at}: {other:?}"),
        }
    }
    let mut newer = whole.clone();
    newer[16] = 9;
    std::fs::write(dir.file(), &newer).expect("written");
    match Directory::open(dir.path()).map(drop) {
        Err(Error::Refused(said)) => assert!(said.contains("version 9"), "{said}"),
        other => panic!("{other:?}"),
    }
}

/// As a restore of a backup does, while processes have the stream open.
#[test]
fn a_directory_that_was_replaced_is_locked_by_all() {
    let dir = place().expect("a place");
    let old = open(&dir.name());
    append_numbers(&*old, &name("a"), 3);
    let copied = Command::new("cp")
        .arg("-a")
        .args([dir.path(), dir.copied()])
        .status();
    assert!(copied.expect("cp").success());
    assert_eq!(old.append(&name("a"), 3, b"lost"), Ok(4));
    std::fs::rename(dir.path(), dir.0.path().join("away")).expect("moved away");
    std::fs::rename(dir.copied(), dir.path()).expect("put back");
    // One that has it open since before, and processes that open it now.
    let count = 100;
    let children = ["b", "c"].map(|origin| spawn(&dir.name(), origin, count));
    append_numbers(&*old, &name("d"), count);
    for mut child in children {
        assert!(child.wait().expect("a process").success());
    }
    let stream = open(&dir.name());
    let all = read_all(&*stream, 3 + 3 * count);
    for origin in ["b", "c", "d"] {
        assert_eq!(check_numbers(&all, &name(origin)), count);
    }
    let found = old.append(&name("a"), 4, b"x");
    assert!(
        matches!(found, Err(Error::Conflict { found: 3, .. })),
        "{found:?}"
    );
}
