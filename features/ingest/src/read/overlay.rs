//! The unapplied rows of a scan, key by key.

use super::filter::Probe;
use super::packed::Item;
use super::run::{Row, Run, Visibility};
use crate::schema::collation::Collation;
use crate::schema::key_code::Code;
use densite_sqlite::{Value, ValueRef};
use std::cmp::Ordering;
use std::sync::Arc;

/// The keys of a scan: those with these first values, and a range of the next column.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) equal: Vec<Value>,
    /// The value, and whether the value itself is excluded.
    pub(crate) lower: Option<(Value, bool)>,
    pub(crate) upper: Option<(Value, bool)>,
}

impl Bounds {
    /// Where a key is: before the bounds, within, or behind them.
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

    /// The least and the greatest code of keys at one bound. Keys with lesser codes are before the
    /// bound, keys with greater codes behind it.
    fn codes(&self, end: Option<&(Value, bool)>, key: &[Collation]) -> (Code, Code) {
        let values = self.equal.iter().chain(end.map(|(value, _)| value));
        let values: Vec<ValueRef<'_>> = values.map(Value::as_ref).collect();
        Code::range(key, &values)
    }
}

struct Source {
    run: Arc<Run>,
    /// The next row.
    head: Option<Item>,
    /// Place of the row behind it.
    at: usize,
    end: usize,
}

impl Source {
    fn new(run: &Arc<Run>, at: usize, end: usize, visibility: &Visibility) -> Source {
        let mut source = Source {
            run: run.clone(),
            head: None,
            at,
            end,
        };
        source.step(visibility);
        source
    }

    /// Moves to the next visible row.
    fn step(&mut self, visibility: &Visibility) {
        self.head = None;
        while self.head.is_none() && self.at < self.end {
            self.head = self
                .run
                .at(self.at)
                .filter(|item| visibility.sees(item.seq));
            self.at += 1;
        }
    }
}

/// All runs of a snapshot and the transaction's own rows, in the order of the log.
#[derive(Default)]
pub(crate) struct Overlay {
    sources: Vec<Source>,
    /// The source with the least key.
    least: Option<usize>,
    visibility: Visibility,
}

impl Overlay {
    pub(crate) fn new<'a>(
        runs: impl Iterator<Item = &'a Arc<Run>> + Clone,
        visibility: Visibility,
        bounds: &Bounds,
        key: &[Collation],
    ) -> Overlay {
        let (low, before) = bounds.codes(bounds.lower.as_ref(), key);
        let is_point = !key.is_empty() && bounds.equal.len() == key.len();
        let (behind, high) = match is_point {
            true => (low, low),
            false => bounds.codes(bounds.upper.as_ref(), key),
        };
        let is_all = *bounds == Bounds::default();
        let probe = Probe::of(low);
        // All filters are read before the first search. One word of bits is enough: a snapshot
        // never has 64 runs, and further runs would be searched.
        let asked = is_point.then(|| {
            let runs = runs.clone().take(64).enumerate();
            runs.fold(0u64, |no, (i, run)| {
                no | u64::from(!run.may_have(probe)) << i
            })
        });
        let source = |(i, run): (usize, &Arc<Run>)| {
            if is_all {
                return Some(Source::new(run, 0, run.len(), &visibility));
            }
            if i < 64 && asked.unwrap_or(0) >> i & 1 == 1 {
                return None;
            }
            let mut at = run.lower(low);
            if run.code_at(at).is_none_or(|code| code > high) {
                return None;
            }
            // A key usually has one row, and then a second search is not needed.
            let next = is_point.then(|| run.code_at(at + 1)).flatten();
            let mut end = match next {
                Some(code) if code > high => at + 1,
                _ => run.upper(high),
            };
            // If codes are exact, they decide alone. Otherwise values decide among the rows that
            // the codes leave.
            if !is_point || !low.is_exact() {
                let has = |end: &Option<_>| end.is_some() || !bounds.equal.is_empty();
                if has(&bounds.lower) {
                    at = run.partition((at, run.upper(before).min(end)), |row| {
                        bounds.side(row, key) == Ordering::Less
                    });
                }
                if has(&bounds.upper) {
                    end = run.partition((run.lower(behind).max(at), end), |row| {
                        bounds.side(row, key) != Ordering::Greater
                    });
                }
            }
            Some(Source::new(run, at, end, &visibility))
        };
        let sources = runs
            .enumerate()
            .filter_map(source)
            .filter(|s| s.head.is_some());
        let sources = sources.collect();
        let mut overlay = Overlay {
            sources,
            least: None,
            visibility,
        };
        overlay.find(key);
        overlay
    }

    fn find(&mut self, key: &[Collation]) {
        let mut least: Option<(usize, &Run, Item)> = None;
        for (i, source) in self.sources.iter().enumerate() {
            let Some(item) = source.head else { continue };
            if least
                .is_none_or(|(_, run, l)| source.run.compare(item, run, l, key) == Ordering::Less)
            {
                least = Some((i, source.run.as_ref(), item));
            }
        }
        self.least = least.map(|(i, ..)| i);
    }

    /// The first row of the least key, and its code.
    pub(crate) fn peek(&self) -> Option<(Code, Row<'_>)> {
        let source = self.least.and_then(|i| self.sources.get(i))?;
        let item = source.head?;
        Some((item.code, source.run.row(item)?))
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.least.is_none()
    }

    /// The code of the least key.
    pub(crate) fn code(&self) -> Option<Code> {
        let source = self.least.and_then(|i| self.sources.get(i))?;
        Some(source.head?.code)
    }

    /// The row of the least key, if the codes show that the key has only one.
    pub(crate) fn lone(&self) -> Option<(&Arc<Run>, Item)> {
        let (place, code) = (self.least?, self.code()?);
        let others = self.sources.iter().enumerate().filter(|(i, _)| *i != place);
        if others.filter_map(|(_, s)| s.head).any(|h| h.code == code) {
            return None;
        }
        let source = self.sources.get(place)?;
        let next = (source.at < source.end).then(|| source.run.code_at(source.at));
        (next.flatten() != Some(code)).then_some((&source.run, source.head?))
    }

    /// Moves to the next row.
    pub(crate) fn pass(&mut self, key: &[Collation]) {
        if let Some(source) = self.least.and_then(|i| self.sources.get_mut(i)) {
            source.step(&self.visibility);
        }
        self.find(key);
    }

    /// Passes all rows of the least key to `each`, in the order of the log, and moves to the next
    /// key.
    pub(crate) fn take(&mut self, key: &[Collation], mut each: impl FnMut(&Row<'_>)) {
        let Some(first) = self.least.take() else {
            return;
        };
        let visibility = &self.visibility;
        let Some((run, least)) = self.sources.get(first).map(|s| (s.run.clone(), s.head)) else {
            return;
        };
        // Sources before the one with the least key have greater keys.
        for source in self.sources.iter_mut().skip(first) {
            while let (Some(item), Some(least)) = (source.head, least)
                && source.run.compare(item, &run, least, key) == Ordering::Equal
            {
                if let Some(row) = source.run.row(item) {
                    each(&row);
                }
                source.step(visibility);
            }
        }
        self.find(key);
    }

    /// Compares the least key with a row of the base table, whose key has this code. `Greater` if
    /// there is no unapplied row.
    pub(crate) fn compare<'a>(
        &'a self,
        key: &[Collation],
        base: impl Fn(usize) -> ValueRef<'a>,
        base_code: Code,
    ) -> Ordering {
        let Some(code) = self.code() else {
            return Ordering::Greater;
        };
        match code.cmp(&base_code) {
            Ordering::Equal if !code.is_exact() => {
                let row = self.peek();
                row.map_or(Ordering::Equal, |(_, row)| row.compare(key, base))
            }
            order => order,
        }
    }
}
