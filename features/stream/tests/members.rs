//! Members as they use a stream: an origin that appends exactly once, and readers.

use densite_stream::{Error, Message, Name, Position, Stream, Take};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a member tries again while the server is away.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a valid name")
}

pub(crate) fn take(wait: Duration) -> Take {
    Take {
        messages: 1000,
        bytes: 1 << 20,
        wait,
    }
}

/// Appends a message exactly once, whatever happens to acknowledgements.
pub(crate) fn append_once(stream: &dyn Stream, origin: &Name, last: u64, bytes: &[u8]) -> u64 {
    let begun = Instant::now();
    let mut unsure = false;
    loop {
        assert!(begun.elapsed() < PATIENCE, "the stream stays away");
        match stream.append(origin, last, bytes) {
            Ok(sequence) => return sequence,
            Err(Error::TryAgain(_)) => {
                unsure = true;
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(Error::Conflict { found, .. }) if unsure => {
                let landed = stream.last_of(origin);
                match landed {
                    Ok(Some(landed)) => {
                        assert_eq!((landed.sequence, landed.bytes.as_slice()), (found, bytes));
                        return landed.sequence;
                    }
                    Ok(None) => panic!("the message of a conflict is missing"),
                    Err(Error::TryAgain(_)) => {}
                    Err(e) => panic!("{e}"),
                }
            }
            Err(e) => panic!("{e}"),
        }
    }
}

/// Appends the numbers from 0 to `count`, as text.
pub(crate) fn append_numbers(stream: &dyn Stream, origin: &Name, count: u64) {
    let begun = Instant::now();
    let last = loop {
        match stream.last_of(origin) {
            Err(Error::TryAgain(_)) if begun.elapsed() < PATIENCE => {}
            last => break last.expect("the last message"),
        }
    };
    let mut sequence = last.map_or(0, |message| message.sequence);
    for number in 0..count {
        sequence = append_once(stream, origin, sequence, number.to_string().as_bytes());
    }
}

/// Reads until the stream has `count` messages, also while the server is away.
pub(crate) fn read_all(stream: &dyn Stream, count: u64) -> Vec<Message> {
    let begun = Instant::now();
    let (mut at, mut found) = (Position::START, Vec::new());
    while (found.len() as u64) < count {
        let len = found.len();
        assert!(begun.elapsed() < PATIENCE, "{len} of {count} messages");
        match stream.read_after(at, take(Duration::from_secs(1))) {
            Ok(more) => {
                at = more.last().map_or(at, Message::position);
                found.extend(more);
            }
            Err(Error::TryAgain(_)) => std::thread::sleep(Duration::from_millis(20)),
            Err(e) => panic!("{e}"),
        }
    }
    found
}

/// Whether the messages of one origin are the numbers from 0 on, each once and in order.
pub(crate) fn check_numbers(messages: &[Message], origin: &Name) -> u64 {
    let own = messages.iter().filter(|message| message.origin == *origin);
    let mut count = 0;
    for message in own {
        assert_eq!(message.bytes, count.to_string().as_bytes(), "{origin}");
        count += 1;
    }
    let sequences: Vec<u64> = messages.iter().map(|message| message.sequence).collect();
    assert!(sequences.iter().copied().eq(1..=sequences.len() as u64));
    count
}

/// The variable that makes this program a member in a process of its own: where the stream is, its
/// origin and how many numbers it appends.
const MEMBER: &str = "DENSITE_STREAM_MEMBER";

/// Starts a process that appends numbers.
pub(crate) fn spawn(place: &str, origin: &str, count: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "members::as_a_process", "--ignored"])
        .env(MEMBER, format!("{place} {origin} {count}"))
        .stdout(Stdio::null())
        .spawn()
        .expect("a process")
}

#[test]
#[ignore = "a process of other tests"]
fn as_a_process() {
    let Ok(member) = std::env::var(MEMBER) else {
        return;
    };
    let words: Vec<&str> = member.split(' ').collect();
    let [place, origin, count] = words[..] else {
        panic!("{member}");
    };
    let count = count.parse().expect("a number");
    append_numbers(&*open(place), &name(origin), count);
}

#[cfg(feature = "nats")]
pub(crate) const STREAM: &str = "DENSITE";

/// The options of the tests, for "URL|MONITOR".
#[cfg(feature = "nats")]
pub(crate) fn options(at: &str) -> densite_stream::JetStreamOptions {
    let (url, monitor) = at.split_once('|').expect("two addresses");
    densite_stream::JetStreamOptions {
        monitors: vec![monitor.to_owned()],
        can_be_trimmed: true,
        timeout: Duration::from_secs(3),
        ..densite_stream::JetStreamOptions::new(url, STREAM)
    }
}

#[cfg(feature = "nats")]
pub(crate) fn open_nats(at: &str) -> densite_stream::Result<densite_stream::JetStream> {
    densite_stream::JetStream::open(options(at), &name("app"))
}

/// Opens the stream that a place of a test names.
pub(crate) fn open(place: &str) -> Box<dyn Stream> {
    let (kind, at) = place.split_once('=').expect("a kind");
    match kind {
        "directory" => Box::new(densite_directory_stream::Directory::open(at).expect("a stream")),
        #[cfg(feature = "nats")]
        "nats" => Box::new(open_nats(at).expect("a stream")),
        _ => panic!("{place}"),
    }
}
