//! The messages that members of a stream read, as a target.

use crate::target::{Fields, Target, outcome, put, row};
use densite_cluster::messages::{HEADER_LEN, read, valid};
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};

/// Bytes are refused or read. Rows that are read are whole transactions with ascending numbers, and
/// have all columns. A message that is encoded again says the same.
pub(crate) const MESSAGE: Target = Target {
    name: "message",
    run: |bytes| match read(bytes) {
        Ok(found) => {
            let again = read(&found.encoded).expect("an encoded message is read");
            assert_eq!(again.text, found.text, "it says the same");
            u64::from(bytes.get(5).copied().unwrap_or(0)) << 32 | found.records as u64
        }
        Err(why) => outcome(&why),
    },
    repair,
    fields,
    seeds: valid,
};

fn repair(bytes: &mut [u8]) {
    let Some((head, stored)) = bytes.split_at_checked(HEADER_LEN) else {
        return;
    };
    let check = xxh3_64_with_seed(stored, xxh3_64(&head[..HEADER_LEN - 8]));
    put(bytes, HEADER_LEN - 8, &check.to_le_bytes());
}

/// The fields of the header, and those of a body that is not compressed.
fn fields(bytes: &[u8]) -> Fields {
    let mut out = Fields::new();
    row(4, &[1, 1, 1, 1, 4, 4], &mut out);
    row(32, &[8, 8], &mut out);
    let le = |at: usize, size: usize| {
        let field = bytes.get(at..at + size).unwrap_or_default();
        field.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b))
    };
    if bytes.get(5..7) != Some(&[1, 0]) {
        return out;
    }
    row(HEADER_LEN, &[2], &mut out);
    let mut at = HEADER_LEN + 2;
    for _ in 0..le(HEADER_LEN, 2).min(8) {
        row(at, &[4, 2], &mut out);
        at += 4 + le(at, 4);
    }
    while at < bytes.len() && out.len() < 64 {
        row(at, &[2, 1, 1, 4, 4, 8], &mut out);
        at += 20 + le(at + 8, 4);
    }
    out
}
