//! The unapplied rows that a scan meets, key by key.

use super::run::{Row, Run};
use crate::collation::Collation;
use densite_sqlite::{Value, ValueRef};
use std::cmp::Ordering;
use std::sync::Arc;

/// Which keys a scan is about: all with these first values, and of the next column a range.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) equal: Vec<Value>,
    /// The value, and whether it is left out itself.
    pub(crate) lower: Option<(Value, bool)>,
    pub(crate) upper: Option<(Value, bool)>,
}

impl Bounds {
    /// Where a key lies: before the bounds, within, or behind.
    fn side(&self, row: &Row<'_>, key: &[Collation]) -> Ordering {
        let compare = |column: usize, value: &Value| {
            let how = key.get(column).copied().unwrap_or(Collation::Binary);
            how.compare(row.value(column), value.as_ref())
        };
        for (column, value) in self.equal.iter().enumerate() {
            match compare(column, value) {
                Ordering::Equal => {}
                other => return other,
            }
        }
        let column = self.equal.len();
        if let Some((value, strict)) = &self.lower {
            let order = compare(column, value);
            if order == Ordering::Less || (*strict && order == Ordering::Equal) {
                return Ordering::Less;
            }
        }
        if let Some((value, strict)) = &self.upper {
            let order = compare(column, value);
            if order == Ordering::Greater || (*strict && order == Ordering::Equal) {
                return Ordering::Greater;
            }
        }
        Ordering::Equal
    }
}

struct Source {
    run: Arc<Run>,
    at: usize,
    end: usize,
}

impl Source {
    fn row(&self) -> Option<Row<'_>> {
        self.run.at(self.at).filter(|_| self.at < self.end)
    }
}

/// All runs of a snapshot and the transaction's own rows, in the log's order.
#[derive(Default)]
pub(crate) struct Overlay {
    sources: Vec<Source>,
    /// The source that has the least key.
    least: Option<usize>,
    bounds: Bounds,
}

impl Overlay {
    pub(crate) fn new<'a>(
        runs: impl Iterator<Item = &'a Arc<Run>>,
        bounds: &Bounds,
        key: &[Collation],
    ) -> Overlay {
        let sources = runs.map(|run| Source {
            at: run.partition(|row| bounds.side(row, key) == Ordering::Less),
            end: run.len(),
            run: run.clone(),
        });
        let mut overlay = Overlay {
            sources: sources.collect(),
            least: None,
            bounds: bounds.clone(),
        };
        overlay.find(key);
        overlay
    }

    fn find(&mut self, key: &[Collation]) {
        for source in &mut self.sources {
            // Where the bounds end shows only now: one search less for each run of a lookup.
            if let Some(row) = source.row()
                && self.bounds.side(&row, key) == Ordering::Greater
            {
                source.end = source.at;
            }
        }
        let mut least: Option<(usize, Row<'_>)> = None;
        for (i, source) in self.sources.iter().enumerate() {
            let Some(row) = source.row() else { continue };
            if least
                .as_ref()
                .is_none_or(|(_, l)| row.compare(l, key) == Ordering::Less)
            {
                least = Some((i, row));
            }
        }
        self.least = least.map(|(i, _)| i);
    }

    /// The least key's first row.
    pub(crate) fn peek(&self) -> Option<Row<'_>> {
        self.least
            .and_then(|i| self.sources.get(i))
            .and_then(Source::row)
    }

    /// Hands out all rows of the least key in the log's order, and goes on to the next key.
    pub(crate) fn take(&mut self, key: &[Collation], mut each: impl FnMut(&Row<'_>)) {
        let Some(first) = self.least else { return };
        let mut ends = Vec::with_capacity(self.sources.len());
        {
            let least = self.peek();
            for (i, source) in self.sources.iter().enumerate() {
                let mut at = source.at;
                // Sources before the least one have greater keys.
                while i >= first
                    && at < source.end
                    && let (Some(row), Some(least)) = (source.run.at(at), &least)
                    && row.compare(least, key) == Ordering::Equal
                {
                    each(&row);
                    at += 1;
                }
                ends.push(at);
            }
        }
        for (source, at) in self.sources.iter_mut().zip(ends) {
            source.at = at;
        }
        self.find(key);
    }

    /// How the least key compares with a row of the base table; `Greater` if there is none.
    pub(crate) fn compare<'a>(
        &self,
        key: &[Collation],
        base: impl Fn(usize) -> ValueRef<'a>,
    ) -> Ordering {
        let Some(row) = self.peek() else {
            return Ordering::Greater;
        };
        let mut columns = key.iter().enumerate();
        let differs = columns.find_map(|(i, c)| match c.compare(row.value(i), base(i)) {
            Ordering::Equal => None,
            other => Some(other),
        });
        differs.unwrap_or(Ordering::Equal)
    }
}
