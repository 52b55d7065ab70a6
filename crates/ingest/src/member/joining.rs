//! `densite_join(address [, settings])`.
//!
//! A database becomes a member in one transaction, in which it also announces itself in the stream.
//! If the transaction fails after that, the stream has an origin without a database, and is told
//! that it left.

use super::demands;
use super::digest;
use super::forwarder::largest_transaction;
use super::guards;
use super::leaving::BUSY_MS;
use super::message::{Body, Joined, Message, ROW_BITS};
use super::needed;
use super::options::{self, Options};
use super::sent::{self, Last};
use super::tables::{Membership, Settings, home, of_stream};
use crate::connection_spec::ConnectionSpec;
use crate::database_file::DatabaseFile;
use crate::database_log::DatabaseLog;
use crate::error::refused;
use crate::position::{Position, StreamPlace};
use crate::room::LOOK_EVERY;
use crate::session::Session;
use densite_log::{LogId, Seq};
use densite_sqlite::{Connection, Result, Value, ValueRef};
use densite_stream::{Error as StreamError, Name, Stream};
use std::sync::Arc;

/// The only text argument at this place.
fn text<'a>(given: &[ValueRef<'a>], place: usize) -> Option<&'a str> {
    given.get(place).and_then(|value| value.as_str())
}

/// See the module. Returns the name of the member.
///
/// # Errors
/// What stands against joining; SQLite's, the log's, the stream's.
pub(crate) fn join(
    session: &Session,
    connection: &Connection,
    given: &[ValueRef<'_>],
) -> Result<Value> {
    let address = text(given, 0).filter(|_| given.len() <= 2).ok_or_else(|| {
        refused("densite_join wants the address of a stream, and settings as a JSON object if there are any, as in densite_join('nats://host:4222/STREAM')")
    })?;
    let (options, settings) = options::parsed(text(given, 1).unwrap_or("{}"))
        .map_err(|e| refused(format!("densite_join: the settings are not valid: {e}")))?;
    if !connection.is_autocommit() {
        return Err(refused(
            "densite_join: this connection has a transaction open; end it first",
        ));
    }
    let joining = Joining::of(session, connection, address, options, settings)?;
    let origin = match Membership::read(connection)? {
        None => joining.first(connection)?,
        Some(known) => joining.again(connection, known)?,
    };
    // The session keeps the log open, and so the member at work.
    if let Some(log) = session.database_log(connection)? {
        log.worker().applying(connection)?.end_member();
        log.log().ring();
    }
    Ok(Value::from(origin.as_str()))
}

/// Where a new member begins.
struct Begin {
    log: LogId,
    /// The last row of the log that is not for the stream.
    seq: Seq,
    place: StreamPlace,
    /// The database has no tables.
    is_empty: bool,
    /// The stream begins with what the database has.
    founds: bool,
}

/// A database and a stream.
struct Joining<'a> {
    session: &'a Session,
    file: DatabaseFile,
    /// A connection to the database for the transaction.
    own: Connection,
    address: &'a str,
    options: Options,
    settings: Settings,
    stream: Arc<dyn Stream>,
}

impl<'a> Joining<'a> {
    fn of(
        session: &'a Session,
        connection: &Connection,
        address: &'a str,
        options: Options,
        settings: Settings,
    ) -> Result<Joining<'a>> {
        let file = DatabaseFile::of(connection, session.storage())?;
        let parsed = densite_stream::Address::parse(address).map_err(of_stream)?;
        let is_member = Membership::read(connection)?.is_some();
        let unmet = demands::unmet(connection, is_member)?;
        if !unmet.is_empty() {
            return Err(refused(format!(
                "{}: the database cannot join a stream: {}",
                file.path,
                unmet.join("; ")
            )));
        }
        let own = ConnectionSpec::of(connection, &file.path).open()?;
        let timeout = connection.query_i64("PRAGMA busy_timeout")?.unwrap_or(0);
        own.busy_timeout(i32::try_from(timeout.max(BUSY_MS.into())).unwrap_or(i32::MAX))?;
        let stream = parsed.open(&settings.access()?).map_err(of_stream)?;
        if !settings.trust_server {
            demands::trusted(stream.durability().map_err(of_stream)?)?;
        }
        Ok(Joining {
            session,
            file,
            own,
            address,
            options,
            settings,
            stream,
        })
    }

    /// The database joins a stream for the first time.
    fn first(&self, connection: &Connection) -> Result<Name> {
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

    /// The database was a member before, or is a copy of one.
    fn again(&self, connection: &Connection, known: Membership) -> Result<Name> {
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
        let other = self
            .options
            .origin
            .as_deref()
            .filter(|name| *name != known.origin.as_str());
        if let Some(other) = other.filter(|_| is_home || self.options.moved) {
            return Err(refused(format!(
                "{}: this database is the member {}, which cannot become {other}; leave the stream first (densite leave)",
                self.file.path, known.origin
            )));
        }
        match is_home || self.options.moved {
            true => self.go_on(connection, known, place),
            false => self.copy(known, position, place),
        }
    }

    /// The same member: with other settings, at another place, or after the stream lost messages.
    fn go_on(
        &self,
        connection: &Connection,
        known: Membership,
        place: StreamPlace,
    ) -> Result<Name> {
        let log = DatabaseLog::of(connection)?.ok_or_else(|| refused("the database has no log"))?;
        self.limit(&log)?;
        let last = self.stream.extent().map_err(of_stream)?.last;
        let place = match self.options.after_loss {
            true => self.again_from()?,
            false => place,
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
        self.announce_again(&membership.origin, place.message)?;
        Ok(membership.origin)
    }

    /// A member that another one declared gone, or whose leaving failed half-way, is one again.
    fn announce_again(&self, origin: &Name, applied: u64) -> Result<()> {
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
        let said = sent::say(&*self.stream, origin, None, &joined);
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

    /// A copy becomes a member of its own, at the place of the original when it was copied.
    fn copy(&self, known: Membership, position: Position, place: StreamPlace) -> Result<Name> {
        let origin = self.free_origin()?;
        let files = self
            .file
            .storage
            .log_dir(&self.file.log_dir(), &self.file.path);
        // An attempt that failed leaves an empty log, which the next one takes.
        if self.file.log_dir().exists()
            && densite_log::id_in(files).ok().flatten() == Some(position.id)
        {
            self.give_up_log(&known, position)?;
        }
        let above = crate::position::last_reject(&self.own)?;
        let (log, begin) = DatabaseLog::create(&self.file, above, &densite_log::usual)?;
        self.limit(&log)?;
        self.enter(&origin, |_| {
            let sql = "UPDATE main.densite_applied SET log = ?1, seq = ?2";
            let values = [
                Value::Blob(begin.id.0.to_vec()),
                Value::Integer(begin.seq.cast_signed()),
            ];
            self.own.query_row(sql, &values)?;
            Ok(Begin {
                log: begin.id,
                seq: begin.seq,
                place,
                is_empty: false,
                founds: false,
            })
        })?;
        Ok(origin)
    }

    /// Moves the log of a copy away.
    fn give_up_log(&self, known: &Membership, position: Position) -> Result<()> {
        let dir = self.file.log_dir();
        if !self.options.discard {
            let files = self.file.storage.log_dir(&dir, &self.file.path);
            let log = densite_log::Log::open_read_only(files, position.id);
            let last = log.and_then(|log| log.last());
            let last = last.map_err(|e| crate::error::from_log(&dir, e))?;
            if last > position.seq {
                return Err(refused(format!(
                    "{}: this copy of {} has {} rows in its log that it had not applied from the stream; if the original is gone, join with --moved, and they are sent; otherwise the original sends them: join with --discard",
                    self.file.path,
                    known.origin,
                    last - position.seq
                )));
            }
        }
        let mut to = dir.clone();
        to.set_file_name(format!(
            "{}-of-{}",
            dir.file_name().unwrap_or_default().to_string_lossy(),
            known.origin
        ));
        std::fs::rename(&dir, &to).map_err(|e| {
            refused(format!(
                "{}: the log of the original cannot be moved to {}: {e}",
                dir.display(),
                to.display()
            ))
        })
    }

    /// A name that no member has.
    fn free_origin(&self) -> Result<Name> {
        let origin: Name = match &self.options.origin {
            Some(name) => name.parse().map_err(of_stream)?,
            None => free_name()?,
        };
        let taken = self.stream.last_of(&origin).map_err(of_stream)?;
        if taken.is_some() {
            return Err(refused(format!(
                "the stream has a member with the name {origin}; choose another one"
            )));
        }
        Ok(origin)
    }

    /// Announces a new member and stores it, in one transaction.
    fn enter(&self, origin: &Name, begin: impl FnOnce(Position) -> Result<Begin>) -> Result<()> {
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
        write_place(&self.own, &begin.place)?;
        let joined = Message {
            log: begin.log,
            from: begin.seq,
            to: begin.seq,
            body: Body::Joined(Joined {
                is_empty: begin.is_empty,
                applied: begin.place.message,
            }),
        };
        let joined = joined.encode().map_err(|e| refused(e.to_string()))?;
        let sequence = self.stream.append(origin, 0, &joined).map_err(of_stream)?;
        let done = match begin.founds {
            true => self.is_first(sequence),
            false => Ok(()),
        };
        let done = done.and_then(|()| self.own.exec("COMMIT"));
        if done.is_err() {
            sent::say(&*self.stream, origin, None, &Body::Left).ok();
        }
        done
    }

    /// Refuses to found a stream to which a member appended before.
    fn is_first(&self, sequence: u64) -> Result<()> {
        let first = sent::first_of_members(&*self.stream).map_err(of_stream)?;
        match first {
            Some((first, _)) if first == sequence => Ok(()),
            _ => Err(refused(
                "another database joined this stream at the same time, and this one is no copy of it",
            )),
        }
    }

    /// Transactions of a member fit into one message.
    fn limit(&self, log: &DatabaseLog) -> Result<()> {
        let most = self.stream.max_payload().map_err(of_stream)?;
        let set = log.log().set_config(|config| {
            config.max_transaction_bytes = largest_transaction(most) as u64;
        });
        set.map_err(|e| log.failed(e))?;
        // Until then, other processes can append larger transactions.
        std::thread::sleep(2 * LOOK_EVERY);
        Ok(())
    }
}

fn write_place(connection: &Connection, place: &StreamPlace) -> Result<()> {
    let sql = "UPDATE main.densite_applied SET stream = ?1, stream_message = ?2, stream_mark = ?3, stream_row = ?4";
    let values = [
        Value::Blob(place.identity.to_vec()),
        Value::Integer(place.message.cast_signed()),
        Value::Integer(place.mark.cast_signed()),
        Value::Integer(place.row.cast_signed()),
    ];
    connection.query_row(sql, &values).map(drop)
}

/// A name that no other member has: that of the machine, and some random letters.
fn free_name() -> Result<Name> {
    let mut random = [0; 4];
    densite_disk::random::random_bytes(&mut random).map_err(|e| refused(e.to_string()))?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = (host.trim().chars())
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let host = if host.is_empty() { "member" } else { &host };
    let random = u32::from_le_bytes(random);
    format!("{host}-{random:08x}").parse().map_err(of_stream)
}
