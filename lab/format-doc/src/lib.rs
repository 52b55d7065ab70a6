//! For tests: compares the byte tables of docs/FORMAT.md with the tables in the modules and with
//! encoded bytes.
//!
//! A checked table of FORMAT.md follows a mark, `<!-- KIND: NAME -->`, and its rows begin with
//! offset, size and field. On a mismatch every function here panics with the table's name, which
//! fails the test.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// All of docs/FORMAT.md.
pub const TEXT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md"));

/// A row of a table: offset and size in bytes, and the field.
pub type Row = (usize, usize, String);

/// The rows of the table after a mark, `<!-- MARK -->`, cell by cell. For tables that are not about
/// bytes.
///
/// # Panics
/// If there is no such table.
pub fn cells(mark: &str) -> Vec<Vec<&'static str>> {
    let (_, behind) = TEXT
        .split_once(&format!("<!-- {mark} -->\n"))
        .unwrap_or_else(|| panic!("FORMAT.md has no table {mark}"));
    table(behind).collect()
}

/// The rows, cell by cell, of the table at the start of a text.
fn table(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().take_while(|l| l.starts_with('|')).skip(2);
    lines.map(|l| l.split('|').map(str::trim).skip(1).collect())
}

/// The tables of FORMAT.md that are marked with one kind.
pub struct Tables(BTreeMap<&'static str, Vec<Row>>);

impl Tables {
    /// The tables with the marks `<!-- KIND: NAME -->`.
    ///
    /// # Panics
    /// If a table exists twice, or a row does not begin with two numbers.
    pub fn of(kind: &str) -> Tables {
        Tables::within(TEXT, kind)
    }

    /// As [`Tables::of`], of another document.
    ///
    /// # Panics
    /// As [`Tables::of`].
    pub fn within(text: &'static str, kind: &str) -> Tables {
        let mut tables = BTreeMap::new();
        for part in text.split(&format!("<!-- {kind}: ")).skip(1) {
            let (name, rest) = part
                .split_once(" -->\n")
                .expect("a mark is a line of its own");
            let row = |cells: Vec<&str>| {
                let number = |i: usize| cells.get(i).and_then(|cell| cell.parse().ok());
                match (number(0), number(1), cells.get(2)) {
                    (Some(offset), Some(size), Some(field)) => (offset, size, (*field).to_owned()),
                    _ => panic!("{name}: {cells:?}"),
                }
            };
            let twice = tables.insert(name, table(rest).map(row).collect());
            assert!(twice.is_none(), "table {name} is there twice");
        }
        Tables(tables)
    }

    /// The names of the tables, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }

    fn rows(&self, name: &str) -> &[Row] {
        let rows = self.0.get(name);
        rows.unwrap_or_else(|| panic!("FORMAT.md has no table {name}"))
    }

    /// Checks a table against an example's bytes: the fields have no gaps, and the bytes of each
    /// field are where the table says.
    ///
    /// # Panics
    /// If they differ.
    pub fn check(&self, name: &str, bytes: &[u8], fields: &[(&str, Vec<u8>)]) {
        let rows = self.rows(name);
        let names: Vec<&str> = rows.iter().map(|row| row.2.as_str()).collect();
        let wanted: Vec<&str> = fields.iter().map(|field| field.0).collect();
        assert_eq!(names, wanted, "fields of table {name}");
        let mut at = 0;
        for ((offset, size, field), (_, want)) in rows.iter().zip(fields) {
            assert_eq!(
                (*offset, *size),
                (at, want.len()),
                "{name}.{field}: (offset, size) in FORMAT.md differs from the encoded one"
            );
            assert_eq!(
                bytes.get(at..at + size),
                Some(want.as_slice()),
                "{name}.{field}: the bytes at offset {at}"
            );
            at += size;
        }
        assert_eq!(at, bytes.len(), "{name}: bytes that no row describes");
    }

    /// Checks a table against the first one in a module's documentation.
    ///
    /// # Panics
    /// If they differ.
    pub fn check_module(&self, name: &str, source: &str) {
        assert_eq!(
            self.rows(name),
            module_table(source),
            "the table of {name} in FORMAT.md differs from the one in its module"
        );
    }
}

/// The rows with numbers of the first table in a module's documentation.
fn module_table(source: &str) -> Vec<Row> {
    let lines = source
        .lines()
        .skip_while(|l| !l.starts_with("//! offset  size  field"))
        .skip(1);
    let rows = lines
        .take_while(|l| l.starts_with("//!  "))
        .filter_map(|l| {
            let mut words = l.trim_start_matches("//!").split_whitespace();
            let (offset, size) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some((offset, size, words.next()?.to_owned()))
        });
    rows.collect()
}

/// A two-byte number in the byte order of files.
pub fn le2(v: u16) -> Vec<u8> {
    v.to_le_bytes().to_vec()
}

/// A four-byte number in the byte order of files.
pub fn le4(v: u32) -> Vec<u8> {
    v.to_le_bytes().to_vec()
}

/// An eight-byte number in the byte order of files.
pub fn le8(v: u64) -> Vec<u8> {
    v.to_le_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const DOC: &str = "Text.\n\n<!-- toy: head -->\n| offset | size | field |\n|---|---|---|\n| 0 | 2 | len | \n| 2 | 1 | kind |\n\n<!-- other: tail -->\n| offset | size | field |\n|---|---|---|\n| 0 | 8 | check |\n";

    fn fails(what: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(what)).is_err()
    }

    #[test]
    fn a_table_is_compared_with_bytes() {
        let tables = Tables::within(DOC, "toy");
        assert_eq!(tables.names(), ["head"]);
        let good = [("len", le2(3)), ("kind", vec![9])];
        tables.check("head", &[3, 0, 9], &good);
        for (name, bytes) in [
            ("tail", &[3, 0, 9][..]),
            ("head", &[3, 0, 8]),
            ("head", &[3, 0]),
            ("head", &[3, 0, 9, 0]),
        ] {
            assert!(fails(|| tables.check(name, bytes, &good)), "{bytes:?}");
        }
        for fields in [
            vec![("len", le2(3))],
            vec![("len", le2(3)), ("sort", vec![9])],
            vec![("len", vec![3]), ("kind", vec![9])],
        ] {
            assert!(fails(|| tables.check("head", &[3, 0, 9], &fields)));
        }
    }

    #[test]
    fn a_table_is_compared_with_a_module() {
        let tables = Tables::within(DOC, "toy");
        let module = "//! A head.\n//!\n//! offset  size  field\n//!      0     2  len    of what follows\n//!      2     1  kind\n//!\n//! Ends.\n";
        tables.check_module("head", module);
        let moved = module.replace("2     1  kind", "3     1  kind");
        assert!(fails(|| tables.check_module("head", &moved)));
    }
}
