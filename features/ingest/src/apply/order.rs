//! The order in which rows are applied: that of the log, or that of a clustered apply.
//!
//! The [`super::applier`] asks an order what comes next, makes one transaction of it, and tells the
//! order how the transaction ended. An order reads and plans. It never writes to the database.

use super::outcome::Failed;
use super::queue::Reached;
use super::round::{Batch, Round, Turn};
use super::rows::Rows;
use super::stream::StreamMessage;
use crate::clustered::Definition;
use crate::database::position::Position;
use densite_sqlite::Result;

/// The next step of an order.
pub(super) enum Next {
    /// Rows: [`Order::batch`] returns them.
    Rows,
    /// Numbers up to this position that no row has.
    Numbers(Reached),
    /// A message of the stream that has no rows for tables.
    Message(Box<dyn StreamMessage>),
    /// The order itself, which is written to the database before its first row.
    Definition(Define),
    /// Nothing: everything is applied.
    Nothing,
}

/// An order to write to the database.
pub(super) struct Define {
    pub(super) definition: Definition,
    /// The position to write with it.
    pub(super) next: Position,
}

/// The next transaction of an order.
pub(super) enum Prepared {
    Rows(Batch),
    /// The order has changed, and must be written first.
    Definition(Define),
}

/// See the module.
pub(super) trait Order {
    /// The next step; `None` if it is not this order's turn.
    ///
    /// # Errors
    /// SQLite's, the log's.
    fn next(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Option<Next>>;

    /// The next transaction, after [`Next::Rows`].
    ///
    /// # Errors
    /// SQLite's, the log's.
    fn batch(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Prepared>;

    /// The records of the current batch.
    fn rows(&self) -> Rows<'_>;

    /// Called when the batch is committed. Returns whether the log has no more rows, as far as is
    /// known.
    fn committed(&mut self, batch: &Batch) -> bool;

    /// The position behind a [`Next::Message`].
    fn after_message(&self, named: &Position) -> Reached {
        Reached::at(*named)
    }

    /// Called when the position has moved past the numbers of [`Next::Numbers`], up to this one, or past a
    /// [`Next::Message`].
    fn passed(&mut self, _end: &Position) {}

    /// Called when the batch is not committed. Records what the failure says about its rows.
    fn failed(&mut self, round: &mut Round, batch: &Batch, failed: &Failed);
}
