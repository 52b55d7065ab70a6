//! Rows that a caller has already read, as batches of columns.
//!
//! For statements that a [`Query`](crate::Query) cannot prepare itself. The types follow the same
//! rules: the first batch decides the type of a column, and a column that begins with only NULLs
//! has its declared type, or text.

use crate::batch::Batch;
use crate::build::Column;
use crate::filling::{Filling, RowValues};
use crate::kind::Kind;
use crate::{Error, Result};
use densite_sqlite::ValueRef;

/// Returns SQLite's text of a floating-point number; an error says why it cannot.
pub type RealText<'a> = &'a mut dyn FnMut(f64) -> std::result::Result<String, String>;

/// Fills batches row by row.
pub struct Batcher {
    names: Vec<String>,
    declared: Vec<Option<Kind>>,
    /// The types, once the first batch has decided them.
    kinds: Option<Vec<Kind>>,
    filling: Filling,
    /// Rows of the batches that were taken.
    rows: u64,
}

struct Values<'a>(&'a [ValueRef<'a>]);

impl RowValues for Values<'_> {
    fn value(&self, column: usize) -> ValueRef<'_> {
        self.0.get(column).copied().unwrap_or(ValueRef::Null)
    }

    fn integer(&self, column: usize) -> Option<i64> {
        self.value(column).as_i64()
    }

    fn real(&self, column: usize) -> Option<f64> {
        match self.value(column) {
            ValueRef::Real(x) => Some(x),
            _ => None,
        }
    }
}

impl Batcher {
    /// For columns with these names and declared types.
    pub fn new(columns: &[(String, Option<String>)]) -> Batcher {
        let declared = |(_, declared): &(String, Option<String>)| {
            let declared = declared.as_deref()?;
            Some(Kind::of_declared(declared))
        };
        Batcher {
            names: columns.iter().map(|(name, _)| name.clone()).collect(),
            declared: columns.iter().map(declared).collect(),
            kinds: None,
            filling: Filling::new(columns.iter().map(|_| Column::new(None, 0)).collect()),
            rows: 0,
        }
    }

    /// Adds a row. Returns whether the batch is full, and must be taken before the next row.
    ///
    /// # Errors
    /// [`Error::Value`] if a value does not fit the type of its column.
    pub fn push(&mut self, row: &[ValueRef<'_>]) -> Result<bool> {
        let more = self.filling.push(&Values(row));
        match self.filling.failed.take() {
            Some((column, what)) => Err(self.value(column, self.filling.rows, what)),
            None => Ok(!more),
        }
    }

    /// Takes the rows since the last batch, with the types of the first one.
    ///
    /// # Errors
    /// [`Error::Value`] if the values of a column have no common type.
    pub fn take(&mut self, text_of: RealText<'_>) -> Result<Batch> {
        let full = std::mem::replace(&mut self.filling, Filling::new(Vec::new()));
        let mut columns = Vec::with_capacity(full.columns.len());
        for (i, column) in full.columns.into_iter().enumerate() {
            let filled = column.finish(text_of);
            let mut filled = filled.map_err(|(row, what)| self.value(i, row, what))?;
            let declared = self.declared.get(i).copied().flatten();
            filled.set_kind(declared.unwrap_or(Kind::Text));
            columns.push(filled);
        }
        let decided = || columns.iter().map(|c| c.values.kind()).collect();
        let kinds = self.kinds.get_or_insert_with(decided);
        let next = kinds.iter().map(|kind| Column::new(Some(*kind), 0));
        self.filling = Filling::new(next.collect());
        self.rows += full.rows as u64;
        Ok(Batch {
            rows: full.rows,
            columns,
        })
    }

    fn value(&self, column: usize, row: usize, what: String) -> Error {
        let name = self.names.get(column).map_or("", String::as_str);
        Error::value(name, self.rows + row as u64, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Values;

    fn batcher(columns: &[(&str, Option<&str>)]) -> Batcher {
        let own = |(name, declared): &(&str, Option<&str>)| {
            ((*name).to_owned(), declared.map(str::to_owned))
        };
        Batcher::new(&columns.iter().map(own).collect::<Vec<_>>())
    }

    fn text_of(x: f64) -> std::result::Result<String, String> {
        Ok(x.to_string())
    }

    #[test]
    fn the_first_batch_decides_the_types() {
        let mut rows = batcher(&[("a", None), ("b", Some("INTEGER")), ("c", None)]);
        let full = rows.push(&[ValueRef::Integer(1), ValueRef::Null, ValueRef::Text(b"x")]);
        assert!(!full.expect("a row"));
        rows.push(&[ValueRef::Real(0.5), ValueRef::Null, ValueRef::Integer(2)])
            .expect("a row");
        let columns = rows.take(&mut text_of).expect("a batch").into_columns();
        let kinds: Vec<Kind> = columns.iter().map(|c| c.values.kind()).collect();
        assert_eq!(kinds, [Kind::Real, Kind::Integer, Kind::Text]);
        assert!(matches!(&columns[0].values, Values::Reals(x) if *x == [1.0, 0.5]));
        assert_eq!(columns[1].valid.as_deref(), Some(&[0][..]));
        let refused = rows.push(&[ValueRef::Text(b"y"), ValueRef::Null, ValueRef::Null]);
        let said = refused.expect_err("text among numbers").to_string();
        assert!(said.contains('a') && said.contains("use CAST"), "{said}");
    }

    #[test]
    fn a_full_batch_says_so() {
        let mut rows = batcher(&[("a", None)]);
        let mut pushed = 0;
        while !rows.push(&[ValueRef::Integer(pushed)]).expect("a row") {
            pushed += 1;
        }
        assert_eq!(rows.take(&mut text_of).expect("a batch").rows, 1 << 16);
        assert_eq!(rows.take(&mut text_of).expect("an empty batch").rows, 0);
    }
}
