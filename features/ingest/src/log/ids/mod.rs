//! Ids of new rows, given out when they are inserted: for tables with `INTEGER PRIMARY KEY
//! AUTOINCREMENT`.
//!
//! A process reserves a block of ids by raising the table's number in `sqlite_sequence`, in a
//! durable transaction of its own. No other process gets an id of that block, nor does an ordinary
//! INSERT: SQLite takes ids above that number. Ids of a block that are not used are skipped, as
//! after a ROLLBACK. Other tables have no such number, so their ids are chosen when rows are applied
//! (docs/decisions/ingest-ids.md).

mod member;

use crate::database::connection_spec::ConnectionSpec;
use crate::database::open_log::OpenLog;
use crate::database::position::Position;
use crate::error::{mixed, refused};
use crate::schema::affinity::from_log;
use crate::waiting::self_block::stops_the_worker;
use densite_disk::sync::Mutex;
use densite_disk::wait::Retry;
use densite_log::{self as log, Op, Seq};
use densite_sqlite::{Code, Connection, Error, Result, Value, quoted};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first block of a process.
const FEWEST: i64 = 64;
/// The largest block.
const MOST: i64 = 1 << 18;
/// A block that lasts less than this is followed by one of twice the size,
const SOON: Duration = Duration::from_secs(10);
/// and one that lasts less than this by one of 64 times the size: each reservation waits for the
/// worker's lock, and writers that begin must not do so often.
const AT_ONCE: Duration = Duration::from_millis(500);
/// How often a reservation tries to get the lock. The worker leaves it for a moment only, between
/// two transactions, which SQLite's own longer and longer pauses would miss.
const TRY_EVERY: Duration = Duration::from_millis(1);

/// The ids of the tables of a database, in this process.
pub(crate) struct Ids {
    open: Arc<OpenLog>,
    tables: Mutex<HashMap<String, Arc<TableIds>>>,
}

impl Ids {
    pub(crate) fn new(open: Arc<OpenLog>) -> Ids {
        Ids {
            open,
            tables: Mutex::default(),
        }
    }

    /// The ids of a table, whose key is this column.
    pub(crate) fn of(&self, table: &str, column: &str) -> Arc<TableIds> {
        let mut tables = self.tables.lock();
        let known = tables.entry(table.to_owned()).or_insert_with(|| {
            Arc::new(TableIds {
                open: Arc::clone(&self.open),
                table: table.to_owned(),
                column: column.to_owned(),
                block: Mutex::default(),
            })
        });
        Arc::clone(known)
    }
}

/// The ids of one table. All connections of the process share them.
pub(crate) struct TableIds {
    open: Arc<OpenLog>,
    table: String,
    column: String,
    block: Mutex<Block>,
}

/// The ids that are reserved and not given out.
#[derive(Default)]
struct Block {
    ids: Range<i64>,
    /// When it was reserved, and its size.
    last: Option<(Instant, i64)>,
    /// The next block begins above this id, which a row has.
    above: i64,
}

impl TableIds {
    /// An id that no row has and that nothing else will get. `None` if it would have to be reserved,
    /// and the connection's own transaction prevents that: it has read the database in a rollback
    /// mode, which blocks all writers.
    ///
    /// # Errors
    /// BUSY if another transaction keeps the database locked for longer than `busy_timeout`. FULL if
    /// there are no more ids. An error if the connection's own transaction writes to the database.
    pub(crate) fn next(&self, connection: &Connection) -> Result<Option<i64>> {
        let mut block = self.block.lock();
        if block.ids.is_empty() && !self.reserve(connection, &mut block)? {
            return Ok(None);
        }
        let id = block.ids.start;
        block.ids.start += 1;
        Ok(Some(id))
    }

    /// The error for a row whose id cannot be reserved.
    pub(crate) fn blocked(&self) -> Error {
        Error::new(
            Code::BUSY,
            format!(
                "{}: the id of a new row cannot be reserved, because this transaction has read the database in a rollback mode, which blocks other writers; \
                 use PRAGMA journal_mode = WAL, or insert before you read",
                self.table
            ),
        )
    }

    /// A row with this id, which the caller chose, is inserted.
    pub(crate) fn given(&self, id: i64) {
        let mut block = self.block.lock();
        if block.ids.contains(&id) {
            block.ids.start = id + 1;
        }
        block.above = block.above.max(id);
    }

    /// Returns whether that is possible.
    fn reserve(&self, connection: &Connection, block: &mut Block) -> Result<bool> {
        if let Some(schema) = connection.written_schema()? {
            return Err(mixed(&schema));
        }
        if stops_the_worker(connection)? {
            return Ok(false);
        }
        let size = match block.last {
            Some((since, size)) if since.elapsed() < AT_ONCE => (size * 64).min(MOST),
            Some((since, size)) if since.elapsed() < SOON => (size * 2).min(MOST),
            Some((_, size)) => (size / 2).max(FEWEST),
            None => FEWEST,
        };
        let ids = self.reserved(connection, block, size).map_err(|e| {
            let why = format!("{}: ids for new rows cannot be reserved", self.table);
            Error::new(e.code, format!("{why}: {}", e.message))
        })?;
        block.ids = ids;
        block.last = Some((Instant::now(), size));
        Ok(true)
    }

    /// Reserves `size` ids, durably.
    fn reserved(&self, connection: &Connection, block: &Block, size: i64) -> Result<Range<i64>> {
        let path = &self.open.file().path;
        let own = ConnectionSpec::of(connection, path).open_patient(connection)?;
        let timeout = own.busy_timeout()?;
        member::wait(&own, timeout)?;
        // A block that a power cut takes back would be given out again.
        own.exec("PRAGMA main.synchronous = FULL")?;
        begin(&own, timeout)?;
        let position = Position::read(&own)?.filter(|p| p.id == self.open.id());
        let position =
            position.ok_or_else(|| refused("the database names another log, or none"))?;
        let table = [Value::from(self.table.as_str())];
        let (name, column) = (quoted(&self.table), quoted(&self.column));
        if let Some(range) = member::range(&own)? {
            return self.reserved_in(&own, block, size, range, position.seq);
        }
        let mut above = own
            .query_i64(&format!("SELECT max({column}) FROM main.{name}"))?
            .unwrap_or(0)
            .max(block.above)
            // Not those of this process again, even if the table's number was set back.
            .max(block.ids.end - 1)
            .max(0);
        // After a restore, waiting rows can have ids above the database's number.
        if block.last.is_none() {
            above = above.max(
                self.waiting(position.seq, &(0..i64::MAX))
                    .map_err(|e| self.open.failed(e))?,
            );
        }
        let known = "SELECT seq FROM main.sqlite_sequence WHERE name = ?1";
        let known = own.query_row(known, &table)?;
        let number = known
            .as_ref()
            .and_then(|row| row.first()?.as_ref().as_i64());
        let above = above.max(number.unwrap_or(0));
        // A range cannot contain the largest number. It stays unused.
        let last = above.saturating_add(size).min(i64::MAX - 1);
        if last <= above {
            return Err(Error::new(Code::FULL, "the largest possible id is in use"));
        }
        let note = match known {
            Some(_) => "UPDATE main.sqlite_sequence SET seq = ?2 WHERE name = ?1",
            None => "INSERT INTO main.sqlite_sequence(name, seq) VALUES (?1, ?2)",
        };
        let [name] = table;
        own.query_row(note, &[name, Value::Integer(last)])?;
        self.open.sync_failed().record(own.exec("COMMIT"))?;
        Ok(above + 1..last + 1)
    }

    /// Reserves `size` ids of the range of a member, in the transaction of this connection.
    fn reserved_in(
        &self,
        own: &Connection,
        block: &Block,
        size: i64,
        range: Range<i64>,
        position: Seq,
    ) -> Result<Range<i64>> {
        let (name, column) = (quoted(&self.table), quoted(&self.column));
        let (first, end) = (range.start, range.end);
        let rows = own.query_i64(&format!(
            "SELECT max({column}) FROM main.{name} WHERE {column} >= {first} AND {column} < {end}"
        ))?;
        let waiting = match block.last {
            // After a restore, waiting rows can have ids above the reserved ones.
            None => Some(
                self.waiting(position, &range)
                    .map_err(|e| self.open.failed(e))?,
            ),
            Some(_) => None,
        };
        let known = [
            rows,
            member::last(own, &self.table)?,
            waiting,
            Some(block.above),
            Some(block.ids.end - 1),
        ];
        let known = known.into_iter().flatten().filter(|id| range.contains(id));
        let above = known.max().unwrap_or(first - 1);
        let last = above.saturating_add(size).min(end - 1);
        if last <= above {
            return Err(Error::new(Code::FULL, "all ids of this member are in use"));
        }
        member::reserve(own, &self.table, last)?;
        self.open.sync_failed().record(own.exec("COMMIT"))?;
        Ok(above + 1..last + 1)
    }

    /// The largest id within a range of this table's new rows behind a position of the log.
    fn waiting(&self, position: Seq, range: &Range<i64>) -> log::Result<i64> {
        let log = self.open.log();
        let mut largest = 0;
        if log.last()? <= position {
            return Ok(largest);
        }
        let mut reader = log.read_after(position)?;
        while let Some(record) = reader.next()? {
            if record.op != Op::Insert || !record.table.name().eq_ignore_ascii_case(&self.table) {
                continue;
            }
            for row in record.skip..record.rows.len() {
                let id = record.rows.row(row).next().map(from_log);
                let id = id.and_then(|id| id.as_i64()).unwrap_or(0);
                if range.contains(&id) {
                    largest = largest.max(id);
                }
            }
        }
        Ok(largest)
    }
}

/// Begins a transaction with the write lock, and waits for it at most this time.
fn begin(own: &Connection, timeout: Duration) -> Result<()> {
    let retry = Retry::within(timeout).every(TRY_EVERY);
    own.set_busy_timeout(Duration::ZERO)?;
    loop {
        match own.exec("BEGIN IMMEDIATE") {
            Err(e) if e.is_busy() && retry.again() => {}
            begun => {
                own.set_busy_timeout(timeout)?;
                return begun;
            }
        }
    }
}
