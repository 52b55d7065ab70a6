//! Damages a file's bytes like a failing disk, a bad cable or a careless program.

use rand::rngs::SmallRng;
use rand::{Rng, RngExt};

const BLOCKS: [usize; 5] = [64, 512, 4096, 16_384, 65_536];

/// Damages one place, rarely several, and describes each change. At least one byte remains, and at
/// least one byte changes.
pub(crate) fn mutate(bytes: &mut Vec<u8>, rng: &mut SmallRng) -> Vec<String> {
    let before = bytes.clone();
    let mut did = Vec::new();
    while bytes == &before {
        did.clear();
        bytes.clone_from(&before);
        for _ in 0..[1, 1, 1, 2, 4][rng.random_range(0..5)] {
            did.push(once(bytes, rng));
        }
    }
    did
}

fn once(bytes: &mut Vec<u8>, rng: &mut SmallRng) -> String {
    let len = bytes.len();
    if len < 2 {
        bytes.push(rng.random());
        return "a byte put in".to_owned();
    }
    let at = rng.random_range(0..len);
    match rng.random_range(0..12) {
        0..=2 => {
            let bit = rng.random_range(0..8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        }
        3 | 4 => {
            bytes[at] = [0, 0xff, rng.random()][rng.random_range(0..3)];
            format!("byte {at}")
        }
        5 => {
            let end = (at + rng.random_range(1..64)).min(len);
            rng.fill_bytes(&mut bytes[at..end]);
            format!("random bytes at {at}..{end}")
        }
        6 => {
            let keep = rng.random_range(1..len);
            let keep = match rng.random() {
                true => keep,
                false => (keep / 512 * 512).max(1),
            };
            bytes.truncate(keep);
            format!("cut to {keep}")
        }
        7 => {
            let end = (at + rng.random_range(1..600)).min(len);
            let keep = end - at < len;
            if keep {
                bytes.drain(at..end);
            }
            format!("bytes {at}..{end} taken out")
        }
        8 => {
            let part = bytes[at..(at + rng.random_range(1..600)).min(len)].to_vec();
            let to = rng.random_range(0..=len);
            bytes.splice(to..to, part.iter().copied());
            format!("{} bytes of {at} put in at {to}", part.len())
        }
        _ => block(bytes, rng),
    }
}

fn block(bytes: &mut [u8], rng: &mut SmallRng) -> String {
    let fits = BLOCKS.iter().filter(|size| **size <= bytes.len()).count();
    if fits == 0 {
        return String::new();
    }
    let size = BLOCKS[rng.random_range(0..fits)];
    let blocks = bytes.len() / size;
    let mut place = || rng.random_range(0..blocks) * size;
    let (a, b) = (place(), place());
    match rng.random_range(0..4) {
        0 => {
            let part = bytes[a..a + size].to_vec();
            bytes.copy_within(b..b + size, a);
            bytes[b..b + size].copy_from_slice(&part);
            format!("blocks of {size} at {a} and {b} exchanged")
        }
        1 => {
            bytes.copy_within(b..b + size, a);
            format!("the block of {size} at {b} is at {a}, too")
        }
        2 => {
            bytes[a..a + size].fill(0);
            format!("{size} zeros at {a}")
        }
        _ => {
            rng.fill_bytes(&mut bytes[a..a + size]);
            format!("{size} random bytes at {a}")
        }
    }
}
