//! Corrects one flipped bit where a check says which bytes are right.
//!
//! A check has 64 bits and there are at most [`STATE_MAX`] times 8 tries, so a wrong correction is
//! nearly as unlikely as damage that no check finds.

use crate::LogId;
use crate::format::record_header::{RECORD_LEN, RecordHeader};
use crate::format::segment::SegmentHeader;
use crate::state::State;
use densite_disk::hash::xxh3_64;

/// The longest table that is corrected, bytes. The time grows with the square of the length: 4 KiB
/// take about 10 ms.
const TABLE_MAX: usize = 4 << 10;
/// The longest state that is corrected, bytes. A log has only one.
const STATE_MAX: usize = 64 << 10;

/// The first result of `read` for the bytes with one bit flipped.
fn one_bit<T>(bytes: &[u8], read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let mut bytes = bytes.to_vec();
    for i in 0..bytes.len() {
        for bit in 0..8 {
            *bytes.get_mut(i)? ^= 1 << bit;
            if let Some(found) = read(&bytes) {
                return Some(found);
            }
            *bytes.get_mut(i)? ^= 1 << bit;
        }
    }
    None
}

/// The header of this segment.
pub(super) fn segment(bytes: &[u8], id: LogId, number: u64) -> Option<SegmentHeader> {
    one_bit(bytes, |bytes| {
        let header = SegmentHeader::decode(bytes).ok()?;
        (header.id == id && header.number == number).then_some(header)
    })
}

/// The header of the record at the beginning of `bytes`.
pub(super) fn record(bytes: &[u8], salt: u64, at: u64) -> Option<RecordHeader> {
    let bytes = bytes.get(..RECORD_LEN)?;
    one_bit(bytes, |bytes| RecordHeader::decode(bytes, salt, at))
}

/// The payload of a table's record.
pub(super) fn table(bytes: &[u8], check: u64) -> Option<Vec<u8>> {
    let bytes = Some(bytes).filter(|bytes| bytes.len() <= TABLE_MAX)?;
    one_bit(bytes, |bytes| {
        (xxh3_64(bytes) == check).then(|| bytes.to_vec())
    })
}

/// The state of this log.
pub(super) fn state(bytes: &[u8], id: LogId) -> Option<State> {
    let bytes = Some(bytes).filter(|bytes| bytes.len() <= STATE_MAX)?;
    one_bit(bytes, |bytes| {
        State::decode(bytes).ok().filter(|state| state.id == id)
    })
}
