//! What every stream promises.

use crate::members::{
    append_numbers, append_once, check_numbers, name, open, read_all, spawn, take,
};
use densite_stream::{Error, Extent, Message, Position, Stream, SyncInterval, Take};
use std::time::{Duration, Instant};

/// Where an implementation keeps a stream, and what can happen to it there.
pub(crate) trait Place: Sync {
    /// For [`open`].
    fn name(&self) -> String;
    /// Removes the stream and everything in it.
    fn remove(&self);
    /// Kills what can be killed, and starts it again.
    fn kill(&self);
    /// Keeps a copy of everything stored.
    fn copy(&self);
    /// Puts the copy in the place of what is stored.
    fn put_back(&self);
}

/// The tests of the contract, for a function that returns a place, or `None` to skip the test.
macro_rules! contract {
    ($place:path) => {
        $crate::contract::contract!($place:
            messages_have_one_order
            a_wrong_expected_sequence_is_refused
            a_lost_acknowledgement_is_found
            reading_begins_at_any_position
            a_read_returns_what_it_has_room_for
            a_waiting_reader_gets_a_message_at_once
            a_stream_that_was_made_again_is_noticed
            a_position_below_the_first_message_is_lost
            the_last_message_of_an_origin_stays
            an_origin_that_left_keeps_nothing
            a_message_that_is_too_large_is_refused
            two_processes_append_at_the_same_time
            kills_lose_nothing_and_double_nothing
            an_older_copy_is_noticed
            an_acknowledgement_says_what_it_is_worth
        );
    };
    ($place:path: $($test:ident)*) => {
        $(#[test]
        fn $test() {
            if let Some(place) = $place() {
                $crate::contract::$test(&place);
            }
        })*
    };
}
pub(crate) use contract;

const NOW: Duration = Duration::ZERO;
const SOON: Duration = Duration::from_secs(5);

fn texts(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| String::from_utf8_lossy(&message.bytes).into_owned();
    messages.iter().map(text).collect()
}

/// Appends one message for each text and returns the last sequence.
fn append(stream: &dyn Stream, origin: &str, after: u64, texts: &[&str]) -> u64 {
    texts.iter().fold(after, |last, text| {
        let done = stream.append(&name(origin), last, text.as_bytes());
        done.unwrap_or_else(|e| panic!("{origin}: {text}: {e}"))
    })
}

pub(crate) fn messages_have_one_order(place: &dyn Place) {
    let (a, b) = (open(&place.name()), open(&place.name()));
    assert_eq!(a.identity(), b.identity());
    assert_eq!(a.extent(), Ok(Extent { first: 1, last: 0 }));
    let mut last = [0, 0];
    for i in 0..10u8 {
        let (stream, origin) = if i % 3 == 0 { (&a, 0) } else { (&b, 1) };
        let sequence = stream.append(&name(["a", "b"][origin]), last[origin], &[i]);
        last[origin] = sequence.expect("appended");
        assert_eq!(last[origin], u64::from(i) + 1);
    }
    let read = [&a, &b].map(|stream| read_all(&**stream, 10));
    assert_eq!(read[0], read[1]);
    for (i, message) in read[0].iter().enumerate() {
        assert_eq!(message.bytes, [i as u8]);
        assert_eq!(message.origin, name(if i % 3 == 0 { "a" } else { "b" }));
    }
    assert!(read[0].is_sorted_by_key(|message| message.time_ns));
    assert_eq!(a.extent(), Ok(Extent { first: 1, last: 10 }));
}

pub(crate) fn a_wrong_expected_sequence_is_refused(place: &dyn Place) {
    let stream = open(&place.name());
    let (a, b) = (name("a"), name("b"));
    let conflict = |expected, found| {
        Err(Error::Conflict {
            origin: a.to_string(),
            expected,
            found,
        })
    };
    assert_eq!(stream.append(&a, 7, b"x"), conflict(7, 0));
    assert_eq!(stream.append(&a, 0, b"x"), Ok(1));
    assert_eq!(stream.append(&b, 0, b"y"), Ok(2), "of another origin");
    assert_eq!(stream.append(&a, 0, b"z"), conflict(0, 1));
    assert_eq!(stream.append(&a, 2, b"z"), conflict(2, 1));
    assert_eq!(stream.append(&a, 1, b"z"), Ok(3));
    assert_eq!(texts(&read_all(&*stream, 3)), ["x", "y", "z"]);
}

pub(crate) fn a_lost_acknowledgement_is_found(place: &dyn Place) {
    let stream = open(&place.name());
    let a = name("a");
    assert_eq!(stream.last_of(&a), Ok(None));
    append(&*stream, "a", 0, &["before", "lost"]);
    append(&*stream, "b", 0, &["other"]);
    // The origin knows only of the first message, and tries again.
    match stream.append(&a, 1, b"lost") {
        Err(Error::Conflict { found: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    let last = stream.last_of(&a).expect("read").expect("a message");
    assert_eq!((last.sequence, last.bytes.as_slice()), (2, &b"lost"[..]));
    assert_eq!(append_once(&*stream, &a, 2, b"next"), 4);
}

pub(crate) fn reading_begins_at_any_position(place: &dyn Place) {
    let stream = open(&place.name());
    append_numbers(&*stream, &name("a"), 20);
    let all = read_all(&*stream, 20);
    // Backwards, so that no read goes on where another one ended.
    for i in (0..20).rev() {
        let found = stream.read_after(all[i].position(), take(NOW));
        let found = found.expect("read");
        assert_eq!(found.first(), all.get(i + 1));
    }
    let middle = stream.read_after(all[9].position(), take(SOON));
    assert_eq!(middle.expect("read")[0], all[10]);
}

pub(crate) fn a_read_returns_what_it_has_room_for(place: &dyn Place) {
    let stream = open(&place.name());
    append(&*stream, "a", 0, &["aaaa", "bbbb", "cccc", "dddd"]);
    let read = |at, messages, bytes| {
        let wait = SOON;
        let room = Take {
            messages,
            bytes,
            wait,
        };
        stream.read_after(at, room).expect("read")
    };
    let first = read(Position::START, 1, 100);
    assert_eq!(texts(&first), ["aaaa"]);
    let mut found = Vec::new();
    let mut at = first[0].position();
    while found.len() < 3 {
        let more = read(at, 100, 8);
        assert!((1..=2).contains(&more.len()), "{more:?}");
        at = more[more.len() - 1].position();
        found.extend(more);
    }
    assert_eq!(texts(&found), ["bbbb", "cccc", "dddd"]);
    let large = read(Position::START, 100, 1);
    assert_eq!(texts(&large), ["aaaa"], "one message, however large");
}

pub(crate) fn a_waiting_reader_gets_a_message_at_once(place: &dyn Place) {
    let (reader, writer) = (open(&place.name()), open(&place.name()));
    let begun = Instant::now();
    let none = reader.read_after(Position::START, take(Duration::from_millis(300)));
    assert_eq!(none, Ok(Vec::new()));
    assert!(begun.elapsed() >= Duration::from_millis(300));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let found = reader.read_after(Position::START, take(Duration::from_secs(20)));
            (found.expect("read"), Instant::now())
        });
        std::thread::sleep(Duration::from_millis(300));
        let appended = Instant::now();
        append(&*writer, "a", 0, &["x"]);
        let (found, at) = waiting.join().expect("the reader");
        assert_eq!(texts(&found), ["x"]);
        assert!(
            at - appended < Duration::from_secs(2),
            "{:?}",
            at - appended
        );
    });
}

pub(crate) fn a_stream_that_was_made_again_is_noticed(place: &dyn Place) {
    let stream = open(&place.name());
    append(&*stream, "a", 0, &["x", "y"]);
    let all = read_all(&*stream, 2);
    let is_noticed = || {
        let at = all[1].position();
        let found = [
            stream.extent().map(drop),
            stream.last_of(&name("a")).map(drop),
            stream.read_after(at, take(SOON)).map(drop),
            stream.append(&name("a"), 2, b"z").map(drop),
            stream.append(&name("new"), 0, b"z").map(drop),
        ];
        for (call, found) in found.into_iter().enumerate() {
            match found {
                Err(Error::IdentityChanged { expected, .. }) => {
                    assert_eq!(expected, stream.identity());
                }
                other => panic!("call {call}: {other:?}"),
            }
        }
    };
    place.remove();
    is_noticed();
    let other = open(&place.name());
    assert_ne!(other.identity(), stream.identity());
    append(&*other, "a", 0, &["x", "y", "z"]);
    is_noticed();
}

pub(crate) fn a_position_below_the_first_message_is_lost(place: &dyn Place) {
    let stream = open(&place.name());
    append(&*stream, "a", 0, &["1", "2", "3", "4", "5"]);
    let all = read_all(&*stream, 5);
    stream.trim(4, &[name("a")]).expect("removed");
    assert_eq!(stream.extent(), Ok(Extent { first: 4, last: 5 }));
    let lost = |wanted| Err(Error::Lost { wanted, first: 4 });
    for reader in [&stream, &open(&place.name())] {
        assert_eq!(reader.read_after(Position::START, take(NOW)), lost(1));
        assert_eq!(reader.read_after(all[1].position(), take(NOW)), lost(3));
        let found = reader.read_after(all[2].position(), take(SOON));
        assert_eq!(found.expect("read")[0], all[3], "the next one is there");
    }
    assert_eq!(append(&*stream, "a", 5, &["6"]), 6);
    assert_eq!(
        stream.append(&name("b"), 2, b"x"),
        Err(Error::Lost {
            wanted: 2,
            first: 4
        })
    );
}

pub(crate) fn the_last_message_of_an_origin_stays(place: &dyn Place) {
    let stream = open(&place.name());
    append(&*stream, "b", 0, &["b"]);
    append(&*stream, "a", 0, &["1", "2"]);
    let both = [name("a"), name("b")];
    for beyond in [2, 5] {
        let found = stream.trim(beyond, &both);
        assert!(matches!(found, Err(Error::Refused(_))), "{found:?}");
    }
    assert_eq!(stream.trim(1, &both), Ok(()));
    assert_eq!(stream.extent(), Ok(Extent { first: 1, last: 3 }));
    append(&*stream, "b", 1, &["c"]);
    assert_eq!(stream.trim(3, &both), Ok(()));
    assert_eq!(stream.extent(), Ok(Extent { first: 3, last: 4 }));
}

/// It can come back with a first message.
pub(crate) fn an_origin_that_left_keeps_nothing(place: &dyn Place) {
    let stream = open(&place.name());
    append(&*stream, "b", 0, &["b"]);
    append(&*stream, "a", 0, &["1", "2"]);
    assert_eq!(stream.trim(3, &[name("a")]), Ok(()));
    assert_eq!(stream.last_of(&name("b")), Ok(None));
    assert_eq!(append(&*stream, "b", 0, &["c"]), 4);
}

pub(crate) fn a_message_that_is_too_large_is_refused(place: &dyn Place) {
    let stream = open(&place.name());
    let max = stream.max_payload().expect("a limit");
    assert!(max >= 512 << 10, "{max}");
    let mut bytes = vec![7; max];
    assert_eq!(stream.append(&name("a"), 0, &bytes), Ok(1));
    bytes.resize(max + (8 << 10), 7);
    match stream.append(&name("a"), 1, &bytes) {
        Err(Error::TooLarge { bytes: found, .. }) => assert_eq!(found, bytes.len()),
        other => panic!("{other:?}"),
    }
    assert_eq!(append(&*stream, "a", 1, &["x", ""]), 3);
    let read = read_all(&*stream, 3);
    assert!(read[0].bytes.len() == max && read[2].bytes.is_empty());
}

pub(crate) fn two_processes_append_at_the_same_time(place: &dyn Place) {
    let count = 150;
    let stream = open(&place.name());
    let children = ["a", "b"].map(|origin| spawn(&place.name(), origin, count));
    let read = read_all(&*stream, 2 * count);
    for mut child in children {
        assert!(child.wait().expect("a process").success());
    }
    for origin in ["a", "b"] {
        assert_eq!(check_numbers(&read, &name(origin)), count);
    }
}

pub(crate) fn kills_lose_nothing_and_double_nothing(place: &dyn Place) {
    let count = 600;
    let (writer, reader) = (open(&place.name()), open(&place.name()));
    let a = name("a");
    let read = std::thread::scope(|scope| {
        let writing = scope.spawn(|| append_numbers(&*writer, &a, count));
        let reading = scope.spawn(|| read_all(&*reader, count));
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(150));
            place.kill();
        }
        writing.join().expect("the writer");
        reading.join().expect("the reader")
    });
    let last = writer.extent().expect("an extent").last;
    let all = read_all(&*writer, last);
    assert_eq!(check_numbers(&all, &a), count);
    assert_eq!(all[..read.len()], read, "what was read stays");
}

pub(crate) fn an_older_copy_is_noticed(place: &dyn Place) {
    let stream = open(&place.name());
    append(&*stream, "a", 0, &["1", "2"]);
    place.copy();
    append(&*stream, "a", 2, &["3", "4"]);
    let all = read_all(&*stream, 4);
    place.put_back();
    let read = |at: usize| {
        let begun = Instant::now();
        loop {
            match stream.read_after(all[at].position(), take(SOON)) {
                Err(Error::TryAgain(_)) if begun.elapsed() < Duration::from_secs(20) => {}
                found => return found,
            }
        }
    };
    let diverged = |sequence, last| Err(Error::Diverged { sequence, last });
    assert_eq!(read(3), diverged(4, 2));
    // Another origin is faster, and the sequences exist again.
    append(&*stream, "b", 0, &["x", "y", "z"]);
    assert_eq!(read(3), diverged(4, 5));
    let found = texts(&read(1).expect("what the copy has is the same"));
    assert_eq!(found, ["x", "y", "z"]);
    match stream.append(&name("a"), 4, b"5") {
        Err(Error::Conflict { found: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(append(&*stream, "a", 2, &["3", "4"]), 7, "published again");
}

pub(crate) fn an_acknowledgement_says_what_it_is_worth(place: &dyn Place) {
    let durability = open(&place.name()).durability().expect("known");
    assert_eq!(durability.replicas, 1);
    assert_eq!(durability.sync, SyncInterval::Always);
    assert!(durability.survives_a_power_cut());
}
