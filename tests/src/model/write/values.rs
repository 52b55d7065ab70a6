//! Values as SQL text, by the declared type of a column.

use super::World;
use crate::model::catalog::Column;

impl World {
    /// A value for one row.
    pub(super) fn value(&mut self, column: &Column) -> String {
        if column.declared == "INTEGER" && column.key {
            return match self.dice.below(3) {
                0 => self.dice.below(400).to_string(),
                _ => "NULL".to_owned(),
            };
        }
        if !column.not_null && !column.key && self.dice.percent(8) {
            return "NULL".to_owned();
        }
        match column.declared.as_str() {
            "INTEGER" => match self.dice.below(8) {
                0 => format!("-{}", self.dice.below(1 << 40)),
                1 => "9223372036854775807".to_owned(),
                2 => "1".to_owned(),
                _ => self.dice.below(1000).to_string(),
            },
            "REAL" => format!("{}.{}", self.dice.below(1000), self.dice.below(100)),
            "BLOB" => {
                let (seed, len) = (self.dice.below(1000), self.dice.below(300));
                format!("blob_of({seed}, {len})")
            }
            _ => {
                let (seed, len) = (self.dice.below(100_000), self.dice.below(120));
                format!("text_of({seed}, {len})")
            }
        }
    }

    /// An expression over the row number `i`.
    pub(super) fn value_of_i(&mut self, column: &Column) -> String {
        let k = self.dice.between(1, 997);
        if column.declared == "INTEGER" && column.key {
            return "NULL".to_owned();
        }
        match column.declared.as_str() {
            "INTEGER" => format!("(i * {k}) % 1013"),
            "REAL" => format!("i / {k}.5"),
            "BLOB" => format!("blob_of(i + {k}, (i * {k}) % 200)"),
            _ => format!("text_of(i * {k}, (i * 7 + {k}) % 90 + 6)"),
        }
    }

    /// A value larger than a page, of a type for the column.
    pub(super) fn large_value(&mut self, declared: &str) -> String {
        let low = self.page_size / 2;
        let len = self.dice.between(low, (low * 8).min(150_000));
        let seed = self.dice.below(1000);
        match declared {
            "BLOB" => format!("blob_of({seed}, {len})"),
            _ => format!("text_of({seed}, {len})"),
        }
    }
}

/// `WITH n(i) AS (numbers from 1 to count)`.
pub(super) fn numbers(count: usize) -> String {
    format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})")
}
