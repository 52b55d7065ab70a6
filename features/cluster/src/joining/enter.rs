//! A new member is announced in the stream and stored in the database, in one transaction.
//!
//! If the transaction fails after that, the stream has an origin without a database, and is told
//! that it left. The next attempt goes on behind that, as after a kill ([`super::begun`]).

use super::Joining;
use super::stream_place::write_place;
use crate::member::guards;
use crate::member::message::{Body, Joined, LastTransaction, Message};
use crate::member::needed;
use crate::member::sent;
use crate::member::tables::{Membership, home, of_stream};
use densite_ingest::Position;
use densite_ingest::parts::{StreamPlace, refused};
use densite_log::{LogId, Seq};
use densite_sqlite::Result;
use densite_stream::Name;

/// Where a new member begins.
pub(super) struct Begin {
    pub(super) log: LogId,
    /// The last row of the log that is not for the stream.
    pub(super) seq: Seq,
    pub(super) place: StreamPlace,
    /// The database has no tables.
    pub(super) is_empty: bool,
    /// The stream begins with what the database has.
    pub(super) founds: bool,
}

impl Joining<'_> {
    /// Announces a new member and stores it, in one transaction.
    pub(super) fn enter(
        &self,
        origin: &Name,
        begin: impl FnOnce(Position) -> Result<Begin>,
    ) -> Result<()> {
        self.own
            .exec("PRAGMA main.synchronous = FULL; BEGIN IMMEDIATE")?;
        let entered = self.enter_within(origin, begin);
        if entered.is_err() && !self.own.is_autocommit() {
            self.own.exec("ROLLBACK").ok();
        }
        entered
    }

    fn enter_within(
        &self,
        origin: &Name,
        begin: impl FnOnce(Position) -> Result<Begin>,
    ) -> Result<()> {
        let position = Position::read(&self.own)?;
        let position = position.ok_or_else(|| refused("the database names no log"))?;
        let begin = begin(position)?;
        let membership = Membership {
            address: self.address.to_owned(),
            settings: self.settings.clone(),
            origin: origin.clone(),
            begun: begin.seq,
            home: home(self.file.storage.as_ref(), &self.file.log_dir()).unwrap_or(0),
            stopped: String::new(),
        };
        membership.write(&self.own)?;
        guards::make(&self.own)?;
        if begin.founds {
            needed::note(&self.own)?;
        }
        self.forget_begun()?;
        write_place(&self.own, &begin.place)?;
        let joined = Message {
            log: begin.log,
            from: begin.seq,
            to: begin.seq,
            last: LastTransaction::default(),
            body: Body::Joined(Joined {
                is_empty: begin.is_empty,
                applied: begin.place.message,
            }),
        };
        self.announce(origin, &joined)?;
        let done = match begin.founds {
            true => self.is_first(begin.log),
            // Messages can have been removed until the others knew of this one.
            false => self.is_not_removed(&begin.place),
        };
        let done = done.and_then(|()| self.own.exec("COMMIT"));
        if done.is_err() {
            sent::say(&*self.stream, origin, begin.log, None, &Body::Left).ok();
        }
        done
    }

    /// Refuses to found a stream to which a member appended before.
    fn is_first(&self, log: LogId) -> Result<()> {
        let first = sent::first_of_members(&*self.stream).map_err(of_stream)?;
        match first {
            Some((_, first)) if first.log == log => Ok(()),
            _ => Err(refused(
                "another database joined this stream at the same time, and this one is no copy of it",
            )),
        }
    }
}
