//! What the worker of ingest applies in a member: rows in the order of the stream
//! ([`stream_records`]), and messages between them that have none ([`message`]).

mod control;
mod message;
mod own;
mod stream_records;

use crate::member::{Membership, Running};
use crate::wait;
use densite_disk::wait::Deadline;
use densite_ingest::parts::{
    Begun, DatabaseWorker, Member, OpenLog, StreamPlace, StreamSource, Streams, refused,
};
use densite_log::Seq;
use densite_sqlite::{Connection, Result};
use std::any::Any;
use std::sync::Arc;
use stream_records::StreamRecords;

/// The members of this process.
pub(crate) struct Members;

impl Streams for Members {
    fn begin(
        &self,
        connection: &Connection,
        open: &Arc<OpenLog>,
        place: StreamPlace,
        known: Option<&Arc<dyn Member>>,
    ) -> Result<Begun> {
        let membership = Membership::read(connection)?;
        let membership = membership.ok_or_else(|| {
            refused("the table densite_member is missing: only Densite may change it; restore the database")
        })?;
        if let Some(reason) = membership.stands_still(open) {
            return Ok(Begun::StandsStill(reason));
        }
        let known = known.and_then(|known| {
            let known: &dyn Any = &**known;
            known.downcast_ref::<Running>()
        });
        if known.is_some_and(|running| *running.membership() == membership) {
            return Ok(Begun::Known);
        }
        let running = Running::start(open, membership, place)?;
        Ok(Begun::New(Arc::new(running)))
    }

    fn wait(
        &self,
        open: &OpenLog,
        worker: &DatabaseWorker,
        connection: &Connection,
        seq: Seq,
        until: Deadline,
    ) -> Result<Seq> {
        wait::wait(open, worker, connection, seq, until)
    }
}

impl Member for Running {
    fn source(self: Arc<Self>) -> Box<dyn StreamSource> {
        Box::new(StreamRecords::of(&self))
    }

    fn has_news(&self) -> bool {
        self.incoming().has_news()
    }

    fn applied(&self) {
        self.rows_applied();
    }

    fn rests(&self) {
        self.compare_if_due();
    }

    fn trouble(&self) -> Option<String> {
        self.troubles().said()
    }

    fn lasting_trouble(&self) -> Option<String> {
        self.troubles().lasting()
    }
}
