//! A database joins a stream for the first time.

use super::Joining;
use super::enter::Begin;
use crate::database_log::DatabaseLog;
use crate::error::refused;
use crate::member::demands;
use crate::member::message::Body;
use crate::member::sent;
use crate::member::tables::of_stream;
use crate::position::StreamPlace;
use densite_sqlite::{Connection, Result};
use densite_stream::{Error as StreamError, Name};

impl Joining<'_> {
    /// The database joins a stream for the first time.
    pub(super) fn first(&self, connection: &Connection) -> Result<Name> {
        let is_empty = demands::is_empty(connection)?;
        self.may_begin(is_empty)?;
        let origin = self.free_origin()?;
        let log = DatabaseLog::open_or_create(connection, self.session.storage())?;
        let end = log.log().last().map_err(|e| log.failed(e))?;
        log.wait_applied(connection, end, None)?;
        let place = StreamPlace::start(self.stream.identity().0);
        self.limit(&log)?;
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
    /// and began with an empty database.
    fn may_begin(&self, is_empty: bool) -> Result<()> {
        let extent = self.stream.extent().map_err(of_stream)?;
        let began_empty = match sent::first_of_members(&*self.stream) {
            Ok(None) => return Ok(()),
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
        Err(refused(format!(
            "{}: the stream has {} messages, {why}; join a copy of a member, or a database that `densite restore` made of one",
            self.file.path, extent.last
        )))
    }
}
