//! The files of a log as bytes. Fields are changed, and checksums repaired.

use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};
use densite_sim_disk::SimDisk;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt};
use std::collections::BTreeMap;

const DATA: usize = 4096;
const RECORD: usize = 72;

/// The files by name.
#[derive(Clone)]
pub(crate) struct Files(BTreeMap<String, Vec<u8>>);

fn word(bytes: &[u8], at: usize, size: usize) -> u64 {
    let field = bytes.get(at..at + size).unwrap_or_default();
    field.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
}

fn put(bytes: &mut [u8], at: usize, size: usize, value: u64) {
    if let Some(field) = bytes.get_mut(at..at + size) {
        field.copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// Numbers at which arithmetic is often wrong.
fn number(rng: &mut SmallRng, now: u64) -> u64 {
    let base = match rng.random_range(0..9) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << rng.random_range(0..64),
        3 => (1 << 62) - rng.random_range(0..8),
        4 => (1 << 30) + rng.random_range(0..8192),
        5 => u64::from(u32::MAX),
        6 => rng.random_range(0..300),
        7 => rng.random(),
        _ => now,
    };
    base.wrapping_add(rng.random_range(0..5)).wrapping_sub(2)
}

impl Files {
    pub(crate) fn of(disk: &SimDisk, dir: &str) -> Files {
        let paths = disk.paths();
        let named = paths.iter().filter_map(|path| {
            let name = path.strip_prefix(dir)?.strip_prefix('/')?;
            Some((name.to_owned(), disk.contents(path)?))
        });
        Files(named.collect())
    }

    pub(crate) fn placed(&self, dir: &str) -> SimDisk {
        let disk = SimDisk::new(1);
        for (name, bytes) in &self.0 {
            disk.put_file(&format!("{dir}/{name}"), bytes);
        }
        disk
    }

    /// Makes one to three changes.
    pub(crate) fn mutate(&mut self, rng: &mut SmallRng) {
        for _ in 0..rng.random_range(1..=3) {
            self.change(rng);
        }
        // Sometimes checksums stay wrong.
        if rng.random_range(0..10) > 0 {
            self.repair();
        }
    }

    fn change(&mut self, rng: &mut SmallRng) {
        let names: Vec<String> = self
            .0
            .keys()
            .filter(|n| !n.ends_with(".lock"))
            .cloned()
            .collect();
        let name = &names[rng.random_range(0..names.len())];
        match rng.random_range(0..40) {
            0 => {
                self.0.remove(name);
                return;
            }
            1 => {
                // A copy under another name: of another segment, writer or file.
                let other = match rng.random_range(0..3) {
                    0 => format!("{:012}.seg", number(rng, 9) >> rng.random_range(0..64)),
                    1 => format!("writer-{}", rng.random_range(0..10)),
                    _ => names[rng.random_range(0..names.len())].clone(),
                };
                let bytes = self.0[name].clone();
                self.0.insert(other, bytes);
                return;
            }
            _ => {}
        }
        let bytes = self.0.get_mut(name).expect("a name of its own");
        if bytes.is_empty() {
            return;
        }
        let fields = fields(name, bytes);
        match rng.random_range(0..10) {
            0 => {
                let len = rng.random_range(0..bytes.len());
                bytes.truncate(len);
            }
            1 => {
                let at = rng.random_range(0..bytes.len());
                bytes[at] ^= 1 << rng.random_range(0..8);
            }
            2 => {
                let from = rng.random_range(0..bytes.len());
                let to = (from + rng.random_range(1..200)).min(bytes.len());
                rng.fill_bytes(&mut bytes[from..to]);
            }
            _ if fields.is_empty() => {}
            _ => {
                let (at, size) = fields[rng.random_range(0..fields.len())];
                let value = number(rng, word(bytes, at, size));
                put(bytes, at, size, value);
            }
        }
    }

    /// Repairs all checksums, from the first segment on, as far as lengths lead.
    fn repair(&mut self) {
        let mut last = (0, 0);
        for (name, bytes) in &mut self.0 {
            if name.ends_with(".seg") && bytes.len() >= DATA {
                if last.1 != 0 {
                    put(bytes, 64, 8, last.1);
                }
                let check = xxh3_64(&bytes[..80]);
                put(bytes, 80, 8, check);
                last = (word(bytes, 40, 8), records(bytes, check));
            } else if name.starts_with("writer-") && bytes.len() >= 32 {
                let check = xxh3_64(&bytes[..24]);
                put(bytes, 24, 8, check);
            } else if name == "state" && bytes.len() > 8 {
                let body = bytes.len() - 8;
                let check = xxh3_64(&bytes[..body]);
                put(bytes, body, 8, check);
            }
        }
        if let Some(end) = self.0.get_mut("end").filter(|end| end.len() >= 64) {
            put(end, 32, 8, last.1);
            let check = xxh3_64(&end[..56]);
            put(end, 56, 8, check);
        }
    }
}

/// The places where records begin, as far as their lengths lead.
fn places(bytes: &[u8]) -> Vec<usize> {
    let (mut places, mut at) = (Vec::new(), DATA);
    while bytes.get(at..at + 4) == Some(b"DLRC") && at + RECORD <= bytes.len() {
        places.push(at);
        at += (RECORD + word(bytes, at + 8, 4) as usize).next_multiple_of(8);
    }
    places
}

/// Repairs the checksums of all records, and returns the last one.
fn records(bytes: &mut [u8], mut prev: u64) -> u64 {
    let salt = word(bytes, 72, 8);
    for at in places(bytes) {
        let payload = at + RECORD..at + RECORD + word(bytes, at + 8, 4) as usize;
        if let Some(payload) = bytes.get(payload) {
            let check = xxh3_64(payload);
            put(bytes, at + 48, 8, check);
        }
        put(bytes, at + 56, 8, prev);
        prev = xxh3_64_with_seed(&bytes[at..at + 64], salt ^ at as u64);
        put(bytes, at + 64, 8, prev);
    }
    prev
}

/// Offset and size of fields. Payloads have fields, too: counts and lengths at their beginning.
fn fields(name: &str, bytes: &[u8]) -> Vec<(usize, usize)> {
    let numbers = |from: usize| {
        (from..bytes.len().saturating_sub(8))
            .step_by(8)
            .map(|at| (at, 8))
    };
    match name {
        "end" => vec![(16, 8), (24, 8), (32, 8), (40, 8), (48, 4), (52, 4)],
        "state" => [(16, 4), (40, 8), (48, 8), (56, 8), (64, 4), (68, 4)]
            .into_iter()
            .chain(numbers(72))
            .collect(),
        _ if name.starts_with("writer-") => vec![(0, 8), (8, 8), (16, 8)],
        _ if name.ends_with(".seg") => {
            let mut fields = vec![(16, 4), (40, 8), (48, 8), (56, 8), (72, 8)];
            for at in places(bytes) {
                fields.extend((4..8).map(|byte| (at + byte, 1)));
                fields.extend((8..28).step_by(4).map(|field| (at + field, 4)));
                fields.extend([(at + 32, 8), (at + 40, 8)]);
                fields.extend((0..40).step_by(2).map(|byte| (at + RECORD + byte, 2)));
            }
            fields
        }
        _ => Vec::new(),
    }
}
