//! Makes bytes that are almost valid.

use rand::rngs::SmallRng;
use rand::{Rng, RngExt};

/// The most bytes of a mutant.
const MOST: usize = 1 << 20;

/// Numbers at which arithmetic is often wrong.
fn interesting(rng: &mut SmallRng) -> u64 {
    let base: u64 = match rng.random_range(0..10) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << rng.random_range(0..64),
        3 => (1 << rng.random_range(0..64)) - 1,
        4 => u64::MAX << rng.random_range(0..64),
        5 => 65536 * rng.random_range(0..20),
        6 => 4096 * rng.random_range(0..20),
        7 => rng.random_range(0..300),
        8 => u64::from(rng.random::<u32>()),
        _ => rng.random(),
    };
    base.wrapping_add(rng.random_range(0..5)).wrapping_sub(2)
}

fn get(bytes: &[u8], (at, size): (usize, usize)) -> u64 {
    let part = bytes.get(at..at + size).unwrap_or_default();
    part.iter()
        .take(8)
        .rev()
        .fold(0, |v, b| v << 8 | u64::from(*b))
}

fn set(bytes: &mut [u8], (at, size): (usize, usize), value: u64) {
    if let Some(part) = bytes.get_mut(at..at + size) {
        for (to, b) in part.iter_mut().zip(value.to_le_bytes()) {
            *to = b;
        }
    }
}

fn range(rng: &mut SmallRng, len: usize) -> (usize, usize) {
    let at = rng.random_range(0..=len);
    let most = if rng.random() { 16 } else { 4096 };
    (at, at + rng.random_range(0..=most.min(len - at)))
}

/// Changes `bytes` one to four times. `fields` are the places of fields. Parts of `others` are
/// copied into it.
pub(crate) fn mutate(
    bytes: &mut Vec<u8>,
    fields: &[(usize, usize)],
    others: &[&[u8]],
    rng: &mut SmallRng,
) {
    for _ in 0..rng.random_range(1..=4) {
        once(bytes, fields, others, rng);
        bytes.truncate(MOST);
    }
}

fn once(bytes: &mut Vec<u8>, fields: &[(usize, usize)], others: &[&[u8]], rng: &mut SmallRng) {
    // A known field, or any place that can be a field.
    let field = if !fields.is_empty() && rng.random_range(0..4) > 0 {
        fields[rng.random_range(0..fields.len())]
    } else {
        let size = 1 << rng.random_range(0..4);
        (rng.random_range(0..=bytes.len()) / size * size, size)
    };
    let len = bytes.len();
    match rng.random_range(0..16) {
        0..5 => set(bytes, field, interesting(rng)),
        5 => {
            let near = get(bytes, field)
                .wrapping_add(rng.random_range(0..70))
                .wrapping_sub(35);
            set(bytes, field, near);
        }
        6 if !fields.is_empty() => {
            let other = fields[rng.random_range(0..fields.len())];
            let value = get(bytes, other);
            set(bytes, field, value);
        }
        6..9 if len > 0 => {
            let bit = rng.random_range(0..len * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        9 if len > 0 => {
            let at = rng.random_range(0..len);
            bytes[at] = rng.random();
        }
        10 => {
            let (from, to) = range(rng, len);
            bytes[from..to].fill(if rng.random() { 0 } else { rng.random() });
        }
        11 => {
            let (from, to) = range(rng, len);
            rng.fill_bytes(&mut bytes[from..to]);
        }
        12 => {
            let (from, to) = range(rng, len);
            if rng.random() {
                bytes.drain(from..to);
            } else {
                let part = bytes[from..to].to_vec();
                let at = rng.random_range(0..=len);
                bytes.splice(at..at, part);
            }
        }
        13 => bytes.truncate(rng.random_range(0..=len)),
        14 => {
            // A part is copied within the bytes.
            let (from, to) = range(rng, len);
            let at = rng.random_range(0..=len - (to - from));
            bytes.copy_within(from..to, at);
        }
        _ => {
            let Some(other) = others.get(rng.random_range(0..others.len().max(1))) else {
                return;
            };
            let (from, to) = range(rng, other.len());
            let at = if rng.random() {
                from
            } else {
                rng.random_range(0..=len)
            };
            if let Some(part) = bytes.get_mut(at..at + (to - from)) {
                part.copy_from_slice(&other[from..to]);
            }
        }
    }
}
