//! The file of a stream in a directory as a target.

use crate::target::{Seeds, Target, outcome};
use densite_directory_stream::Directory;
use densite_directory_stream::bytes::{FILE, fields, file, other, repair};
use densite_disk::{Dir, OpenMode};
use densite_sim_disk::SimDisk;
use densite_stream::{Extent, Message, Position, Stream, Take};
use std::time::Duration;

/// A file is refused, or all its messages are read, one by one and together. It takes another one,
/// which is there when it is opened again.
pub(crate) const STREAM: Target = Target {
    name: "stream",
    run,
    repair,
    fields,
    seeds,
};

const TAKE: Take = Take {
    messages: 1000,
    bytes: 1 << 20,
    wait: Duration::ZERO,
};

fn run(bytes: &[u8]) -> u64 {
    let disk = SimDisk::new(1);
    let dir = || Box::new(disk.dir("/stream"));
    let made = dir().open(FILE, OpenMode::Create).expect("a file");
    made.write_at(bytes, 0).expect("written");
    drop(made);
    let stream = match Directory::open_in(dir()) {
        Ok(stream) => stream,
        Err(e) => return outcome(&e.to_string()),
    };
    let messages = match read(&stream) {
        Ok(messages) => messages,
        Err(e) => return outcome(&e.to_string()),
    };
    let origin = other();
    let last = stream.last_of(&origin).expect("it is known");
    let last = last.map_or(0, |message| message.sequence);
    let sequence = match stream.append(&origin, last, b"one more") {
        Ok(sequence) => sequence,
        Err(e) => return outcome(&e.to_string()),
    };
    drop(stream);
    let stream = Directory::open_in(dir()).expect("it opens again");
    let again = read(&stream).expect("it is read again");
    let (one, before) = again.split_last().expect("a message");
    assert_eq!(before, messages, "the messages stay");
    assert_eq!(
        (one.sequence, one.bytes.as_slice()),
        (sequence, &b"one more"[..])
    );
    messages.len() as u64
}

/// All messages.
fn read(stream: &Directory) -> densite_stream::Result<Vec<Message>> {
    let Extent { first, last } = stream.extent()?;
    let mut found: Vec<Message> = Vec::new();
    let mut at = Position {
        sequence: first - 1,
        mark: 0,
    };
    loop {
        let more = stream.read_after(at, TAKE)?;
        let Some(end) = more.last() else { break };
        at = end.position();
        found.extend(more);
    }
    let sequences = found.iter().map(|message| message.sequence);
    assert!(sequences.eq(first..last + 1), "there are no gaps");
    for message in &found {
        let same = stream.message(message.sequence)?;
        assert_eq!(same.as_ref(), Some(message));
        let last = stream.last_of(&message.origin)?.expect("it has one");
        assert!(last.sequence >= message.sequence, "it is the last one");
    }
    Ok(found)
}

fn seeds() -> Seeds {
    let long = vec![7; 300];
    let messages: [(&str, &[u8]); 4] = [("a", b"one"), ("b", b""), ("a", &long), ("c-1_x", b"x")];
    vec![
        ("empty", file(1, &[], 0)),
        ("four", file(1, &messages, 0)),
        ("behind", file(1, &messages, 2)),
        ("trimmed", file(1_000_000, &messages, 0)),
    ]
}
