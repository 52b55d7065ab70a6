//! Executes a step on one side.

use rusqlite::Connection;

use super::blobs::{blob_read, blob_write};
use super::copies::{backup_in, backup_out, vacuum_into};
use super::digest::{Digest, Memory};
use super::outcome::{Outcome, answer, failed};
use super::reopen::reopen;
use super::side::{Flavour, Side};
use super::step::Action;

/// Executes a step. An error of SQLite is a normal outcome. `Err` means that a check failed: an
/// unsound database, a snapshot that changed, or damage in the store.
pub(crate) fn act(
    side: &mut Side,
    memory: &mut Memory,
    action: &Action,
) -> Result<Outcome, String> {
    memory.digest = None;
    let dir = side.dir().to_owned();
    match action {
        Action::Main(sql) => Ok(Outcome::of_sql(side.main(), sql, &dir)),
        Action::MainAfter { first, plain, sql } => {
            let first = if side.flavour == Flavour::Plain {
                plain
            } else {
                first
            };
            let outcome = Outcome::of_sql(side.main(), first, &dir);
            Ok(if outcome.is_ok() {
                Outcome::of_sql(side.main(), sql, &dir)
            } else {
                outcome
            })
        }
        Action::Checkpoint(mode) => {
            let found =
                side.main()
                    .query_row(&format!("PRAGMA main.wal_checkpoint({mode})"), [], |r| {
                        Ok((r.get::<_, i64>(0)?, r.get::<_, i64>(1)?))
                    });
            let text = found.map(|found| match found {
                (0, -1) => "no WAL",
                (0, _) => "done",
                _ => "busy",
            });
            Ok(answer(side.main(), text.map(|t| vec![t.to_owned()]), &dir))
        }
        Action::Second(sql) => match side.second() {
            Ok(db) => Ok(Outcome::of_sql(db, sql, &dir)),
            Err(error) => Ok(failed(None, &error, &dir)),
        },
        Action::CloseSecond => {
            memory.snapshot = None;
            side.second = None;
            Ok(Outcome::default())
        }
        Action::SnapshotBegin => snapshot_begin(side, memory, &dir),
        Action::SnapshotRead => snapshot_read(side, memory, &dir),
        Action::BlobRead { nth, piece } => Ok(answer(
            side.main(),
            blob_read(side.main(), *nth, *piece),
            &dir,
        )),
        Action::BlobWrite {
            nth,
            per_mille,
            len,
            seed,
        } => {
            let written = blob_write(side.main(), *nth, *per_mille, *len, *seed);
            Ok(answer(side.main(), written, &dir))
        }
        Action::Cursor { query, statement } => {
            let db = side.main();
            Ok(answer(db, cursor(db, query, statement), &dir))
        }
        Action::VacuumInto { sql, plain } => vacuum_into(side, memory, sql, *plain, &dir),
        Action::BackupOut {
            plain,
            pages,
            between,
        } => backup_out(side, memory, *plain, *pages, between.as_deref(), &dir),
        Action::BackupIn { plain, pages } => backup_in(side, *plain, *pages, &dir),
        Action::Reopen {
            settings,
            keep_second,
            check,
        } => reopen(side, memory, settings, *keep_second, *check),
        Action::Digest => {
            let digest = match Digest::of(side.main()) {
                Ok(digest) => digest,
                Err(error) => return Ok(failed(Some(side.main()), &error, &dir)),
            };
            if !digest.is_sound() {
                return Err(format!("the integrity check fails:\n{digest}"));
            }
            let outcome =
                Outcome::of_text(Some(side.main()), vec![format!("{:016x}", digest.number())]);
            memory.digest = Some(digest);
            Ok(outcome)
        }
    }
}

fn snapshot_begin(side: &mut Side, memory: &mut Memory, dir: &str) -> Result<Outcome, String> {
    let begun = side.second().and_then(|db| {
        db.execute_batch("BEGIN")?;
        let seen = Digest::of(db);
        if seen.is_err() {
            db.execute_batch("ROLLBACK")?;
        }
        seen
    });
    match begun {
        Ok(digest) => {
            let outcome = Outcome::of_text(None, vec![format!("{:016x}", digest.number())]);
            memory.snapshot = Some(digest.clone());
            memory.digest = Some(digest);
            Ok(outcome)
        }
        Err(error) => Ok(failed(None, &error, dir)),
    }
}

fn snapshot_read(side: &mut Side, memory: &mut Memory, dir: &str) -> Result<Outcome, String> {
    match side.second().and_then(Digest::of) {
        Ok(digest) => {
            if let Some(first) = &memory.snapshot
                && *first != digest
            {
                return Err(format!("a snapshot moved:\n{}", first.difference(&digest)));
            }
            Ok(Outcome::of_text(
                None,
                vec![format!("{:016x}", digest.number())],
            ))
        }
        Err(error) => Ok(failed(None, &error, dir)),
    }
}

fn cursor(db: &Connection, query: &str, statement: &str) -> rusqlite::Result<Vec<String>> {
    let mut text = Vec::new();
    let mut reading = db.prepare(query)?;
    let mut rows = reading.query([])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let changed = db.execute(&statement.replace('?', &id.to_string()), [])?;
        text.push(format!("{id}: {changed}"));
    }
    Ok(text)
}
