//! Making checksums right, so that what lies behind them is reached.

use super::{OFFSET, SALT};
use crate::codec::{self, CodecId, Dictionary};
use crate::format::record::{CHECKED, Chain, Kind, RAW_CHECK, RECORD_LEN, Record, raw_check};
use crate::format::{DATA_OFF, SLOT_COPY, SLOT_OFF, TIP_OFF};
use crate::map::node::Node;
use crate::state::first_hash;
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};
use densite_typed::page::{Kind as Btree, Page, local_len, varint};
use std::collections::{HashMap, HashSet};

pub(super) fn none(_: &mut [u8]) {}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(to) = bytes.get_mut(at..at + value.len()) {
        to.copy_from_slice(value);
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// Makes the page's accounts right: content start, freeblocks and fragments are what its cells leave, where these do not overlap.
pub(super) fn btree(bytes: &mut [u8]) {
    let [flags, reserved, _, _, page @ ..] = bytes else {
        return;
    };
    let (first, is_layout) = (*flags & 1 != 0, *flags & 2 != 0);
    if is_layout
        || page.len() > 65_536
        || Page::new().parse(
            page,
            page.len().saturating_sub(usize::from(*reserved)),
            first,
        )
    {
        return;
    }
    // What is not there is not repaired.
    let _ = accounts(page, usize::from(*reserved), if first { 100 } else { 0 });
}

fn accounts(page: &mut [u8], reserved: usize, header_at: usize) -> Option<()> {
    let usable = page.len().checked_sub(reserved)?;
    let kind = Btree::from_byte(*page.get(header_at)?)?;
    let number = |page: &[u8], at: usize| {
        let two = page.get(at..)?.first_chunk()?;
        Some(usize::from(u16::from_be_bytes(*two)))
    };
    let cells = number(page, header_at + 3)?;
    let pointers_at = header_at + kind.header_len();
    let mut taken = Vec::new();
    for i in 0..cells {
        let start = number(page, pointers_at + 2 * i)?;
        let mut at = start + if kind.has_child() { 4 } else { 0 };
        let mut payload = 0;
        if kind != Btree::TableInterior {
            let (value, len) = varint(page.get(at..usable)?)?;
            payload = value;
            at += len;
        }
        if kind.is_table() {
            at += varint(page.get(at..usable)?)?.1;
        }
        let local = local_len(kind, usable, payload);
        at += local;
        if (local as u64) < payload {
            at += 4;
        }
        taken.push((start, at.max(start + 4)));
    }
    taken.sort_unstable();
    let start = taken.first().map_or(usable, |cell| cell.0);
    let (mut at, mut fragments, mut block_before) = (start, 0, header_at + 1);
    for (from, to) in taken.into_iter().chain([(usable, usable)]) {
        let gap = from.checked_sub(at)?;
        if gap < 4 {
            fragments += gap;
        } else {
            put(page, block_before, &(at as u16).to_be_bytes());
            put(page, at + 2, &(gap as u16).to_be_bytes());
            block_before = at;
        }
        at = to;
    }
    put(page, block_before, &[0, 0]);
    put(page, header_at + 5, &(start as u16).to_be_bytes());
    put(page, header_at + 7, &[u8::try_from(fragments).ok()?]);
    Some(())
}

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

/// Makes the checksum of the record at `at` right and returns it.
fn record_at(bytes: &mut [u8], at: usize, salt: u64, offset: u64) -> u64 {
    let Some((record, _)) = bytes.get(at..).and_then(Record::parse) else {
        return 0;
    };
    let len = record.stored_len as usize;
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

/// A record in a file, found by following lengths and jumps; its checksum need not be right.
pub(super) struct Found {
    pub(super) at: usize,
    pub(super) record: Record,
    /// Whether it is the first behind a commit that is not the one found before it, and that commit's hash.
    after: Option<[u8; 16]>,
}

/// The records of a file: from the beginning on, and from behind every trailer that slots and tip name.
pub(super) fn scan(bytes: &[u8]) -> Vec<Found> {
    let mut out = Vec::new();
    let mut seen = HashSet::new();
    let salt = word(bytes, 24);
    let mut starts = vec![(DATA_OFF as usize, first_hash(salt))];
    let named = SLOT_OFF
        .iter()
        .map(|off| *off as usize + 24)
        .chain([TIP_OFF as usize]);
    for at in named {
        let trailer = usize::try_from(word(bytes, at + 8)).unwrap_or(usize::MAX);
        let hash = bytes
            .get(at + 24..at + 40)
            .and_then(|b| b.try_into().ok())
            .unwrap_or_default();
        let next = usize::try_from(word(
            bytes,
            trailer.saturating_add(RECORD_LEN + 32).min(bytes.len()),
        ))
        .unwrap_or(usize::MAX);
        starts.push((trailer, hash));
        starts.push((next, hash));
    }
    for (start, hash) in starts {
        let (mut at, mut after) = (start, Some(hash));
        while let Some((r, _)) = bytes.get(at..).and_then(Record::parse) {
            let len = r.stored_len as usize;
            if at < DATA_OFF as usize || bytes.len() < at + RECORD_LEN + len || !seen.insert(at) {
                break;
            }
            out.push(Found {
                at,
                record: r,
                after: after.take(),
            });
            at = match r.kind {
                Kind::Jump => usize::try_from(word(bytes, at + RECORD_LEN)).unwrap_or(usize::MAX),
                _ => at + RECORD_LEN + len,
            };
        }
    }
    out
}

/// Makes right: header, slots, tip, every record's checksums, every chain hash, and the hashes by which trailers name each other.
pub(super) fn file(bytes: &mut [u8]) {
    if bytes.len() < DATA_OFF as usize {
        return;
    }
    header(bytes);
    let salt = word(bytes, 24);
    let mut dicts: HashMap<u32, Dictionary> = HashMap::new();
    let mut trailers: HashMap<u64, (u32, [u8; 16])> = HashMap::from([(0, (0, first_hash(salt)))]);
    let mut chain = Chain::after(&first_hash(salt));
    for found in scan(bytes) {
        let Found { at, record, after } = found;
        let len = record.stored_len as usize;
        if let Some(hash) = after {
            // What slots and tip name may have been given another hash since.
            chain = Chain::after(&hash);
        }
        let payload = at + RECORD_LEN..at + RECORD_LEN + len;
        match record.kind {
            Kind::Frame | Kind::Node => check_at(bytes, at, record, payload, &dicts),
            Kind::Dictionary => {
                let dict = bytes.get(payload).unwrap_or_default().to_vec();
                dicts.insert(
                    record.number,
                    Dictionary::new(record.number, CodecId(record.codec), dict),
                );
            }
            Kind::Trailer => {
                if let Some((prev_len, hash)) = trailers.get(&word(bytes, payload.start + 64)) {
                    put(bytes, payload.start + 72, &prev_len.to_le_bytes());
                    put(bytes, payload.start + 80, hash);
                }
                if after.is_some() {
                    // Its records are not known: its hash stays as it is, and is believed by who comes from a slot.
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
            Kind::Space | Kind::Jump => {}
        }
        chain.record(record_at(bytes, at, salt, at as u64));
    }
    let copies = SLOT_OFF.iter().flat_map(|off| [*off, off + SLOT_COPY]);
    for at in copies.map(|at| at as usize) {
        if bytes.get(at..at + 4) == Some(b"DSLT") {
            put(bytes, at + 16, &salt.to_le_bytes());
            name(bytes, at + 24, &trailers);
            slot_at(bytes, at);
        }
    }
    name(bytes, TIP_OFF as usize, &trailers);
    tip_at(bytes, TIP_OFF as usize, salt);
}

/// A tip gets length and hash of the trailer that lies where it says.
fn name(bytes: &mut [u8], at: usize, trailers: &HashMap<u64, (u32, [u8; 16])>) {
    if let Some((len, hash)) = trailers.get(&word(bytes, at + 8)) {
        put(bytes, at + 16, &len.to_le_bytes());
        put(bytes, at + 24, hash);
    }
}

/// The check of the decoded payload, if it can be decoded.
fn check_at(
    bytes: &mut [u8],
    at: usize,
    r: Record,
    payload: std::ops::Range<usize>,
    dicts: &HashMap<u32, Dictionary>,
) {
    let len = match r.kind {
        Kind::Frame => (1usize << r.page_log2) << r.run_log2,
        _ => Node::raw_len(u32::from(r.page_log2)),
    };
    let mut raw = vec![0; len];
    let payload = bytes.get(payload).unwrap_or_default();
    if codec::decode(CodecId(r.codec), payload, dicts.get(&r.model), &mut raw).is_ok() {
        put(bytes, at + RAW_CHECK, &raw_check(&raw).to_le_bytes());
    }
}
