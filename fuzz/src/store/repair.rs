//! Corrects checksums, so that mutants reach the code behind them.

use super::layout::{
    CHECKED, Chain, DATA_OFF, RAW_CHECK, RECORD_LEN, SLOT_COPY, SLOT_OFF, TIP_OFF, first_hash,
    kind, node_raw, word,
};
use super::{OFFSET, SALT};
use crate::target::put;
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};
use densite_store::codec::{self, CodecId, Dictionary};
use densite_store::decoders::{RecordHeader, record_header};
use std::collections::{HashMap, HashSet};

pub(super) fn header(bytes: &mut [u8]) {
    let sum = bytes.get(..32).map_or(0, xxh3_64);
    put(bytes, 32, &sum.to_le_bytes());
}

pub(super) fn slot(bytes: &mut [u8]) {
    slot_at(bytes, 0);
}

fn slot_at(bytes: &mut [u8], at: usize) {
    let sum = bytes.get(at..at + 72).map_or(0, xxh3_64);
    put(bytes, at + 72, &sum.to_le_bytes());
}

pub(super) fn tip(bytes: &mut [u8]) {
    tip_at(bytes, 0, SALT);
}

fn tip_at(bytes: &mut [u8], at: usize, salt: u64) {
    let sum = bytes
        .get(at..at + 40)
        .map_or(0, |b| xxh3_64_with_seed(b, salt));
    put(bytes, at + 40, &sum.to_le_bytes());
}

pub(super) fn record(bytes: &mut [u8]) {
    record_at(bytes, 0, SALT, OFFSET);
}

/// Makes the checksum of the record at `at` right and returns it. `offset` is the place that the
/// checksum covers.
fn record_at(bytes: &mut [u8], at: usize, salt: u64, offset: u64) -> u64 {
    let Some(header) = bytes.get(at..).and_then(record_header) else {
        return 0;
    };
    let len = header.stored_len as usize;
    let (Some(head), Some(payload)) = (
        bytes.get(at..at + CHECKED),
        bytes.get(at + RECORD_LEN..at + RECORD_LEN + len),
    ) else {
        return 0;
    };
    let sum = xxh3_64_with_seed(payload, xxh3_64_with_seed(head, salt ^ offset));
    put(bytes, at + CHECKED, &sum.to_le_bytes());
    sum
}

/// A record in a file, which was found by lengths and jumps. Its checksum can be wrong.
pub(super) struct Found {
    pub(super) at: usize,
    pub(super) header: RecordHeader,
    /// The hash of the commit before it, if this record does not follow the record found before.
    after: Option<[u8; 16]>,
}

/// The records of a file: from the beginning, and behind every trailer that slots and tip name.
pub(super) fn scan(bytes: &[u8]) -> Vec<Found> {
    let mut out = Vec::new();
    let mut seen = HashSet::new();
    let salt = word(bytes, 24);
    let mut starts = vec![(DATA_OFF, first_hash(salt))];
    for at in SLOT_OFF.map(|off| off + 24).into_iter().chain([TIP_OFF]) {
        let trailer = usize::try_from(word(bytes, at + 8)).unwrap_or(usize::MAX);
        let hash = bytes
            .get(at + 24..at + 40)
            .and_then(|b| b.try_into().ok())
            .unwrap_or_default();
        let next = word(
            bytes,
            trailer.saturating_add(RECORD_LEN + 32).min(bytes.len()),
        );
        starts.push((trailer, hash));
        starts.push((usize::try_from(next).unwrap_or(usize::MAX), hash));
    }
    for (start, hash) in starts {
        let (mut at, mut after) = (start, Some(hash));
        while let Some(header) = bytes.get(at..).and_then(record_header) {
            let len = header.stored_len as usize;
            if at < DATA_OFF || bytes.len() < at + RECORD_LEN + len || !seen.insert(at) {
                break;
            }
            out.push(Found {
                at,
                header,
                after: after.take(),
            });
            at = match header.kind {
                kind::JUMP => usize::try_from(word(bytes, at + RECORD_LEN)).unwrap_or(usize::MAX),
                _ => at + RECORD_LEN + len,
            };
        }
    }
    out
}

/// Makes all of a file right: header, slots, tip, the checksums of every record, every chain hash,
/// and the hashes by which trailers name each other.
pub(super) fn file(bytes: &mut [u8]) {
    if bytes.len() < DATA_OFF {
        return;
    }
    header(bytes);
    let salt = word(bytes, 24);
    let mut dicts: HashMap<u32, Dictionary> = HashMap::new();
    let mut trailers: HashMap<u64, (u32, [u8; 16])> = HashMap::from([(0, (0, first_hash(salt)))]);
    let mut chain = Chain::after(&first_hash(salt));
    for found in scan(bytes) {
        let Found { at, header, after } = found;
        let len = header.stored_len as usize;
        if let Some(hash) = after {
            // The trailer that a slot or the tip names can have got another hash by now.
            chain = Chain::after(&hash);
        }
        let payload = at + RECORD_LEN..at + RECORD_LEN + len;
        match header.kind {
            kind::FRAME | kind::NODE => check_at(bytes, at, header, payload, &dicts),
            kind::DICTIONARY => {
                let dict = bytes.get(payload).unwrap_or_default();
                let codec = CodecId(header.codec);
                let dict = Dictionary::from_stored(header.number, codec, dict);
                dicts.insert(header.number, dict);
            }
            kind::TRAILER => {
                if let Some((prev_len, hash)) = trailers.get(&word(bytes, payload.start + 64)) {
                    put(bytes, payload.start + 72, &prev_len.to_le_bytes());
                    put(bytes, payload.start + 80, hash);
                }
                if after.is_some() {
                    // The records of its commit are not known, so its hash stays. Recovery from a
                    // slot trusts this hash.
                    let hash = bytes
                        .get(payload.end.saturating_sub(16)..payload.end)
                        .and_then(|b| b.try_into().ok())
                        .unwrap_or_default();
                    record_at(bytes, at, salt, at as u64);
                    trailers.insert(at as u64, ((RECORD_LEN + len) as u32, hash));
                    chain = Chain::after(&hash);
                    continue;
                }
                let Some(fields) = len
                    .checked_sub(16)
                    .and_then(|n| bytes.get(payload.start..payload.start + n))
                else {
                    continue;
                };
                let hash = chain.finish(fields);
                put(bytes, payload.end - 16, &hash);
                record_at(bytes, at, salt, at as u64);
                trailers.insert(at as u64, ((RECORD_LEN + len) as u32, hash));
                chain = Chain::after(&hash);
                continue;
            }
            _ => {}
        }
        chain.record(record_at(bytes, at, salt, at as u64));
    }
    for at in SLOT_OFF.into_iter().flat_map(|off| [off, off + SLOT_COPY]) {
        if bytes.get(at..at + 4) == Some(b"DSLT") {
            put(bytes, at + 16, &salt.to_le_bytes());
            name(bytes, at + 24, &trailers);
            slot_at(bytes, at);
        }
    }
    name(bytes, TIP_OFF, &trailers);
    tip_at(bytes, TIP_OFF, salt);
}

/// Gives the tip at `at` the length and hash of the trailer that it names.
fn name(bytes: &mut [u8], at: usize, trailers: &HashMap<u64, (u32, [u8; 16])>) {
    if let Some((len, hash)) = trailers.get(&word(bytes, at + 8)) {
        put(bytes, at + 16, &len.to_le_bytes());
        put(bytes, at + 24, hash);
    }
}

/// Makes the check of the decoded payload right, if the payload can be decoded.
fn check_at(
    bytes: &mut [u8],
    at: usize,
    header: RecordHeader,
    payload: std::ops::Range<usize>,
    dicts: &HashMap<u32, Dictionary>,
) {
    let len = match header.kind {
        kind::FRAME => (1usize << header.page_log2) << header.run_log2,
        _ => node_raw(u32::from(header.page_log2)),
    };
    let mut raw = vec![0; len];
    let payload = bytes.get(payload).unwrap_or_default();
    let dict = dicts.get(&header.model);
    if codec::decode(CodecId(header.codec), payload, dict, &mut raw).is_ok() {
        put(bytes, at + RAW_CHECK, &(xxh3_64(&raw) as u32).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{file, seeds};

    /// A repair hides damage, so mutants reach what is behind the checksums: a changed trailer is
    /// an accepted trailer.
    #[test]
    fn a_repaired_file_opens() {
        for (name, bytes) in seeds::file() {
            let found = scan(&bytes);
            let Some(last) = found.iter().rfind(|f| f.header.kind == kind::TRAILER) else {
                continue;
            };
            let mut changed = bytes.clone();
            // The epoch, which can be any number.
            changed[last.at + RECORD_LEN + 8] ^= 0xFF;
            let before = file::file(&bytes);
            assert_ne!(file::file(&changed), before, "{name}: damage is noticed");
            super::file(&mut changed);
            assert_eq!(file::file(&changed), before, "{name}: it is repaired");
        }
    }
}
