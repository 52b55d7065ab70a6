//! A member joins its stream again: with other settings, at another place, or after a loss.

use super::Joining;
use super::stream_place::write_place;
use crate::member::digest;
use crate::member::guards;
use crate::member::message::{Body, Joined, Message, NO_LOG, ROW_BITS};
use crate::member::needed;
use crate::member::own_log;
use crate::member::sent::{self, Last};
use crate::member::tables::{Membership, home, of_stream};
use densite_ingest::parts::{StreamPlace, no_log, refused};
use densite_ingest::{DatabaseLog, Position, from_log};
use densite_log::{Log, LogId};
use densite_sqlite::{Connection, Result};
use densite_stream::Name;

impl Joining<'_> {
    /// The database was a member before, or is a copy of one.
    pub(super) fn again(&self, connection: &Connection, known: Membership) -> Result<Name> {
        let position = Position::read(connection)?;
        let Some((position, place)) = position.and_then(|p| Some((p, p.stream?))) else {
            return Err(refused(
                "the database has no place in its stream; restore it",
            ));
        };
        if place.identity != self.stream.identity().0 {
            return Err(refused(format!(
                "{}: the database is a member of another stream, {}; leave that one first (densite leave)",
                self.file.path,
                densite_stream::without_password(&known.address)
            )));
        }
        if !known.stopped.is_empty() && !self.options.right {
            return Err(refused(format!(
                "{}: this member has stopped: {}; if this one is right and the others are wrong, join with --right",
                self.file.path, known.stopped
            )));
        }
        needed::all(&self.own)?;
        let is_home = home(self.file.storage.as_ref(), &self.file.log_dir()) == Some(known.home);
        let is_older = self.is_older(&known, position.id)?;
        if is_older && self.options.moved {
            return Err(refused(format!(
                "{}: this is an older state of the member {}: the stream has rows of {} that its log does not have, so it cannot go on under that name; join without --moved, with --origin and a new name",
                self.file.path, known.origin, known.origin
            )));
        }
        let goes_on = (is_home || self.options.moved) && !is_older;
        let other = self
            .options
            .origin
            .as_deref()
            .filter(|name| *name != known.origin.as_str());
        if let Some(other) = other.filter(|_| goes_on) {
            return Err(refused(format!(
                "{}: this database is the member {}, which cannot become {other}; leave the stream first (densite leave)",
                self.file.path, known.origin
            )));
        }
        match goes_on {
            true => self.go_on(connection, known, place),
            false => self.copy(known, position, place, is_older),
        }
    }

    /// Whether the stream has rows of this member that the log beside the database does not have.
    fn is_older(&self, known: &Membership, id: LogId) -> Result<bool> {
        let last = Last::of(&*self.stream, &known.origin).map_err(of_stream)?;
        let (Some((_, message)), Some(log)) = (last.message, self.log_beside(id)?) else {
            return Ok(false);
        };
        if message.log != id && message.log != NO_LOG {
            return Ok(true);
        }
        let has = own_log::has(&log, &message);
        Ok(!has.map_err(|e| from_log(&self.file.log_dir(), e))?)
    }

    /// The log beside the database, if it is the one that the database names.
    pub(super) fn log_beside(&self, id: LogId) -> Result<Option<Log>> {
        let dir = self.file.log_dir();
        let files = self.file.storage.log_dir(&dir, &self.file.path);
        if !dir.exists() || densite_log::id_in(files.clone()).ok().flatten() != Some(id) {
            return Ok(None);
        }
        let log = Log::open_read_only(files, id).map_err(|e| from_log(&dir, e))?;
        Ok(Some(log))
    }

    /// The same member: with other settings, at another place, or after the stream lost messages.
    fn go_on(
        &self,
        connection: &Connection,
        known: Membership,
        place: StreamPlace,
    ) -> Result<Name> {
        let log = DatabaseLog::of(connection)?.ok_or_else(no_log)?;
        self.limit(&log)?;
        let last = self.stream.extent().map_err(of_stream)?.last;
        let place = match self.options.after_loss {
            true => self.again_from()?,
            false => {
                self.is_not_removed(&place)?;
                place
            }
        };
        let home = home(self.file.storage.as_ref(), log.dir()).unwrap_or(known.home);
        let membership = Membership {
            address: self.address.to_owned(),
            settings: self.settings.clone(),
            home,
            stopped: String::new(),
            ..known
        };
        self.own
            .exec("PRAGMA main.synchronous = FULL; BEGIN IMMEDIATE")?;
        membership.write(&self.own)?;
        guards::make(&self.own)?;
        write_place(&self.own, &place)?;
        if self.options.after_loss {
            // What others said can be lost, too.
            self.own
                .exec("UPDATE main.densite_origins SET applied = 0")?;
        }
        if self.options.after_loss || self.options.right {
            // Answers to earlier requests can still come.
            digest::begin_behind(&self.own, last)?;
        }
        self.own.exec("COMMIT")?;
        self.announce_again(&membership.origin, log.open().id(), place.message)?;
        Ok(membership.origin)
    }

    /// A member that another one declared gone, or whose leaving failed half-way, is one again.
    fn announce_again(&self, origin: &Name, log: LogId, applied: u64) -> Result<()> {
        let last = Last::of(&*self.stream, origin).map_err(of_stream)?;
        if !matches!(
            last.message,
            Some((
                _,
                Message {
                    body: Body::Left,
                    ..
                }
            ))
        ) {
            return Ok(());
        }
        let joined = Body::Joined(Joined {
            is_empty: false,
            applied,
        });
        let said = sent::say(&*self.stream, origin, log, None, &joined);
        said.map(drop).map_err(of_stream)
    }

    /// The place behind the first message of the stream: rows that were applied are passed over.
    fn again_from(&self) -> Result<StreamPlace> {
        let extent = self.stream.extent().map_err(of_stream)?;
        let identity = self.stream.identity().0;
        let first = match extent.first {
            // Everything is read again.
            1 => None,
            first => self.stream.message(first).map_err(of_stream)?,
        };
        Ok(match first.map(|message| message.position()) {
            None => StreamPlace::start(identity),
            Some(position) => StreamPlace {
                identity,
                message: position.sequence,
                mark: position.mark,
                row: ((position.sequence + 1) << ROW_BITS) - 1,
            },
        })
    }
}
