//! The bytes of a stream in a directory, for the fuzzer (`fuzz/`).

use crate::format::{
    END_LEN, END_OFFSET, End, HEADER_LEN, Header, RECORD_LEN, RECORDS, RecordHead, encode, sum,
};
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};
use densite_stream::{Identity, Message, Name};

/// The name of the file in its directory.
pub const FILE: &str = "stream";

/// The file of a stream that begins at a sequence, with these messages. The last `behind` are not
/// known to be durable.
pub fn file(first: u64, messages: &[(&str, &[u8])], behind: usize) -> Vec<u8> {
    let header = Header {
        identity: Identity([7; 16]),
        first,
    };
    let mut bytes = vec![0; RECORDS as usize];
    bytes[..HEADER_LEN].copy_from_slice(&header.encode());
    let mut end = End {
        offset: RECORDS,
        last: first - 1,
        seed: header.seed(),
    };
    let mut word = end;
    for (i, (origin, contents)) in messages.iter().enumerate() {
        let message = Message {
            sequence: end.last + 1,
            origin: origin.parse().expect("a valid name"),
            time_ns: 1_000_000 * end.last,
            bytes: contents.to_vec(),
        };
        let (record, seed) = encode(&message, end.seed);
        bytes.extend_from_slice(&record);
        end = End {
            offset: bytes.len() as u64,
            last: message.sequence,
            seed,
        };
        if i + behind < messages.len() {
            word = end;
        }
    }
    let at = END_OFFSET as usize;
    bytes[at..at + END_LEN].copy_from_slice(&word.encode(header.seed()));
    bytes
}

/// Makes the checksums right: of the header, of the end word, and of each record that has its place.
pub fn repair(bytes: &mut [u8]) {
    let Some(head) = bytes.get_mut(..HEADER_LEN) else {
        return;
    };
    let check = xxh3_64(&head[..48]);
    head[48..].copy_from_slice(&check.to_le_bytes());
    let mut seed = xxh3_64(head);
    let at = END_OFFSET as usize;
    if let Some(word) = bytes.get_mut(at..at + END_LEN) {
        let check = xxh3_64_with_seed(&word[..24], seed);
        word[24..].copy_from_slice(&check.to_le_bytes());
    }
    let mut at = RECORDS as usize;
    while let Some((head, rest)) = bytes
        .get_mut(at..)
        .and_then(|rest| rest.split_first_chunk_mut::<RECORD_LEN>())
    {
        let Some(known) = RecordHead::decode(head) else {
            return;
        };
        let Some(body) = rest.get(..known.body_len()) else {
            return;
        };
        seed = sum(&head[..24], body, seed);
        head[24..].copy_from_slice(&seed.to_le_bytes());
        at += RECORD_LEN + known.body_len();
    }
}

/// Where fields are: offset and size.
pub fn fields(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut row = |at: usize, sizes: &[usize]| {
        let mut at = at;
        for size in sizes {
            found.push((at, *size));
            at += size;
        }
    };
    row(16, &[4, 4]);
    row(40, &[8]);
    row(END_OFFSET as usize, &[8, 8, 8]);
    let mut at = RECORDS as usize;
    while let Some(head) = bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<RECORD_LEN>())
    {
        row(at, &[4, 2, 2, 8, 8]);
        let Some(known) = RecordHead::decode(head) else {
            break;
        };
        at += RECORD_LEN + known.body_len();
    }
    found
}

/// A name that no message of [`file()`] has.
pub fn other() -> Name {
    "other".parse().expect("a valid name")
}
