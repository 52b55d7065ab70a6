//! Writes steps: from a kind of operation and the current state to SQL.

mod attached;
mod files;
mod rows;
mod schema;
mod search;
mod session;
mod values;

use super::catalog::{Catalog, Table};
use super::dice::Dice;
use super::kind::Kind;
use super::kind::Kind::*;
use super::step::Step;

/// The journal mode of `main`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journal {
    Delete,
    Truncate,
    Persist,
    Memory,
    Off,
    Wal,
}

impl Journal {
    pub(crate) fn named(name: &str) -> Option<Journal> {
        Some(match name {
            "delete" => Journal::Delete,
            "truncate" => Journal::Truncate,
            "persist" => Journal::Persist,
            "memory" => Journal::Memory,
            "off" => Journal::Off,
            "wal" => Journal::Wal,
            _ => return None,
        })
    }
}

/// The state of the databases, which is the same on both sides.
pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) catalog: Catalog,
    /// The page size of the run.
    pub(crate) home_page_size: usize,
    pub(crate) page_size: usize,
    pub(crate) page_count: usize,
    pub(crate) auto_vacuum: i64,
    pub(crate) journal: Journal,
    pub(crate) exclusive: bool,
    pub(crate) in_transaction: bool,
    pub(crate) savepoints: Vec<String>,
    pub(crate) second_open: bool,
    pub(crate) snapshot: bool,
    pub(crate) attached: bool,
    pub(crate) attached_plain: bool,
    /// Whether the cache of the main connection is so small that a transaction can write before its
    /// commit. The time of such a write depends on the content of the cache (see
    /// `Action::Checkpoint`), and in rollback mode it locks readers out.
    pub(crate) may_spill: bool,
    /// Whether there is a copy made with the backup API, in the form of the side or plain.
    pub(crate) copy: bool,
    pub(crate) copy_plain: bool,
    /// Number of names given so far.
    pub(crate) names: usize,
}

impl World {
    pub(crate) fn new(seed: u64, page_size: usize) -> World {
        World {
            dice: Dice::new(seed),
            catalog: Catalog::default(),
            home_page_size: page_size,
            page_size,
            page_count: 0,
            auto_vacuum: 0,
            journal: Journal::Delete,
            exclusive: false,
            in_transaction: false,
            savepoints: Vec::new(),
            second_open: false,
            snapshot: false,
            attached: false,
            attached_plain: false,
            may_spill: false,
            copy: false,
            copy_plain: false,
            names: 0,
        }
    }

    /// A new name.
    pub(crate) fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Whether a reader holds a lock that blocks a commit of the main connection.
    pub(crate) fn reader_in_the_way(&self) -> bool {
        self.snapshot && self.journal != Journal::Wal
    }

    /// Whether the databases are larger than a run needs.
    pub(crate) fn is_large(&self) -> bool {
        self.page_count * self.page_size > (1 << 20) + 60 * self.page_size
    }

    /// One of the tables in main or, sometimes, in an attached database.
    fn any_table(&mut self, letters: &str) -> Option<Table> {
        let mut schemas = vec!["main"; 4];
        if self.attached {
            schemas.push("aux");
        }
        if self.attached_plain {
            schemas.push("auxp");
        }
        let schema = *self.dice.pick(&schemas);
        let letters = if schema == "main" { letters } else { "a" };
        let found = self.catalog.of(schema, letters);
        let at = self.dice.below(found.len());
        found.get(at).map(|t| (*t).clone())
    }

    fn main_table(&mut self, letters: &str) -> Option<Table> {
        let found = self.catalog.of("main", letters);
        let at = self.dice.below(found.len());
        found.get(at).map(|t| (*t).clone())
    }

    /// The first statements of a run.
    pub(crate) fn first_sql(&self) -> String {
        format!(
            "PRAGMA page_size = {};
             CREATE TABLE keep_unique(id INTEGER PRIMARY KEY, k TEXT UNIQUE, v);
             CREATE TABLE keep_blobs(id INTEGER PRIMARY KEY, b BLOB NOT NULL, note TEXT);
             CREATE TABLE keep_log(what TEXT, n);
             CREATE VIRTUAL TABLE fts_keep USING fts5(title, body);
             CREATE VIRTUAL TABLE rt_keep USING rtree(id, x0, x1, y0, y1, +label);
             INSERT INTO keep_blobs VALUES (1, zeroblob(10000), 'zeros'), (2, blob_of(3, 3000), 'noise'),
                 (3, blob_of(9, 200), 'short'), (4, blob_of(5, 30011), 'long');",
            self.home_page_size
        )
    }

    /// A step of that kind, or `None` if no object exists for it.
    pub(crate) fn step(&mut self, kind: Kind) -> Option<Step> {
        match kind {
            CreateTable | CreateWithoutRowid | CreateGenerated | CreateTableAs | DropTable
            | RenameTable | AddColumn | RenameColumn | DropColumn | CreateIndex | DropIndex
            | Reindex | Analyze | CreateView | DropView | CreateTrigger | DropTrigger => {
                self.schema_step(kind)
            }
            Insert | InsertMany | InsertSelect | InsertOverflow | Upsert | Replace | Update
            | UpdateMany | UpdateOverflow | Delete | DeleteAll | ConstraintFails | Query | Join
            | CursorWhileWriting | BlobRead | BlobWrite => self.rows_step(kind),
            FtsCreate | FtsDrop | FtsInsert | FtsUpdate | FtsDelete | FtsQuery | FtsMaintain
            | RtreeInsert | RtreeUpdate | RtreeDelete | RtreeQuery => self.search_step(kind),
            Vacuum
            | VacuumPageSize
            | VacuumInto
            | VacuumIntoPlain
            | BackupOut
            | BackupOutPlain
            | BackupIn
            | BackupInPlain
            | AutoVacuumNone
            | AutoVacuumFull
            | AutoVacuumIncremental
            | IncrementalVacuum
            | Reopen
            | Digest => Some(self.file_step(kind)),
            Attach | AttachPlain | Detach | CrossCommit | CrossRollback | TempCreate
            | TempWrite | TempDrop => self.attached_step(kind),
            Begin | Commit | Rollback | Savepoint | Release | RollbackTo | JournalDelete
            | JournalTruncate | JournalPersist | JournalMemory | JournalOff | JournalWal
            | SynchronousOff | SynchronousNormal | SynchronousFull | SynchronousExtra
            | LockingNormal | LockingExclusive | CheckpointPassive | CheckpointFull
            | CheckpointRestart | CheckpointTruncate | AutoCheckpoint | CacheTiny | CacheNormal
            | SecureDelete | UserVersion | MmapSize | SecondRead | SecondWrite | SnapshotBegin
            | SnapshotRead | SnapshotEnd => self.session_step(kind),
        }
    }
}
