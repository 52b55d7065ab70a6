//! A stream in a directory of a simulated disk: the power is cut at every change of the disk, and
//! calls fail. Acknowledged messages are there, once; another one can be there as a whole.

use crate::members::{name, take};
use densite_directory_stream::Directory;
use densite_disk::Op;
use densite_sim_disk::{Fault, FaultKind, SimDisk};
use densite_stream::{Error, Position, Stream};
use std::time::Duration;

/// How many outcomes of each cut are judged.
const OUTCOMES: u64 = 12;

const MESSAGES: u64 = 10;

/// The contents of the message with a sequence.
fn bytes(sequence: u64) -> Vec<u8> {
    vec![sequence as u8; (sequence * 397 % 5000) as usize]
}

fn open(disk: &SimDisk) -> Result<Directory, Error> {
    Directory::open_in(Box::new(disk.dir("/stream")))
}

/// What was acknowledged: the last message, and the first one after old ones were removed.
#[derive(Clone, Copy, Debug, Default)]
struct Acknowledged {
    last: u64,
    first: u64,
}

/// Appends and removes messages, until a call fails.
fn work(disk: &SimDisk, done: &mut Acknowledged) -> Result<(), Error> {
    let mut stream = open(disk)?;
    while done.last < MESSAGES {
        done.last = stream.append(&name("a"), done.last, &bytes(done.last + 1))?;
        match done.last {
            4 | 8 => {
                stream.trim(done.last - 1, &[name("a")])?;
                done.first = done.last - 1;
            }
            6 => stream = open(disk)?,
            _ => {}
        }
    }
    Ok(())
}

/// Judges the messages of a disk, and appends one more. Returns what is acknowledged then.
fn judge(disk: &SimDisk, done: Acknowledged, case: &str) -> Acknowledged {
    let stream = open(disk).unwrap_or_else(|e| panic!("{case}: {e}"));
    let extent = stream.extent().expect("an extent");
    let is_fine = (done.last..=done.last + 1).contains(&extent.last);
    assert!(is_fine, "{case}: {extent:?}, {done:?}");
    assert!(extent.first >= done.first, "{case}: {extent:?}, {done:?}");
    let position = stream.last_of(&name("a")).expect("read");
    assert_eq!(position.map_or(0, |m| m.sequence), extent.last, "{case}");
    // The message of this position was removed, so its mark is not compared.
    let before = Position {
        sequence: extent.first - 1,
        mark: 0,
    };
    let room = take(Duration::ZERO);
    for message in stream.read_after(before, room).expect("read") {
        let is_next = message.bytes == b"next";
        assert!(
            is_next || message.bytes == bytes(message.sequence),
            "{case}"
        );
    }
    let next = stream.append(&name("a"), extent.last, b"next");
    assert_eq!(next, Ok(extent.last + 1), "{case}");
    drop(stream);
    let stream = open(disk).unwrap_or_else(|e| panic!("{case}: {e}"));
    assert_eq!(stream.extent().expect("an extent").last, extent.last + 1);
    Acknowledged {
        last: extent.last + 1,
        first: extent.first,
    }
}

#[test]
fn a_power_cut_at_any_change_loses_nothing_acknowledged() {
    let whole = SimDisk::new(1);
    let mut done = Acknowledged::default();
    work(&whole, &mut done).expect("without a cut");
    assert!(whole.changes() > 30);
    for change in 1..=whole.changes() {
        let disk = SimDisk::new(change);
        disk.cut_at_change(change);
        let mut done = Acknowledged::default();
        let ended = work(&disk, &mut done);
        assert!(ended.is_err() || done.last == MESSAGES);
        for seed in 0..OUTCOMES {
            let survivor = disk.power_cut(seed);
            judge(&survivor, done, &format!("change {change}, seed {seed}"));
        }
    }
}

#[test]
fn a_failed_call_is_not_an_acknowledgement() {
    for op in [Op::Write, Op::Sync, Op::Truncate, Op::Rename, Op::Open] {
        for after in 0..40 {
            let disk = SimDisk::new(after);
            let fault = Fault::new(FaultKind::Io, op).after(after).with_prefix(20);
            disk.fail(fault);
            let mut done = Acknowledged::default();
            let ended = work(&disk, &mut done);
            if disk.fault_hits() == 0 {
                assert_eq!(ended, Ok(()));
                break;
            }
            disk.clear_faults();
            let case = format!("{op:?} {after}: {ended:?}");
            for seed in 0..OUTCOMES {
                judge(&disk.survivor(seed), done, &format!("{case}, cut {seed}"));
            }
            // What a failed sync left is never trusted.
            let done = judge(&disk, done, &case);
            for seed in 0..OUTCOMES {
                let case = format!("{case}, cut {seed} later");
                judge(&disk.survivor(seed), done, &case);
            }
        }
    }
}
