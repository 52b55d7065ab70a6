//! Transactions of the log that are checked as a whole, if the schema has a foreign key that COMMIT
//! checks (docs/decisions/ingest-applying.md, Batches).
//!
//! Each runs within a savepoint, and its violations are checked at its end. A refused transaction
//! leaves nothing, and all its rows are rejected. Rows of tables that no foreign key reaches come
//! last, in their own order. SQLite counts violations: if the table had some before (written with
//! `foreign_keys=OFF`), a row that repairs several can offset violations of its transaction, as in
//! SQLite itself.

use super::outcome::Failed;
use super::plan::Plan;
use super::reject::reject;
use crate::rows::unit::Unit;
use densite_log::Record;
use densite_sqlite::Connection;
use std::collections::HashSet;

/// SQLite's message for such a COMMIT.
const REASON: &str = "FOREIGN KEY constraint failed";

/// The judge of the transactions of one batch.
pub(super) struct DeferredConstraints<'a> {
    records: &'a [Record],
    /// The plan of each record.
    of: &'a [usize],
    /// For each record, the number of transactions that end before it.
    turns: Vec<usize>,
    /// The transaction whose rows are being applied, and the index of its first unit.
    open: Option<(usize, usize)>,
    refused: HashSet<usize>,
}

impl<'a> DeferredConstraints<'a> {
    /// For transactions with these records; `of` has the index of each record's plan.
    pub(super) fn new(records: &'a [Record], of: &'a [usize]) -> DeferredConstraints<'a> {
        let ended = records.iter().scan(0, |ended, record| {
            let before = *ended;
            *ended += usize::from(record.ends_transaction);
            Some(before)
        });
        DeferredConstraints {
            records,
            of,
            turns: ended.collect(),
            open: None,
            refused: HashSet::new(),
        }
    }

    /// Call it before the unit `i`, and once behind the last unit. Returns a reason if the unit's
    /// transaction was refused: the unit is rejected.
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

    /// Ends the open transaction, whose units end before `end`.
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
