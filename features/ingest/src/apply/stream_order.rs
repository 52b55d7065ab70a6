//! The order of a stream of which the database is a member ([`super::stream`]).

use super::log_order::LogOrder;
use super::order::{Next, Order, Prepared};
use super::outcome::Failed;
use super::queue::{Reached, RecordSource};
use super::round::{Batch, Round, Turn};
use super::rows::Rows;
use super::stream::{Member, StreamSource};
use crate::database::position::{Position, StreamPlace};
use densite_log::Seq;
use densite_sqlite::Result;
use std::sync::Arc;

/// See the module.
pub(super) struct StreamOrder {
    order: LogOrder<Box<dyn StreamSource>>,
    member: Arc<dyn Member>,
    /// The place that the source expects in the database.
    at: Option<StreamPlace>,
}

impl StreamOrder {
    pub(super) fn of(member: &Arc<dyn Member>) -> StreamOrder {
        StreamOrder {
            order: LogOrder::of(Arc::clone(member).source()),
            member: Arc::clone(member),
            at: None,
        }
    }

    /// The member whose messages these are.
    pub(super) fn member(&self) -> &Arc<dyn Member> {
        &self.member
    }

    /// Whether it knows of waiting rows.
    pub(super) fn has_more(&self) -> bool {
        self.order.has_rows() || self.member.has_news()
    }
}

impl Order for StreamOrder {
    fn next(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Option<Next>> {
        if self.at != turn.named.stream {
            // The first time, or the database was restored.
            self.order.source_mut().begin(round.connection())?;
            self.order.forget();
            self.at = turn.named.stream;
        }
        let next = self
            .order
            .next(round, turn)
            .inspect_err(|_| self.at = None)?;
        if !matches!(next, Some(Next::Nothing)) {
            return Ok(next);
        }
        self.member.rests();
        let message = self.order.source().message();
        Ok(message.map_or(next, |message| Some(Next::Message(message))))
    }

    fn batch(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Prepared> {
        self.order.batch(round, turn)
    }

    fn rows(&self) -> Rows<'_> {
        self.order.rows()
    }

    fn committed(&mut self, batch: &Batch) -> bool {
        self.at = batch.next.stream;
        self.member.applied();
        self.order.committed(batch) && !self.member.has_news()
    }

    fn after_message(&self, named: &Position) -> Reached {
        self.order.source().after_message(named)
    }

    fn passed(&mut self, end: &Position) {
        self.at = end.stream;
        self.order.passed(end);
    }

    fn failed(&mut self, round: &mut Round, batch: &Batch, failed: &Failed) {
        self.order.failed(round, batch, failed);
    }
}

impl RecordSource for Box<dyn StreamSource> {
    fn applied(&self, named: &Position) -> Seq {
        (**self).applied(named)
    }

    fn restart(&mut self, named: &Position) -> Result<()> {
        (**self).restart(named)
    }

    fn next_within(&mut self, bytes: usize) -> Result<densite_log::Next> {
        (**self).next_within(bytes)
    }

    fn at(&self, named: &Position, last: Seq) -> Reached {
        (**self).at(named, last)
    }

    fn end(&self, named: &Position) -> Option<Reached> {
        (**self).end(named)
    }

    fn passed(&mut self, position: &Position) {
        (**self).passed(position);
    }
}
