//! Rows that are applied together: in which order (rule L5), and how many.

use super::plan::Plan;
use super::values::sort;
use crate::rows::unit::Unit;
use densite_log::Record;
use std::time::Duration;

/// The longest time to hold the write lock. Half a second is promised.
pub(super) const HOLD_MAX: Duration = Duration::from_millis(450);
/// The target time of a batch.
const HOLD_GOAL: Duration = Duration::from_millis(280);
/// A transaction of the log is tried as a whole if it is expected to hold the lock no longer than
/// this.
const HOLD_TRIED: Duration = Duration::from_millis(365);
/// After a batch that held the lock for longer than this, the lock stays free for a tenth of that
/// time.
const GAP_FROM: Duration = Duration::from_millis(30);
/// A COMMIT that meets a checkpoint's syncs takes at most this many times as long as the one
/// before.
const SLOWER: u32 = 3;
const ROWS_FIRST: usize = 4 << 10;
const ROWS_MAX: usize = 512 << 10;
/// The most rows of a transaction of the log that is tried as a whole at first.
const TRANSACTION_FIRST: usize = 32 << 10;
/// A transaction of up to this many rows is applied at once, however long that takes. What a reader
/// finds must not depend on how busy the machine is.
pub(crate) const UNDIVIDED: usize = 1024;
/// Fewer rows do not show the cost of a row, because a transaction has a fixed cost.
const TELLING: usize = 1024;

/// The units of these records, in an order with the same result as the log's order. Rows of tables
/// that depend on each other keep the log's order. Rows of each independent table are sorted by
/// key, and keep the log's order within a key. A table keeps the log's order if it has a row with a
/// NULL key. It also does if the log has several descriptions of its key, because the schema
/// changed in between. `of` has the index of the plan of each record.
pub(super) fn ordered(records: &[Record], of: &[usize], plans: &[Plan], rows: usize) -> Vec<Unit> {
    let mut units = Vec::with_capacity(rows);
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut left = rows;
    let mut spans = Vec::with_capacity(records.len());
    for (i, record) in records.iter().enumerate() {
        let take = (record.rows.len() - record.skip).min(left);
        left -= take;
        spans.push(record.skip..record.skip + take);
        let Some(plan) = of.get(i).and_then(|p| plans.get(*p)) else {
            continue;
        };
        let name = record.table.name();
        if !plan.independent {
            push(&mut units, i, &spans);
            continue;
        }
        match groups
            .iter_mut()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
        {
            Some((_, members)) => members.push(i),
            None => groups.push((name, vec![i])),
        }
    }
    for (_, members) in groups {
        let from = units.len();
        members.iter().for_each(|i| push(&mut units, *i, &spans));
        let first = members
            .first()
            .and_then(|i| of.get(*i))
            .and_then(|p| plans.get(*p));
        let (Some(first), Some(part)) = (first, units.get_mut(from..)) else {
            continue;
        };
        let same = members.iter().all(|i| {
            let plan = of.get(*i).and_then(|p| plans.get(*p));
            plan.is_some_and(|p| p.sort == first.sort)
        });
        let has_key = |i: &usize| {
            let record = records.get(*i);
            record.is_some_and(|r| has_all_keys(r, first.sort.len()))
        };
        if same && members.iter().all(has_key) {
            sort(part, records, &first.sort);
        }
    }
    units
}

fn push(units: &mut Vec<Unit>, record: usize, spans: &[std::ops::Range<usize>]) {
    let span = spans.get(record).cloned().unwrap_or_default();
    units.extend(span.map(|row| Unit {
        record: record as u32,
        row: row as u32,
    }));
}

/// Whether no key of a record contains NULL. A row without an id gets the next id when it is
/// applied, so it must not move before rows that bring their ids.
pub(super) fn has_all_keys(record: &Record, columns: usize) -> bool {
    (record.skip..record.rows.len()).all(|row| {
        (0..columns).all(|column| {
            let value = record.rows.get(row, column);
            !matches!(value, None | Some(densite_log::Value::Null))
        })
    })
}

/// The number of rows that fit into one transaction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Room {
    /// Rows of a batch.
    pub(super) rows: usize,
    /// Rows of a transaction of the log that is applied at once although a batch has fewer rows:
    /// as many as are expected not to hold the lock for too long, and at least [`UNDIVIDED`].
    pub(super) transaction: usize,
}

/// The number of rows of a batch: as many as hold the write lock for the target time. Fewer would
/// cost more, because more rows at once write fewer pages for each row.
pub(super) struct Pace {
    rows: usize,
    /// Rows that are expected to hold the lock for [`HOLD_TRIED`].
    fit: usize,
    /// Time of the last COMMIT for each of its rows.
    commit: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            rows: ROWS_FIRST,
            fit: TRANSACTION_FIRST,
            commit: Duration::ZERO,
        }
    }
}

impl Pace {
    /// Rows of the next batch. Half as many while a checkpoint is `beside`: a COMMIT that meets its
    /// syncs can take several times as long.
    pub(super) fn rows(&self, beside: bool) -> usize {
        match beside {
            true => (self.rows / 2).max(1),
            false => self.rows,
        }
    }

    /// What fits while a checkpoint is `beside`, or not.
    pub(super) fn room(&self, beside: bool) -> Room {
        let rows = self.rows(beside);
        let fit = if beside { self.fit / 2 } else { self.fit };
        Room {
            rows,
            transaction: fit.max(rows).max(UNDIVIDED),
        }
    }

    /// How long rows of a batch can be inserted, so that the lock is released in time after the
    /// COMMIT. While a checkpoint is `beside`, the COMMIT is assumed to take [`SLOWER`] times as
    /// long.
    pub(super) fn limit(&self, rows: usize, beside: bool) -> Duration {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        let commit = self.commit.saturating_mul(rows);
        let commit = commit.saturating_mul(if beside { SLOWER } else { 1 });
        HOLD_MAX.saturating_sub(commit).max(HOLD_MAX / 4)
    }

    /// Records the time of the COMMIT of this many rows.
    pub(super) fn committed(&mut self, rows: usize, took: Duration) {
        self.commit = took / u32::try_from(rows.max(1)).unwrap_or(u32::MAX);
    }

    /// Records that a batch of `rows` held the lock for `held`. It could have had `asked` rows.
    /// `is_full`: more rows wait.
    pub(super) fn held(&mut self, rows: usize, asked: usize, held: Duration, is_full: bool) {
        let held = held.as_secs_f64().max(1e-6);
        let factor = HOLD_GOAL.as_secs_f64() / held;
        if rows >= TELLING {
            let fit = rows as f64 * (HOLD_TRIED.as_secs_f64() / held).min(8.0);
            self.fit = (fit as usize).clamp(1, ROWS_MAX);
        }
        if factor < 1.0 || is_full {
            // More rows make each row cheaper, because they share pages. So the target is
            // approached in steps.
            let next = (rows as f64 * factor.clamp(0.25, 2.0)) as usize;
            // A batch that is short because a transaction ends there, or because its rows are
            // large, does not show that more rows would be too many.
            let least = if rows < asked && factor >= 1.0 {
                self.rows
            } else {
                1
            };
            self.rows = next.max(least).clamp(1, ROWS_MAX);
        }
    }

    /// Only so many rows were done in the time there is, and all had to be taken back.
    pub(super) fn slow(&mut self, done: usize) {
        self.rows = (done / 2).max(1);
        self.fit = done;
    }

    /// How long the lock is to be free after it was held for so long.
    pub(super) fn gap(held: Duration) -> Duration {
        match held > GAP_FROM {
            true => held / 10,
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that cost 5 µs, and 8 µs each page of 40,000 that they touch at random: as a table of
    /// ten million rows.
    #[test]
    fn batches_come_to_the_time_that_is_aimed_at() {
        let mut pace = Pace::default();
        for round in 0..40 {
            let rows = pace.rows(false);
            let pages = 40_000.0 * (1.0 - (-(rows as f64) / 40_000.0).exp());
            let (insert, commit) = (rows as f64 * 5e-6, pages * 8e-6);
            let insert = Duration::from_secs_f64(insert);
            if insert > pace.limit(rows, false) {
                pace.slow(rows / 2);
                continue;
            }
            let commit = Duration::from_secs_f64(commit);
            assert!(
                insert + commit < Duration::from_millis(500),
                "{round}: {rows}"
            );
            pace.committed(rows, commit);
            pace.held(rows, rows, insert + commit, true);
            if round > 20 {
                assert!(
                    (insert + commit).abs_diff(HOLD_GOAL) < Duration::from_millis(20),
                    "{round}: {rows}"
                );
            }
        }
        // A batch that ends with the log says nothing of what would fit.
        let rows = pace.rows(false);
        pace.held(1, rows, Duration::from_micros(100), false);
        assert_eq!(pace.rows(false), rows);
        assert!(pace.limit(rows / 2, true) < pace.limit(rows / 2, false));
        // Half as many rows in half the time say the same.
        assert_eq!(pace.rows(true), rows / 2);
        pace.held(rows / 2, rows / 2, HOLD_GOAL / 2, true);
        assert!(pace.rows(false).abs_diff(rows) < 3);
        let rows = pace.rows(false);
        // Nor does one that ends with a transaction, but where it took too long.
        pace.held(10, rows, HOLD_GOAL / 100, true);
        assert_eq!(pace.rows(false), rows);
        pace.held(rows, rows, HOLD_GOAL * 2, false);
        assert_eq!(pace.rows(false), rows / 2);
    }

    #[test]
    fn a_transaction_is_tried_as_a_whole_where_it_is_expected_to_fit() {
        let mut pace = Pace::default();
        assert_eq!(pace.room(false).transaction, TRANSACTION_FIRST);
        // Few rows do not tell what many cost.
        pace.held(1, 4096, HOLD_MAX, true);
        assert_eq!(pace.room(false).rows, 1);
        assert_eq!(pace.room(false).transaction, TRANSACTION_FIRST);
        pace.held(10_000, 4096, HOLD_TRIED / 2, true);
        assert!(pace.room(false).transaction.abs_diff(20_000) < 3);
        assert!(pace.room(true).transaction.abs_diff(10_000) < 3);
        pace.slow(5000);
        assert_eq!(pace.room(false).transaction, 5000);
        pace.slow(3);
        assert_eq!(pace.room(false).transaction, UNDIVIDED);
        pace.held(ROWS_MAX, ROWS_MAX, HOLD_TRIED / 4, true);
        assert_eq!(pace.room(false).transaction, ROWS_MAX);
    }
}
