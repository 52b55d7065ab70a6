//! Transactions of the log that are judged as a whole, where the schema has a foreign key that
//! COMMIT judges.
//!
//! Many of them are applied in one transaction of the table. So each runs within a savepoint, and
//! what COMMIT would say of it alone is asked at its end: a later one heals no earlier one. Of one
//! that is refused nothing stays, and all of its rows are rejected. Rows of tables that no foreign
//! key reaches come behind the others, in an order of their own; they have no say, but go with
//! their transaction.
//!
//! SQLite counts violations. Where the table had some before (somebody wrote with
//! `foreign_keys=OFF`), a row that mends several of them may be counted as if it mended those of
//! the same transaction of the table, as in SQLite itself.

use super::outcome::Failed;
use super::plan::Plan;
use super::reject::reject;
use crate::unit::Unit;
use densite_log::Record;
use densite_sqlite::Connection;
use std::collections::HashSet;

/// What SQLite says of such a COMMIT.
const REASON: &str = "FOREIGN KEY constraint failed";

/// The judge of the transactions of one batch.
pub(super) struct Whole<'a> {
    records: &'a [Record],
    /// The plan of each record.
    of: &'a [usize],
    /// Of each record, how many transactions end before it.
    turns: Vec<usize>,
    /// The one whose rows are being applied, and the first of its units.
    open: Option<(usize, usize)>,
    refused: HashSet<usize>,
}

impl<'a> Whole<'a> {
    /// Of transactions that have these records, each of which has its plan.
    pub(super) fn new(records: &'a [Record], of: &'a [usize]) -> Whole<'a> {
        let ended = records.iter().scan(0, |ended, record| {
            let before = *ended;
            *ended += usize::from(record.ends_transaction);
            Some(before)
        });
        Whole {
            records,
            of,
            turns: ended.collect(),
            open: None,
            refused: HashSet::new(),
        }
    }

    /// Before the unit `i` of those, or behind the last one. Answers why that one is not to be
    /// applied: it is rejected.
    pub(super) fn turn(
        &mut self,
        connection: &Connection,
        plans: &[Plan],
        units: &[Unit],
        i: usize,
    ) -> Result<Option<&'static str>, Failed> {
        let next = units.get(i).and_then(|unit| {
            let plan = self.of.get(unit.record as usize)?;
            let independent = plans.get(*plan)?.independent;
            Some((*self.turns.get(unit.record as usize)?, independent))
        });
        let judged = next.filter(|(_, independent)| !independent);
        let judged = judged.map(|(turn, _)| turn);
        if self.open.map(|(turn, _)| turn) != judged {
            self.end(connection, units, i)?;
            if let Some(turn) = judged {
                connection.exec("SAVEPOINT densite_transaction")?;
                self.open = Some((turn, i));
            }
        }
        let is_refused = next.is_some_and(|(turn, _)| self.refused.contains(&turn));
        Ok(is_refused.then_some(REASON))
    }

    /// The end of the transaction that is open, which has the units before `end`.
    fn end(&mut self, connection: &Connection, units: &[Unit], end: usize) -> Result<(), Failed> {
        let Some((turn, begin)) = self.open.take() else {
            return Ok(());
        };
        if connection.owes_foreign_keys() {
            connection.exec("ROLLBACK TO densite_transaction")?;
            for unit in units.get(begin..end).unwrap_or_default() {
                if let Some(record) = self.records.get(unit.record as usize) {
                    reject(connection, record, unit.row as usize, REASON)?;
                }
            }
            self.refused.insert(turn);
        }
        connection.exec("RELEASE densite_transaction")?;
        Ok(())
    }
}
