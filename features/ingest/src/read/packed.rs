//! The rows of a run in key order: code, number and kind of each row.
//!
//! A block has 128 rows (the last one fewer) in four columns: hi, lo, number, kind. Each word is
//! stored less the block's least one, in as few bytes as needed. A key of two small integers takes
//! 5 to 7 bytes, a number 3 or 4, a kind usually none.

use crate::schema::key_code::Code;
use densite_disk::memory::apart;
use densite_log::Seq;

/// Rows of a block.
pub(crate) const BLOCK: usize = 128;
const COLUMNS: usize = 4;
const WORD: usize = 8;
/// The most bytes of a row: code, number and kind.
const ROW_MAX: usize = 16 + 8 + 4;
/// From this many rows on, the memory is allocated as a mapping of its own.
pub(crate) const APART_FROM: usize = 32 << 10;
/// Blocks for each entry of the first search.
const SPARSE: usize = 64;
/// Step widths of a search among such blocks, and then among the rows of a block. The reads of one
/// step do not depend on each other, so their cache misses overlap.
const STEPS: (usize, usize) = (8, 16);

/// How many of `from..to` have a property that only a prefix of them has.
fn count(from: usize, to: usize, step: usize, has: impl Fn(&usize) -> bool) -> usize {
    let far = (from + step..to).step_by(step).filter(&has).count() * step;
    far + (from + far..to.min(from + far + step)).filter(&has).count()
}

/// The code as one number with the same order.
fn wide(code: Code) -> u128 {
    u128::from(code.hi) << 64 | u128::from(code.lo)
}

/// A row without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) code: Code,
    pub(crate) seq: Seq,
    /// Index of its kind within the run.
    pub(crate) kind: u32,
}

impl Item {
    fn words(self) -> [u64; COLUMNS] {
        [self.code.hi, self.code.lo, self.seq, u64::from(self.kind)]
    }
}

/// How a block is packed.
#[derive(Clone, Copy)]
struct Head {
    /// Offset of its first byte.
    at: usize,
    least: [u64; COLUMNS],
    widths: [u8; COLUMNS],
    rows: u8,
}

/// A column of a block.
#[derive(Clone, Copy)]
struct Column<'a> {
    /// The bytes from its first row on.
    bytes: &'a [u8],
    least: u64,
    width: usize,
    mask: u64,
}

impl Column<'_> {
    fn stored(&self, row: usize) -> u64 {
        let bytes = self.bytes.get(row * self.width..);
        let bytes = bytes.and_then(|b| b.first_chunk());
        u64::from_le_bytes(bytes.copied().unwrap_or_default()) & self.mask
    }

    fn word(&self, row: usize) -> u64 {
        self.least.wrapping_add(self.stored(row))
    }

    /// How many of the rows, which ascend, are less than `word`.
    fn less(&self, rows: usize, word: u64) -> usize {
        let word = word.checked_sub(self.least);
        word.map_or(0, |word| {
            count(0, rows, STEPS.1, |row| self.stored(*row) < word)
        })
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Packed {
    heads: Vec<Head>,
    /// The first code of each block, for searches,
    first: Vec<Code>,
    /// and that of every [`SPARSE`]th block. These are searched first and stay in the processor's
    /// cache.
    sparse: Vec<Code>,
    bytes: Vec<u8>,
    rows: usize,
    /// Rows of the block that is being filled.
    open: Vec<Item>,
}

/// Bytes that hold `v`, 0 to 8.
fn width_of(v: u64) -> u8 {
    (64 - v.leading_zeros()).div_ceil(8) as u8
}

impl Packed {
    /// For this many rows.
    pub(crate) fn for_rows(rows: usize) -> Packed {
        let mut packed = Packed::default();
        if rows >= APART_FROM {
            packed.bytes = apart(rows.div_ceil(BLOCK) * BLOCK * ROW_MAX + WORD);
        }
        packed
    }

    /// Adds a row behind the others, which must not have a greater key.
    pub(crate) fn push(&mut self, item: Item) {
        self.open.push(item);
        if self.open.len() == BLOCK {
            self.seal();
        }
    }

    /// Packs the last rows. No more rows follow.
    pub(crate) fn finish(mut self) -> Packed {
        self.seal();
        self.open = Vec::new();
        // A value is read as eight bytes, whatever its width.
        self.bytes.extend_from_slice(&[0; WORD]);
        if self.rows < APART_FROM {
            self.bytes.shrink_to_fit();
        }
        self.heads.shrink_to_fit();
        self.first.shrink_to_fit();
        self.sparse.shrink_to_fit();
        self
    }

    fn seal(&mut self) {
        let Some(first) = self.open.first() else {
            return;
        };
        let (mut least, mut most) = ([u64::MAX; COLUMNS], [0; COLUMNS]);
        for item in &self.open {
            for ((l, m), word) in least.iter_mut().zip(&mut most).zip(item.words()) {
                (*l, *m) = ((*l).min(word), (*m).max(word));
            }
        }
        let mut head = Head {
            at: self.bytes.len(),
            least,
            widths: [0; COLUMNS],
            rows: self.open.len() as u8,
        };
        let columns = head.widths.iter_mut().zip(least.iter().zip(most));
        for (i, (width, (least, most))) in columns.enumerate() {
            *width = width_of(most - least);
            if *width == 0 {
                continue;
            }
            for item in &self.open {
                let word = item.words().get(i).copied().unwrap_or(0) - least;
                let end = self.bytes.len() + usize::from(*width);
                self.bytes.extend_from_slice(&word.to_le_bytes());
                self.bytes.truncate(end);
            }
        }
        if self.first.len().is_multiple_of(SPARSE) {
            self.sparse.push(first.code);
        }
        self.first.push(first.code);
        self.heads.push(head);
        self.rows += self.open.len();
        self.open.clear();
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    fn column(&self, head: &Head, column: usize) -> Column<'_> {
        let rows = usize::from(head.rows);
        let widths = head.widths.iter().map(|w| usize::from(*w));
        let at = head.at + rows * widths.take(column).sum::<usize>();
        let width = usize::from(head.widths.get(column).copied().unwrap_or(0));
        Column {
            bytes: self.bytes.get(at..).unwrap_or_default(),
            least: head.least.get(column).copied().unwrap_or(0),
            width,
            mask: u64::MAX.checked_shr(64 - 8 * width as u32).unwrap_or(0),
        }
    }

    fn head(&self, place: usize) -> Option<(&Head, usize)> {
        let (head, row) = (self.heads.get(place / BLOCK)?, place % BLOCK);
        (row < usize::from(head.rows)).then_some((head, row))
    }

    /// The row at a place.
    pub(crate) fn get(&self, place: usize) -> Option<Item> {
        let (head, row) = self.head(place)?;
        let word = |column| self.column(head, column).word(row);
        Some(Item {
            code: Code {
                hi: word(0),
                lo: word(1),
            },
            seq: word(2),
            kind: word(3) as u32,
        })
    }

    /// The code of the row at a place.
    pub(crate) fn code_at(&self, place: usize) -> Option<Code> {
        let (head, row) = self.head(place)?;
        let word = |column| self.column(head, column).word(row);
        Some(Code {
            hi: word(0),
            lo: word(1),
        })
    }

    /// The first place whose code is not less than this one.
    pub(crate) fn lower(&self, code: Code) -> usize {
        self.less(wide(code))
    }

    /// The first place whose code is greater than this one.
    pub(crate) fn upper(&self, code: Code) -> usize {
        match wide(code).checked_add(1) {
            Some(next) => self.less(next),
            None => self.rows,
        }
    }

    /// Number of rows with a code less than this one.
    fn less(&self, code: u128) -> usize {
        let sparse = self.sparse.partition_point(|c| wide(*c) < code);
        let Some(from) = sparse.checked_sub(1) else {
            return 0;
        };
        let (from, to) = (from * SPARSE, self.first.len().min(sparse * SPARSE));
        let is_less = |block: &usize| self.first.get(*block).is_some_and(|c| wide(*c) < code);
        // At least one of them is less.
        let block = (from + count(from, to, STEPS.0, is_less)).saturating_sub(1);
        let Some(head) = self.heads.get(block) else {
            return self.rows;
        };
        let rows = usize::from(head.rows);
        let (his, los) = (self.column(head, 0), self.column(head, 1));
        let mut row = his.less(rows, (code >> 64) as u64);
        let of = |row| Code {
            hi: his.word(row),
            lo: los.word(row),
        };
        while row < rows && wide(of(row)) < code {
            row += 1;
        }
        block * BLOCK + row
    }

    /// All rows in order.
    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter {
            packed: self,
            place: 0,
            block: Vec::with_capacity(BLOCK),
        }
    }
}

/// Iterates over the rows, unpacking block by block.
pub(crate) struct Iter<'a> {
    packed: &'a Packed,
    place: usize,
    block: Vec<Item>,
}

impl Iter<'_> {
    fn unpack(&mut self) {
        self.block.clear();
        let Some(head) = self.packed.heads.get(self.place / BLOCK) else {
            return;
        };
        let mut columns = [[0; BLOCK]; COLUMNS];
        let mut at = head.at;
        for ((column, least), width) in columns.iter_mut().zip(head.least).zip(head.widths) {
            let width = usize::from(width);
            let bytes = self.packed.bytes.get(at..).unwrap_or_default();
            for (row, to) in column.iter_mut().take(usize::from(head.rows)).enumerate() {
                *to = match width {
                    0 => least,
                    _ => {
                        let bytes = bytes.get(row * width..).and_then(|b| b.first_chunk());
                        let word = u64::from_le_bytes(bytes.copied().unwrap_or_default());
                        least.wrapping_add(word & u64::MAX >> (64 - 8 * width))
                    }
                };
            }
            at += usize::from(head.rows) * width;
        }
        let [hi, lo, seq, kind] = columns;
        let rows = hi.into_iter().zip(lo).zip(seq).zip(kind);
        let items = rows.map(|(((hi, lo), seq), kind)| Item {
            code: Code { hi, lo },
            seq,
            kind: kind as u32,
        });
        self.block.extend(items.take(usize::from(head.rows)));
    }
}

impl Iterator for Iter<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if self.place.is_multiple_of(BLOCK) {
            self.unpack();
        }
        let item = self.block.get(self.place % BLOCK).copied()?;
        self.place += 1;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn packed_rows_come_back_and_are_found() {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        for rows in [0, 1, 127, 128, 129, 256, 1000, 40_000] {
            for spread in [1u64, 300, 1 << 40, u64::MAX] {
                let mut items: Vec<Item> = (0..rows)
                    .map(|_| Item {
                        code: Code {
                            hi: random.random_range(0..spread),
                            lo: random.random_range(0..spread),
                        },
                        seq: random.random_range(0..spread),
                        kind: random.random_range(0..3),
                    })
                    .collect();
                items.sort_unstable();
                let mut packed = Packed::default();
                items.iter().for_each(|i| packed.push(*i));
                let packed = packed.finish();
                assert_eq!(packed.len(), rows);
                assert_eq!(packed.iter().collect::<Vec<_>>(), items, "seed {seed}");
                for (place, item) in items.iter().enumerate() {
                    assert_eq!(packed.get(place), Some(*item), "seed {seed}");
                }
                assert_eq!(packed.get(rows), None);
                for _ in 0..50 {
                    let any = Code {
                        hi: random.random_range(0..spread),
                        lo: random.random_range(0..spread),
                    };
                    let code = match items.is_empty() || random.random_bool(0.3) {
                        true => any,
                        false => items[random.random_range(0..rows)].code,
                    };
                    let (low, high) = (packed.lower(code), packed.upper(code));
                    assert_eq!(low, items.partition_point(|i| i.code < code), "seed {seed}");
                    assert_eq!(
                        high,
                        items.partition_point(|i| i.code <= code),
                        "seed {seed}"
                    );
                }
            }
        }
    }
}
