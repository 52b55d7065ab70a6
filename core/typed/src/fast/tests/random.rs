//! Random leaves: as SQLite could have written them, or with some integers longer than that.

use densite_sqlite_format::record::{body_len, int_type};
use densite_sqlite_format::{put_varint, varint_len};
use rand::seq::SliceRandom as _;
use rand::{Rng, RngExt, rngs::StdRng};

/// What a column holds.
#[derive(Debug, Clone, Copy)]
enum Column {
    Null,
    /// Integers of one serial type: so many bits of magnitude, negative or not.
    Alike(u32, bool),
    /// Integers of up to so many bits, of either sign.
    Mixed(u32),
    /// 0 and 1.
    Flags,
    /// NULL in some rows.
    Sparse,
    Real,
    Text,
    /// A text in one of about a hundred rows, an integer in the others.
    Stray,
}

impl Column {
    fn random(rng: &mut StdRng) -> Column {
        match rng.random_range(0..40) {
            0..4 => Column::Null,
            4..22 => {
                let bits = [6, 7, 14, 15, 22, 23, 30, 31, 40, 47, 62, 63];
                Column::Alike(bits[rng.random_range(0..bits.len())], rng.random())
            }
            22..31 => Column::Mixed(rng.random_range(1..64)),
            31..35 => Column::Flags,
            35 => Column::Sparse,
            36 => Column::Real,
            37 => Column::Text,
            _ => Column::Stray,
        }
    }

    /// The serial type and the body of a value. `wide`: an integer has the next longer type.
    fn value(self, rng: &mut StdRng, small: bool, wide: bool) -> (u32, Vec<u8>) {
        let integer = |v: i64| {
            let serial_type = match int_type(v, small && !wide) {
                narrow @ 1..=5 if wide => narrow + 1,
                serial_type => serial_type,
            };
            let bytes = v.to_be_bytes();
            let body = bytes[8 - body_len(serial_type)..].to_vec();
            (serial_type, body)
        };
        let text = |len: usize| (13 + 2 * len as u32, vec![b'x'; len]);
        match self {
            Column::Null => (0, Vec::new()),
            Column::Alike(bits, negative) => {
                let top = 1i64 << (bits - 1);
                let v = top | rng.random_range(0..top);
                integer(if negative { !v } else { v })
            }
            Column::Mixed(bits) => integer(rng.random::<i64>() >> (64 - bits)),
            Column::Flags => integer(rng.random_range(0..2)),
            Column::Sparse if rng.random_bool(0.3) => (0, Vec::new()),
            Column::Sparse => integer(rng.random_range(-300..300)),
            Column::Real => (7, rng.random::<f64>().to_be_bytes().to_vec()),
            Column::Text => text(rng.random_range(0..12)),
            Column::Stray if rng.random_bool(0.01) => text(3),
            Column::Stray => integer(rng.random_range(100..30_000)),
        }
    }
}

/// How the cells of a page lie.
#[derive(Debug, Clone, Copy)]
enum Lie {
    /// Back to back, in order of their keys.
    Packed,
    /// Back to back, in another order.
    Shuffled,
    /// With freeblocks and fragments between them.
    Loose,
}

/// A table, an index or a WITHOUT ROWID table, whose leaves are of one kind.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) page_size: usize,
    pub(super) reserved: usize,
    /// Its leaves have row ids.
    has_rowids: bool,
    /// 0 and 1 have serial types of their own.
    small: bool,
    columns: Vec<Column>,
    lie: Lie,
    /// The first row id, and the most that the next one is larger.
    rowids: (i64, i64),
    /// There are bytes in what is unallocated.
    has_residue: bool,
    /// A column whose integers are longer than SQLite would write them, and in which part of rows.
    wide: Option<(usize, f64)>,
}

impl Table {
    pub(super) fn random(rng: &mut StdRng) -> Table {
        let page_size = match rng.random_range(0..20) {
            0..8 => 512,
            8..12 => 1024,
            12..18 => 4096,
            18 => 16_384,
            _ => 65_536,
        };
        let columns = rng.random_range(1..=9);
        Table {
            page_size,
            reserved: match rng.random_range(0..4) {
                0 => rng.random_range(1..=32),
                _ => 0,
            },
            has_rowids: rng.random(),
            small: rng.random_bool(0.9),
            columns: (0..columns).map(|_| Column::random(rng)).collect(),
            lie: match rng.random_range(0..8) {
                0..4 => Lie::Packed,
                4..6 => Lie::Shuffled,
                _ => Lie::Loose,
            },
            rowids: (
                [1, 1, 100, 5000, 1 << 20, (1 << 28) - 300, 1 << 40, -50][rng.random_range(0..8)],
                [1, 1, 2, 1000][rng.random_range(0..4)],
            ),
            has_residue: rng.random_bool(0.2),
            wide: match rng.random_range(0..10) {
                0 => Some((rng.random_range(0..columns), 1.0)),
                1 => Some((rng.random_range(0..columns), 0.01)),
                _ => None,
            },
        }
    }

    /// A cell; its row id, if it has one, is `rowid`.
    fn cell(&self, rowid: i64, rng: &mut StdRng) -> Vec<u8> {
        let number = |n: u64, to: &mut Vec<u8>| {
            let at = to.len();
            to.resize(at + varint_len(n), 0);
            put_varint(n, &mut to[at..]);
        };
        let (mut types, mut body) = (Vec::new(), Vec::new());
        for (c, column) in self.columns.iter().enumerate() {
            let wide = self.wide.filter(|(wide, _)| *wide == c);
            let wide = wide.is_some_and(|(_, part)| rng.random_bool(part));
            let (serial_type, bytes) = column.value(rng, self.small, wide);
            number(u64::from(serial_type), &mut types);
            body.extend(bytes);
        }
        let mut cell = Vec::new();
        number((1 + types.len() + body.len()) as u64, &mut cell);
        if self.has_rowids {
            number(rowid as u64, &mut cell);
        }
        number(1 + types.len() as u64, &mut cell);
        cell.extend(types);
        cell.extend(body);
        cell.resize(cell.len().max(4), 0);
        cell
    }

    /// A leaf; on page 1 the database header is before it.
    pub(super) fn page(&self, first: bool, rng: &mut StdRng) -> Vec<u8> {
        let usable = self.page_size - self.reserved;
        let header = if first { 100 } else { 0 };
        let mut page = vec![0; self.page_size];
        if self.has_residue {
            rng.fill_bytes(&mut page);
        }
        rng.fill_bytes(&mut page[..header]);
        rng.fill_bytes(&mut page[usable..]);

        let most = match rng.random_range(0..6) {
            0 => rng.random_range(1..6),
            _ => usize::MAX,
        };
        let mut rowid = self.rowids.0;
        let mut cells = Vec::new();
        let mut room = usable - header - 8;
        while cells.len() < most {
            let cell = self.cell(rowid, rng);
            rowid += rng.random_range(1..=self.rowids.1);
            // What may lie below a cell takes up to sixteen bytes.
            let gap = if matches!(self.lie, Lie::Loose) {
                16
            } else {
                0
            };
            let Some(left) = room.checked_sub(cell.len() + 2 + gap) else {
                break;
            };
            room = left;
            cells.push(cell);
        }
        let mut order: Vec<usize> = (0..cells.len()).collect();
        if matches!(self.lie, Lie::Shuffled) || matches!(self.lie, Lie::Loose) && rng.random() {
            order.shuffle(rng);
        }
        let (mut at, mut fragments, mut next_block) = (usable, 0, 0);
        for (placed, &i) in order.iter().enumerate() {
            at -= cells[i].len();
            page[at..at + cells[i].len()].copy_from_slice(&cells[i]);
            put_be16(&mut page, header + 8 + 2 * i, at);
            let is_last = placed + 1 == cells.len();
            if matches!(self.lie, Lie::Loose) && !is_last {
                match rng.random_range(0..12) {
                    0 if fragments < 60 => {
                        let len = rng.random_range(1..=3);
                        at -= len;
                        fragments += len;
                    }
                    1 => {
                        let len = rng.random_range(4..=16);
                        at -= len;
                        put_be16(&mut page, at, next_block);
                        put_be16(&mut page, at + 2, len);
                        next_block = at;
                    }
                    _ => {}
                }
            }
        }
        page[header] = if self.has_rowids { 13 } else { 10 };
        put_be16(&mut page, header + 1, next_block);
        put_be16(&mut page, header + 3, cells.len());
        // 65536 is written as 0.
        put_be16(&mut page, header + 5, at);
        page[header + 7] = fragments as u8;
        page
    }
}

fn put_be16(page: &mut [u8], at: usize, value: usize) {
    page[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}
