//! The order in which rows are applied: that of the log, or that of a clustered apply.
//!
//! The [`super::applier`] asks an order what comes next, makes one transaction of it, and tells the
//! order how the transaction ended. An order reads and plans. It never writes to the database.

use super::outcome::Failed;
use super::round::{Batch, Round, Turn};
use super::rows::Rows;
use crate::clustered::Definition;
use crate::position::Position;
use densite_log::Seq;
use densite_sqlite::Result;

/// What comes next in an order.
pub(super) enum Next {
    /// Rows, which [`Order::batch`] has.
    Rows,
    /// Numbers up to this one, which no row has.
    Numbers(Seq),
    /// The order itself, which is written before its first row.
    Definition(Define),
    /// Nothing: all is applied.
    Nothing,
}

/// An order that is to be written to the database.
pub(super) struct Define {
    pub(super) definition: Definition,
    /// What the database then says of the log.
    pub(super) next: Position,
}

/// The next transaction of an order.
pub(super) enum Prepared {
    Rows(Batch),
    /// The order has changed, and is written first.
    Definition(Define),
}

/// See the module.
pub(super) trait Order {
    /// What comes next; `None` if it is not this order's turn.
    ///
    /// # Errors
    /// SQLite's, the log's.
    fn next(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Option<Next>>;

    /// The next transaction, after [`Next::Rows`].
    ///
    /// # Errors
    /// SQLite's, the log's.
    fn batch(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Prepared>;

    /// Where the rows of the present batch are.
    fn rows(&self) -> Rows<'_>;

    /// The batch is committed. Returns whether that was all that the log has, as far as is known.
    ///
    /// # Errors
    /// The log's.
    fn committed(&mut self, turn: &Turn<'_>, batch: &Batch) -> Result<bool>;

    /// The position went past the numbers of [`Next::Numbers`], up to this one.
    fn passed(&mut self, _end: Seq) {}

    /// The batch is not committed, and why: notes what that says of its rows.
    fn failed(&mut self, round: &mut Round, batch: &Batch, failed: &Failed);
}
