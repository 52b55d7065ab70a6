//! Merging deltas, so that a restore needs few requests.
//!
//! A restore reads every object behind the base. While the database changes, there are at most
//! [`MOST`]; at rest there are at most [`AT_REST`]. If there is one more, the newest ones that were
//! merged least often become one. So with `m` merges of each byte, the objects have up to
//! `(MOST + m)! / (MOST! m!)` deltas: no other way of merging needs fewer merges for that.
//!
//! A restore reads more than it needs where objects have bytes that later ones write again. So when
//! objects are merged anyway, all of them are, if those behind the oldest one have many bytes.

use super::{Shipper, Step, millis};
use crate::compact;
use crate::error::{Error, Result};
use crate::format::Compacted;
use crate::names;

/// So many objects are behind a base, at most.
const MOST: usize = 64;
/// The same while the database does not change. With the head, a list and the base, a restore takes
/// three requests more.
const AT_REST: usize = 5;
/// At rest, an older object is merged while it has at most so many times the bytes of what is behind
/// it.
const RATIO: u64 = 2;
/// All objects are merged if those behind the oldest one have more than this part of the bytes of that
/// one and the base. Then a restore of a moment reads little more than one of the newest state at rest.
const SPREAD: u64 = 3;
/// At least so many deltas are merged because of their bytes.
const SOME: u64 = 5;
/// Deltas of so many bytes are merged, even if they are few: they are merged in memory.
const LARGE: u64 = 32 << 20;
/// So many bytes are merged at once.
const LARGEST: u64 = 128 << 20;
/// An object of more bytes is not merged again.
const FULL: u64 = LARGEST / 2;

/// An object behind the base.
#[derive(Debug, Clone, Copy)]
struct Piece {
    /// How often its bytes were merged.
    merges: u32,
    bytes: u64,
}

impl Shipper {
    /// Merges deltas if there are many.
    pub(super) fn compact_many(&mut self, now_ms: u64) -> Result<()> {
        let (pieces, merged) = self.pieces();
        let is_large = self.loose() >= SOME && self.loose_bytes >= LARGE;
        let most = match is_large {
            true => pieces.len().saturating_sub(1).min(MOST),
            false => MOST,
        };
        if let Some(begin) = chosen(&pieces, merged, most) {
            let base = self.head.newest_base().map_or(0, |base| base.bytes);
            let begin = match is_large {
                // These come often.
                true => begin,
                false => gathered(&pieces, begin, base),
            };
            self.compacted = Some(self.compact(&pieces, begin, false, now_ms)?);
        }
        Ok(())
    }

    /// Nothing has changed: merges deltas after a while.
    pub(super) fn rest(&mut self, now_ms: u64) -> Result<Step> {
        let (pieces, merged) = self.pieces();
        let rested = now_ms.saturating_sub(self.shipped_ms) >= millis(self.options.rest);
        match chosen(&pieces, merged, AT_REST).filter(|_| rested) {
            Some(begin) => Ok(Step::Compacted {
                bytes: self.compact(&pieces, widened(&pieces, begin), true, now_ms)?,
            }),
            None => Ok(Step::Idle),
        }
    }

    /// Whether nothing is left to do while the database does not change.
    #[must_use]
    pub fn is_merged(&self) -> bool {
        let (pieces, merged) = self.pieces();
        chosen(&pieces, merged, AT_REST).is_none()
    }

    /// How many deltas are not merged.
    fn loose(&self) -> u64 {
        self.at.n.saturating_sub(self.head.merged_to())
    }

    /// The merged objects behind the base.
    fn merged(&self) -> impl Iterator<Item = &Compacted> {
        let base = self.head.newest_base().map_or(0, |base| base.n);
        let all = self.head.current().compacted.iter();
        all.filter(move |c| c.first > base)
    }

    /// All objects behind the base, and how many of them are merged ones, which come first.
    fn pieces(&self) -> (Vec<Piece>, usize) {
        let merged = self.merged().map(|c| Piece {
            merges: c.merges,
            bytes: c.bytes,
        });
        let mut pieces: Vec<Piece> = merged.collect();
        let merged = pieces.len();
        let loose = self.loose();
        let delta = Piece {
            merges: 0,
            bytes: self.loose_bytes / loose.max(1),
        };
        pieces.extend((0..loose).map(|_| delta));
        (pieces, merged)
    }

    /// Merges the objects from `begin` on. Returns the bytes of the new object.
    fn compact(&mut self, pieces: &[Piece], begin: usize, rests: bool, now_ms: u64) -> Result<u64> {
        let generation = &self.head.current().name;
        let merged = self.merged().skip(begin);
        let mut names: Vec<String> = merged
            .map(|c| names::compacted(generation, c.first, c.last))
            .collect();
        let loose = self.head.merged_to() + 1..=self.at.n;
        names.extend(loose.map(|n| names::delta(generation, n)));
        let get = |name: &str| match self.recent.get(name) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => match self.bucket.get(name)? {
                Some(stored) => Ok(stored.bytes),
                None => Err(Error::Missing(name.to_owned())),
            },
        };
        let Some((footer, merged)) = compact::merge(&names, get)? else {
            return Ok(0);
        };
        let name = names::compacted(generation, footer.first, footer.last);
        // An attempt that was interrupted can have left it. No head names it.
        let mut upload = self.bucket.upload(&name, merged.len() as u64)?;
        upload.write(&merged)?;
        upload.finish()?;
        let bytes = merged.len() as u64;
        let newest = pieces.get(begin..).unwrap_or_default();
        let entry = Compacted {
            first: footer.first,
            last: footer.last,
            time_ms: footer.time_ms,
            bytes,
            merges: 1 + newest.iter().map(|piece| piece.merges).max().unwrap_or(0),
        };
        self.head.add_compacted(&*self.bucket, entry, rests)?;
        self.recent.clear();
        self.loose_bytes = 0;
        self.shipped_ms = now_ms;
        Ok(bytes)
    }
}

/// From which object on the newest ones become one, so that there are at most `most`; `None` if there
/// are not more. The first `merged` objects are merged ones. All deltas behind them are merged: no
/// merged object comes behind a delta.
fn chosen(pieces: &[Piece], merged: usize, most: usize) -> Option<usize> {
    if pieces.len() <= most {
        return None;
    }
    let is_apart = |piece: &Piece, merges: u32| piece.merges > merges || piece.bytes > FULL;
    let mut merges = 0;
    loop {
        let begin = (pieces.iter().rposition(|p| is_apart(p, merges))).map_or(0, |at| at + 1);
        let mut begin = begin.min(merged);
        let before = begin.checked_sub(1).and_then(|at| pieces.get(at));
        let is_last = before.is_none_or(|before| before.bytes > FULL);
        let bytes = |begin: usize| -> u64 {
            let newest = pieces.get(begin..).unwrap_or_default();
            newest.iter().map(|piece| piece.bytes).sum()
        };
        if begin < most || is_last {
            while bytes(begin) > LARGEST && begin < merged {
                begin += 1;
            }
            return (pieces.len() - begin >= 2).then_some(begin);
        }
        merges = before.map_or(merges, |before| before.merges);
    }
}

/// From which object on all are merged, behind a base of so many bytes, if the newest from `begin` on
/// are to be merged.
fn gathered(pieces: &[Piece], begin: usize, base: u64) -> usize {
    let all = fitting(pieces, begin, |_, _| true);
    let bytes = |pieces: &[Piece]| -> u64 { pieces.iter().map(|piece| piece.bytes).sum() };
    let (oldest, behind) = pieces.split_at((all + 1).min(pieces.len()));
    match bytes(behind) * SPREAD > base + bytes(oldest) {
        true => all,
        false => begin,
    }
}

/// At rest, older objects are merged, too, while they are not much larger than what is behind them:
/// a restore has fewer bytes that were written over.
fn widened(pieces: &[Piece], begin: usize) -> usize {
    fitting(pieces, begin, |piece, behind| piece.bytes <= RATIO * behind)
}

/// Continues from `begin` to older objects, while they can be merged with what is behind them, and
/// `fits` says so of an object and the bytes behind it.
fn fitting(pieces: &[Piece], begin: usize, fits: impl Fn(&Piece, u64) -> bool) -> usize {
    let (older, newest) = pieces.split_at(begin.min(pieces.len()));
    let mut behind: u64 = newest.iter().map(|piece| piece.bytes).sum();
    let wide = older.iter().rev().take_while(|piece| {
        let fits = piece.bytes <= FULL && behind + piece.bytes <= LARGEST && fits(piece, behind);
        behind += piece.bytes;
        fits
    });
    begin - wide.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_rest_a_large_object_is_not_merged_with_little() {
        let of = |bytes| Piece { merges: 1, bytes };
        assert_eq!(widened(&[of(90), of(9), of(4), of(1), of(1)], 3), 1);
        assert_eq!(widened(&[of(20), of(9), of(4), of(1), of(1)], 3), 0);
        assert_eq!(widened(&[of(90), of(9)], 2), 2);
    }

    #[test]
    fn all_are_merged_if_much_was_written_again() {
        let of = |bytes| Piece { merges: 1, bytes };
        let pieces = [of(60), of(20), of(10), of(10)];
        assert_eq!(gathered(&pieces, 2, 61), 2);
        assert_eq!(gathered(&pieces, 2, 59), 0);
        let full = [of(FULL + 1), of(60), of(20), of(10), of(10)];
        assert_eq!(gathered(&full, 3, 0), 3, "the full one has much more");
        let some = [of(FULL + 1), of(1), of(FULL / 4), of(FULL / 4)];
        assert_eq!(gathered(&some, 3, 0), 1, "a full one is not merged again");
    }

    /// Merges as deltas of one byte come, and returns how often a byte was sent, and the objects.
    fn merged(deltas: u64, most: usize) -> (f64, Vec<Piece>) {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut sent = 0;
        for _ in 0..deltas {
            pieces.push(Piece {
                merges: 0,
                bytes: 1,
            });
            sent += join(&mut pieces, most);
            assert!(pieces.len() <= most);
        }
        (sent as f64 / deltas as f64, pieces)
    }

    fn join(pieces: &mut Vec<Piece>, most: usize) -> u64 {
        let merged = pieces.iter().filter(|piece| piece.merges > 0).count();
        let Some(begin) = chosen(pieces, merged, most) else {
            return 0;
        };
        let newest = pieces.split_off(begin);
        assert!(newest.len() > 1);
        let one = Piece {
            merges: 1 + newest.iter().map(|p| p.merges).max().expect("pieces"),
            bytes: newest.iter().map(|p| p.bytes).sum(),
        };
        pieces.push(one);
        one.bytes
    }

    #[test]
    fn a_byte_is_merged_seldom() {
        assert!(merged(3_600, MOST).0 < 1.7, "{}", merged(3_600, MOST).0);
        assert!(merged(86_400, MOST).0 < 3.0, "{}", merged(86_400, MOST).0);
    }

    #[test]
    fn at_rest_few_are_left_and_more_are_not_merged() {
        for deltas in [1, 5, 6, 64, 65, 100, 3_600] {
            let (_, mut pieces) = merged(deltas, MOST);
            join(&mut pieces, AT_REST);
            assert!(pieces.len() <= AT_REST, "{deltas}: {pieces:?}");
            assert_eq!(join(&mut pieces, AT_REST), 0);
        }
    }

    #[test]
    fn bytes_that_are_merged_at_once_are_bounded() {
        let of = |merges, bytes| Piece { merges, bytes };
        let full = [of(3, FULL + 1), of(0, 1), of(0, 1)];
        assert_eq!(chosen(&full, 1, 1), Some(1));
        assert_eq!(chosen(&full[..2], 1, 1), None);
        let half = [of(1, FULL), of(1, FULL), of(1, 2)];
        assert_eq!(chosen(&half, 3, 1), Some(1));
        let large = [of(1, FULL), of(0, FULL), of(0, FULL)];
        assert_eq!(chosen(&large, 1, 1), Some(1), "deltas are not left out");
    }
}
