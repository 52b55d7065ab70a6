//! Transactions, settings of the connection, and the second connection.

use super::World;
use crate::model::kind::Kind::{self, *};
use crate::model::step::{Action, Proof, Step};

impl World {
    pub(super) fn session_step(&mut self, kind: Kind) -> Option<Step> {
        let last = |sql: String, wanted: &str| {
            Step::new(kind, Action::Main(sql), Proof::Last(wanted.to_owned()))
        };
        let journal = |mode: &str| last(format!("PRAGMA main.journal_mode = {mode}"), mode);
        let sync = |n: &str| {
            last(
                format!("PRAGMA main.synchronous = {n}; PRAGMA main.synchronous"),
                n,
            )
        };
        Some(match kind {
            Begin => Step::sql(kind, *self.dice.pick(&["BEGIN", "BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])),
            Commit => Step::sql(kind, "COMMIT"),
            Rollback => Step::sql(kind, "ROLLBACK"),
            Savepoint => {
                let name = self.name("s");
                self.savepoints.push(name.clone());
                Step::sql(kind, format!("SAVEPOINT {name}"))
            }
            Release => {
                let at = self.dice.below(self.savepoints.len());
                let name = self.savepoints.get(at)?.clone();
                self.savepoints.truncate(at);
                Step::sql(kind, format!("RELEASE {name}"))
            }
            RollbackTo => {
                let at = self.dice.below(self.savepoints.len());
                let name = self.savepoints.get(at)?.clone();
                self.savepoints.truncate(at + 1);
                Step::sql(kind, format!("ROLLBACK TO {name}"))
            }
            JournalDelete => journal("delete"),
            JournalTruncate => journal("truncate"),
            JournalPersist => journal("persist"),
            JournalMemory => journal("memory"),
            JournalOff => journal("off"),
            JournalWal => journal("wal"),
            SynchronousOff => sync("0"),
            SynchronousNormal => sync("1"),
            SynchronousFull => sync("2"),
            SynchronousExtra => sync("3"),
            // SQLite releases the lock at the next use of the file.
            LockingNormal => last(
                "PRAGMA main.locking_mode = NORMAL; SELECT count(*) FROM main.sqlite_schema; PRAGMA main.locking_mode".to_owned(),
                "normal",
            ),
            LockingExclusive => last(
                "PRAGMA main.locking_mode = EXCLUSIVE; SELECT count(*) FROM main.sqlite_schema; PRAGMA main.locking_mode".to_owned(),
                "exclusive",
            ),
            CheckpointPassive => checkpoint(kind, "PASSIVE"),
            CheckpointFull => checkpoint(kind, "FULL"),
            CheckpointRestart => checkpoint(kind, "RESTART"),
            CheckpointTruncate => checkpoint(kind, "TRUNCATE"),
            AutoCheckpoint => {
                let pages = *self.dice.pick(&[0, 1, 10, 100, 1000]);
                last(format!("PRAGMA wal_autocheckpoint = {pages}"), &pages.to_string())
            }
            CacheTiny => {
                self.may_spill = true;
                let pages = self.dice.between(1, 12).to_string();
                last(format!("PRAGMA main.cache_size = {pages}; PRAGMA main.cache_size"), &pages)
            }
            CacheNormal => {
                // Writes before the commit of the open transaction can already have happened.
                self.may_spill &= self.in_transaction;
                let size = (*self.dice.pick(&["-20000", "9000"])).to_owned();
                let spill = if self.dice.percent(20) { "OFF" } else { "ON" };
                last(format!("PRAGMA main.cache_spill = {spill}; PRAGMA main.cache_size = {size}; PRAGMA main.cache_size"), &size)
            }
            SecureDelete => {
                let mode = *self.dice.pick(&["0", "1", "2"]);
                let word = ["OFF", "ON", "FAST"][mode.parse::<usize>().unwrap_or(0)];
                last(format!("PRAGMA main.secure_delete = {word}; PRAGMA main.secure_delete"), mode)
            }
            UserVersion => {
                let n = self.dice.below(1_000_000).to_string();
                let which = *self.dice.pick(&["user_version", "application_id"]);
                last(format!("PRAGMA main.{which} = {n}; PRAGMA main.{which}"), &n)
            }
            MmapSize => {
                let size = *self.dice.pick(&[0, 65_536, 1 << 20, 1 << 28]);
                // Densite returns 0 because it does not map files. Mapped pages are not in the
                // cache (see `Action::Checkpoint`), so plain SQLite does not map files either.
                let first = format!("PRAGMA main.mmap_size = {size}");
                let plain = "PRAGMA main.mmap_size = 0".to_owned();
                let sql = "SELECT count(*) FROM main.keep_blobs".to_owned();
                Step::new(kind, Action::MainAfter { first, plain, sql }, Proof::Ok)
            }
            SecondRead => {
                let sql = "SELECT count(*), sum(length(b)) FROM keep_blobs; SELECT * FROM keep_log LIMIT 20; PRAGMA page_count";
                Step::new(kind, Action::Second(sql.to_owned()), Proof::Rows)
            }
            SecondWrite => {
                let n = self.dice.below(1000);
                let sql = match self.dice.below(5) {
                    0 => format!("UPDATE keep_blobs SET note = 'second {n}' WHERE id = {} + 1", n % 4),
                    1 => format!("BEGIN; INSERT INTO keep_log VALUES ('second', blob_of({n}, {})); INSERT INTO keep_log VALUES ('more', {n}); COMMIT", self.page_size * 2),
                    2 => {
                        // In WAL mode this connection then checkpoints the frames of the other
                        // connection.
                        let pages = self.dice.below(3);
                        format!("PRAGMA wal_autocheckpoint = {pages}; INSERT INTO keep_log VALUES ('second', {n})")
                    }
                    _ => format!("INSERT INTO keep_log VALUES ('second', {n})"),
                };
                Step::new(kind, Action::Second(sql), Proof::Changes)
            }
            SnapshotBegin => Step::new(kind, Action::SnapshotBegin, Proof::Ok),
            SnapshotRead => Step::new(kind, Action::SnapshotRead, Proof::Ok),
            SnapshotEnd => Step::new(kind, Action::Second("ROLLBACK".to_owned()), Proof::Ok),
            _ => return None,
        })
    }
}

fn checkpoint(kind: Kind, mode: &'static str) -> Step {
    Step::new(kind, Action::Checkpoint(mode), Proof::Checkpoint)
}
