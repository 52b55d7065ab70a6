//! The order of a stream of which the database is a member ([`crate::member`]).

use super::log_order::LogOrder;
use super::order::{Next, Order, Prepared};
use super::outcome::Failed;
use super::records::Reached;
use super::round::{Batch, Round, Turn};
use super::rows::Rows;
use super::stream_records::StreamRecords;
use crate::database::position::{Position, StreamPlace};
use crate::member::{Origins, Running};
use densite_sqlite::Result;
use std::sync::Arc;

/// See the module.
pub(super) struct StreamOrder {
    order: LogOrder<StreamRecords>,
    running: Arc<Running>,
    /// The place that the source expects in the database.
    at: Option<StreamPlace>,
}

impl StreamOrder {
    pub(super) fn of(running: &Arc<Running>) -> StreamOrder {
        StreamOrder {
            order: LogOrder::of(StreamRecords::of(running)),
            running: Arc::clone(running),
            at: None,
        }
    }

    /// The member whose messages these are.
    pub(super) fn running(&self) -> &Arc<Running> {
        &self.running
    }

    /// Whether it knows of waiting rows.
    pub(super) fn has_more(&self) -> bool {
        self.order.has_rows() || self.running.incoming().has_news()
    }
}

impl Order for StreamOrder {
    fn next(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Option<Next>> {
        if self.at != turn.named.stream {
            // The first time, or the database was restored.
            let origins = Origins::read(round.connection())?;
            self.order.source_mut().begin(origins);
            self.order.forget();
            self.at = turn.named.stream;
        }
        let next = self
            .order
            .next(round, turn)
            .inspect_err(|_| self.at = None)?;
        if matches!(next, Some(Next::Nothing)) {
            self.running.rests();
        }
        let control = self.order.source().control();
        Ok(match (next, control) {
            (Some(Next::Nothing), Some(control)) => Some(Next::Message(Box::new(control.clone()))),
            (next, _) => next,
        })
    }

    fn batch(&mut self, round: &mut Round, turn: &Turn<'_>) -> Result<Prepared> {
        self.order.batch(round, turn)
    }

    fn rows(&self) -> Rows<'_> {
        self.order.rows()
    }

    fn committed(&mut self, batch: &Batch) -> bool {
        self.at = batch.next.stream;
        self.running.applied();
        self.order.committed(batch) && !self.running.incoming().has_news()
    }

    fn after_message(&self, named: &Position) -> Reached {
        self.order.source().after_control(named)
    }

    fn passed(&mut self, end: &Position) {
        self.at = end.stream;
        self.order.passed(end);
    }

    fn failed(&mut self, round: &mut Round, batch: &Batch, failed: &Failed) {
        self.order.failed(round, batch, failed);
    }
}
