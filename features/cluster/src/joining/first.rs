//! A database joins a stream for the first time.

use super::Joining;
use super::begun::Begun;
use super::enter::Begin;
use crate::demands;
use crate::member::message::{Body, Message};
use crate::member::sent;
use crate::member::tables::of_stream;
use densite_disk::wait::Deadline;
use densite_ingest::DatabaseLog;
use densite_ingest::parts::{StreamPlace, refused};
use densite_sqlite::{Connection, Result};
use densite_stream::{Error as StreamError, Name};

/// A stream with more messages is in use.
const FEW: u64 = 20;

impl Joining<'_> {
    /// The database joins a stream for the first time.
    pub(super) fn first(&self, connection: &Connection) -> Result<Name> {
        let is_empty = demands::is_empty(connection)?;
        let begun = self.begun()?;
        self.may_begin(is_empty, begun.as_ref())?;
        let origin = self.origin(begun.as_ref())?;
        let log = DatabaseLog::open_or_create(connection, self.session.storage())?;
        let end = log.log().last().map_err(|e| log.failed(e))?;
        log.wait_applied(connection, end, Deadline::NEVER)?;
        let place = StreamPlace::start(self.stream.identity().0);
        self.limit(&log)?;
        self.begin(&Begun {
            origin: origin.clone(),
            log: log.open().id(),
        })?;
        self.enter(&origin, |position| {
            if position.clustered.is_some() {
                return Err(refused(
                    "many rows are being applied; wait for them (densite_wait) and join again",
                ));
            }
            Ok(Begin {
                log: position.id,
                seq: position.seq,
                place,
                is_empty,
                founds: !is_empty,
            })
        })?;
        Ok(origin)
    }

    /// A stream with messages wants a copy of a member, unless it has everything from the beginning
    /// and began with an empty database, or an earlier attempt of this database began it.
    fn may_begin(&self, is_empty: bool, begun: Option<&Begun>) -> Result<()> {
        let extent = self.stream.extent().map_err(of_stream)?;
        let began_empty = match sent::first_of_members(&*self.stream) {
            Ok(None) => return Ok(()),
            Ok(Some((_, first))) if begun.is_some_and(|begun| begun.log == first.log) => {
                return Ok(());
            }
            Ok(Some((_, first))) => {
                matches!(first.body, Body::Joined(joined) if joined.is_empty)
            }
            Err(StreamError::Lost { .. }) => false,
            Err(e) => return Err(of_stream(e)),
        };
        if is_empty && began_empty {
            return Ok(());
        }
        let why = match (is_empty, began_empty) {
            (false, _) => "and this database is none of its members",
            (true, _) => {
                "of which this database has none, and the stream did not begin with an empty database"
            }
        };
        let dead = match self.only_joined()? {
            Some(origin) => format!(
                ". It has only the joining of {origin}: if that failed, run `densite join` on that database again; if that database is gone, remove the stream (its directory, or `nats stream rm`) and join again"
            ),
            None => String::new(),
        };
        Err(refused(format!(
            "{}: the stream has {} messages, {why}; join a copy of a member, or a database that `densite restore` made of one{dead}",
            self.file.path, extent.last
        )))
    }

    /// The only origin of a stream in which nothing else happened than that it joined.
    fn only_joined(&self) -> Result<Option<Name>> {
        let extent = self.stream.extent().map_err(of_stream)?;
        let mut only = None;
        if extent.first != 1 || extent.last > FEW {
            return Ok(None);
        }
        for sequence in 1..=extent.last {
            let message = self.stream.message(sequence).map_err(of_stream)?;
            let Some(message) = message else { continue };
            let decoded = Message::decode(&message.bytes).map(|message| message.body);
            let is_joining = matches!(decoded, Ok(Body::Joined(_) | Body::Left));
            if !is_joining || only.as_ref().is_some_and(|only| *only != message.origin) {
                return Ok(None);
            }
            only = Some(message.origin);
        }
        Ok(only)
    }
}
