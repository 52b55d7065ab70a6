//! The fate of one unsynced change at a power cut.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

/// The fate of one unsynced change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// Not decided yet: it is in the cache.
    Open,
    /// It is on the disk.
    Kept,
    /// It is gone.
    Lost,
    /// A part of the write is on the disk.
    Torn(Torn),
}

/// The part of a write that survives, as ranges relative to its first byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Torn {
    /// Ranges in ascending order; `None` means all of it.
    pieces: Option<Vec<(usize, usize)>>,
    /// The file has the length of the whole write although its last bytes are missing.
    full_length: bool,
}

impl Torn {
    pub(super) fn whole() -> Torn {
        Torn {
            pieces: None,
            full_length: true,
        }
    }

    /// The length from its start to which the write extends the file.
    pub(super) fn reach(&self, len: usize) -> usize {
        match &self.pieces {
            Some(pieces) if !self.full_length => pieces.last().map_or(0, |p| p.1),
            _ => len,
        }
    }

    pub(super) fn pieces(&self, len: usize) -> Vec<(usize, usize)> {
        self.pieces.clone().unwrap_or_else(|| vec![(0, len)])
    }

    /// Tears a write: a subset of its sectors, or one side of an arbitrary byte.
    pub(super) fn draw(
        offset: usize,
        len: usize,
        sector: usize,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Torn {
        let full_length = rng.random_bool(0.5);
        let mut pieces = Vec::new();
        if rng.random_ratio(1, 4) {
            // At any byte, because even a sector is not written at once.
            let at = below(rng, len + 1);
            pieces.push(if rng.random_bool(0.5) {
                (0, at)
            } else {
                (at, len)
            });
        } else {
            let mut from = 0;
            while from < len {
                let to = len.min(from + sector - (offset + from) % sector);
                if rng.random_bool(0.5) {
                    pieces.push((from, to));
                }
                from = to;
            }
        }
        Torn {
            pieces: Some(pieces),
            full_length,
        }
    }
}

/// A number below `n`, which is not zero.
pub(super) fn below(rng: &mut Xoshiro256PlusPlus, n: usize) -> usize {
    rng.random_range(0..n as u64) as usize
}
