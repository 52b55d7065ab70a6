//! What the worker does in one round: it asks an order what comes next, and makes one transaction
//! of it. Between transactions it checkpoints and prunes.

use super::Applying;
use super::checkpoint_scheduler::CheckpointScheduler;
use super::clustered::ClusteredOrder;
use super::log_order::LogOrder;
use super::order::{Define, Next, Order, Prepared};
use super::outcome::{Did, Failed};
use super::queue::{LogRecords, Reached};
use super::round::{Batch, Round, Turn};
use super::rows::Work;
use super::stream::{Begun, StreamMessage, streams};
use super::stream_order::StreamOrder;
use crate::clustered::Definition;
use crate::database::paused;
use crate::database::position::StreamPlace;
use densite_log::Seq;
use densite_sqlite::{Connection, Error, Result};
use std::sync::Arc;

/// See the module.
pub(super) struct Applier {
    log_order: LogOrder<LogRecords>,
    clustered: ClusteredOrder,
    /// In a member of a stream: it takes the place of the other two.
    stream: Option<StreamOrder>,
    scheduler: CheckpointScheduler,
    round: Round,
}

impl Applier {
    /// Opens a connection for the worker.
    ///
    /// # Errors
    /// SQLite's.
    pub(super) fn open(applying: &Applying) -> Result<Applier> {
        Ok(Applier {
            log_order: LogOrder::of(LogRecords::of(&applying.open)),
            clustered: ClusteredOrder::default(),
            stream: None,
            scheduler: CheckpointScheduler::new(applying.open.storage().wal_bytes()),
            round: Round::open(applying)?,
        })
    }

    /// Applies some rows. `known` is the position at which this worker left the database.
    ///
    /// # Errors
    /// SQLite's and the log's; an error if the connection's file no longer has the database's name.
    /// In that case the next round opens the file with that name.
    pub(super) fn run(&mut self, applying: &Applying, known: Option<Seq>) -> Result<Did> {
        let named = self.round.position()?;
        applying.open.database_ahead().set_named(named.is_some());
        let Some(named) = named else {
            return Ok(Did::Unnamed);
        };
        applying.is_of(named)?;
        let position = named.seq;
        if let Some(error) = applying
            .open
            .database_ahead()
            .check_position(known, position)
        {
            return Ok(Did::Waits(error));
        }
        applying.tell(|s| s.applied = s.applied.max(position));
        if named.is_paused {
            return paused::reason(self.round.connection()).map(Did::Waits);
        }
        if let Some(place) = named.stream {
            if let Some(error) = self.be_member(applying, place)? {
                return Ok(Did::Waits(error));
            }
        } else {
            self.stream = None;
            applying.end_member();
        }
        self.round.check_schema(applying)?;
        let turn = Turn {
            applying,
            named,
            is_beside: self.scheduler.is_beside(),
        };
        let Applier {
            log_order,
            clustered,
            stream,
            scheduler,
            round,
        } = self;
        if let Some(stream) = stream {
            let next = stream.next(round, &turn)?.unwrap_or(Next::Nothing);
            let is_message = matches!(next, Next::Message(_));
            let step = Step::new(round, scheduler, stream);
            let did = step.of_stream().make(turn, next);
            if is_message {
                // It can have stopped this member.
                self.stream = None;
            }
            return did;
        }
        if clustered.is_due(round, &turn)? {
            log_order.forget();
            if let Some(next) = clustered.next(round, &turn)? {
                return Step::new(round, scheduler, clustered).make(turn, next);
            }
        }
        let next = log_order.next(round, &turn)?.unwrap_or(Next::Nothing);
        Step::new(round, scheduler, log_order).make(turn, next)
    }

    /// Starts what a member needs. Returns the reason if it may not go on.
    fn be_member(&mut self, applying: &Applying, place: StreamPlace) -> Result<Option<Error>> {
        // `densite_join` can have changed the address or the credentials: here it ends the member at
        // work, and elsewhere it is called because there is trouble.
        let known = applying.member();
        let is_known = |stream: &StreamOrder| {
            (known.as_ref()).is_some_and(|member| Arc::ptr_eq(member, stream.member()))
        };
        let is_known = self.stream.as_ref().filter(|stream| is_known(stream));
        if is_known.is_some_and(|stream| stream.member().trouble().is_none()) {
            return Ok(None);
        }
        let is_known = is_known.is_some();
        let connection = self.round.connection();
        let member = match streams()?.begin(connection, &applying.open, place, known.as_ref())? {
            Begun::StandsStill(reason) => {
                applying.end_member();
                return Ok(Some(reason));
            }
            Begun::Known if is_known => return Ok(None),
            Begun::Known => known,
            Begun::New(member) => {
                applying.begin_member(&member);
                Some(member)
            }
        };
        self.stream = member.as_ref().map(StreamOrder::of);
        Ok(None)
    }

    /// Whether it knows of waiting rows.
    pub(super) fn has_more(&self) -> bool {
        match &self.stream {
            Some(stream) => stream.has_more(),
            None => self.clustered.has_more() || self.log_order.has_more(),
        }
    }
}

/// One step of an order: a transaction, or no work.
struct Step<'a> {
    round: &'a mut Round,
    scheduler: &'a mut CheckpointScheduler,
    order: &'a mut dyn Order,
    /// The order is that of a stream.
    is_of_stream: bool,
}

impl<'a> Step<'a> {
    fn new(
        round: &'a mut Round,
        scheduler: &'a mut CheckpointScheduler,
        order: &'a mut dyn Order,
    ) -> Step<'a> {
        Step {
            round,
            scheduler,
            order,
            is_of_stream: false,
        }
    }

    fn of_stream(mut self) -> Step<'a> {
        self.is_of_stream = true;
        self
    }

    fn make(&mut self, turn: Turn<'_>, next: Next) -> Result<Did> {
        match next {
            Next::Rows => self.rows(turn),
            Next::Numbers(end) => self.pass(&turn, &end),
            Next::Message(message) => self.message(&turn, message),
            Next::Definition(define) => self.define(&turn, define),
            Next::Nothing => {
                let position = turn.named.seq;
                let connection = self.round.connection();
                self.scheduler
                    .when_idle(connection, turn.applying, position)?;
                Ok(match self.is_of_stream {
                    true => Did::AwaitsStream(position),
                    false => Did::Nothing(position),
                })
            }
        }
    }

    /// Applies rows, unless the WAL has no room for them.
    fn rows(&mut self, mut turn: Turn<'_>) -> Result<Did> {
        let applying = turn.applying;
        self.scheduler.set_synchronous(self.round.connection())?;
        let held_up = self.scheduler.held_up(self.round.connection(), applying)?;
        if let Some(error) = held_up {
            return Ok(Did::Waits(error));
        }
        turn.is_beside = self.scheduler.is_beside();
        match self.order.batch(self.round, &turn)? {
            Prepared::Rows(batch) => self.transaction(&turn, batch),
            Prepared::Definition(define) => self.define(&turn, define),
        }
    }

    fn transaction(&mut self, turn: &Turn<'_>, mut batch: Batch) -> Result<Did> {
        let applying = turn.applying;
        let values = std::mem::take(&mut batch.values);
        let work = Work::new(self.order.rows(), values, self.round.whole);
        let done = self.round.transaction(turn, &work, &batch);
        match done {
            Ok(held) => {
                let is_all = self.order.committed(&batch);
                let last = batch.next.seq;
                self.round.committed(&batch, held);
                let connection = self.round.connection();
                self.scheduler
                    .after(connection, applying, last, batch.rows)?;
                if is_all {
                    // If rows keep coming, there may be no later chance.
                    self.scheduler.when_idle(connection, applying, last)?;
                }
                Ok(Did::Applied(last))
            }
            Err(failed) => {
                self.order.failed(self.round, &batch, &failed);
                self.round.give_up(failed)?;
                Ok(Did::Applied(turn.named.seq))
            }
        }
    }

    /// Numbers follow that no row has: their rows were rolled back or are lost. The position moves
    /// past them. Otherwise connections would wait for it forever.
    fn pass(&mut self, turn: &Turn<'_>, end: &Reached) -> Result<Did> {
        self.go_to(turn, end, |_| Ok(()))
    }

    /// Applies a message of the stream that has no rows for tables.
    fn message(&mut self, turn: &Turn<'_>, mut message: Box<dyn StreamMessage>) -> Result<Did> {
        let reached = self.order.after_message(&turn.named);
        message.prepare(self.round.connection())?;
        let did = self.go_to(turn, &reached, |connection| message.write(connection));
        if matches!(did, Ok(Did::Applied(_))) {
            message.done();
        }
        did
    }

    /// Moves the position without rows. `write` makes the other changes.
    fn go_to(
        &mut self,
        turn: &Turn<'_>,
        end: &Reached,
        write: impl FnOnce(&Connection) -> Result<()>,
    ) -> Result<Did> {
        self.scheduler.set_synchronous(self.round.connection())?;
        let write = |connection: &Connection| {
            if let Some(state) = &end.state {
                state.write(connection)?;
            }
            write(connection)
        };
        match self.round.move_position(turn, end.position, write) {
            Ok(_) => {
                self.order.passed(&end.position);
                let (connection, last) = (self.round.connection(), end.position.seq);
                self.scheduler.after(connection, turn.applying, last, 0)?;
                Ok(Did::Applied(last))
            }
            Err(Failed::Other(e) | Failed::Commit(e)) => Err(e),
            Err(_) => Ok(Did::Applied(turn.named.seq)),
        }
    }

    /// Writes the order of a clustered apply before its first row is applied.
    fn define(&mut self, turn: &Turn<'_>, define: Define) -> Result<Did> {
        self.scheduler.set_synchronous(self.round.connection())?;
        let Define { definition, next } = define;
        match (self.round).move_position(turn, next, |c| definition.store(c)) {
            Ok(held) => {
                let Definition {
                    id, permutation, ..
                } = definition;
                let unapplied = turn.applying.open.unapplied();
                unapplied.keep_permutation(id, turn.named.seq, permutation);
                self.round.leave_free(held);
                Ok(Did::Applied(turn.named.seq))
            }
            Err(Failed::Other(e) | Failed::Commit(e)) => Err(e),
            Err(_) => Ok(Did::Applied(turn.named.seq)),
        }
    }
}
