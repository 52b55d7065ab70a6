//! Doing a step on one side.

use std::fs;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OptionalExtension};

use super::digest::Digest;
use super::outcome::{Outcome, code_and_message};
use super::side::{Flavour, Side, is_densite};
use super::step::Action;

/// What a side remembers from one step to another.
#[derive(Default)]
pub(crate) struct Memory {
    /// What the second connection saw when its snapshot began.
    snapshot: Option<Digest>,
    /// Digest of the last step that took one: for the report of a difference.
    pub(crate) digest: Option<Digest>,
}

/// Does it. An error of SQLite's is an answer; `Err` is for what must never be: an unsound
/// database, a snapshot that moved, a store whose check fails.
pub(crate) fn act(side: &mut Side, memory: &mut Memory, action: &Action) -> Result<Outcome, String> {
    memory.digest = None;
    let dir = side.dir().to_owned();
    match action {
        Action::Main(sql) => Ok(Outcome::of_sql(side.main(), sql, &dir)),
        Action::MainAfter { first, sql } => {
            let outcome = Outcome::of_sql(side.main(), first, &dir);
            Ok(if outcome.is_ok() { Outcome::of_sql(side.main(), sql, &dir) } else { outcome })
        }
        Action::Checkpoint(mode) => {
            let found = side.main().query_row(
                &format!("PRAGMA main.wal_checkpoint({mode})"),
                [],
                |r| Ok((r.get::<_, i64>(0)?, r.get::<_, i64>(1)?)),
            );
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
        Action::BlobRead { nth, piece } => {
            Ok(answer(side.main(), blob_read(side.main(), *nth, *piece), &dir))
        }
        Action::BlobWrite { nth, per_mille, len, seed } => {
            let written = blob_write(side.main(), *nth, *per_mille, *len, *seed);
            Ok(answer(side.main(), written, &dir))
        }
        Action::Cursor { query, statement } => {
            let db = side.main();
            Ok(answer(db, cursor(db, query, statement), &dir))
        }
        Action::VacuumInto { sql, plain } => vacuum_into(side, memory, sql, *plain, &dir),
        Action::BackupOut { plain, pages, between } => {
            backup_out(side, memory, *plain, *pages, between.as_deref(), &dir)
        }
        Action::BackupIn { plain, pages } => {
            let source = side.open(copy_name(*plain), !plain).map_err(|e| e.to_string())?;
            let mut main = side.main.take().expect("the main connection is open between steps");
            let done = copy(&source, &mut main, *pages, None);
            side.main = Some(main);
            Ok(answer(side.main(), done, &dir))
        }
        Action::Reopen { settings, check } => reopen(side, memory, settings, *check),
        Action::Digest => {
            let digest = match Digest::of(side.main()) {
                Ok(digest) => digest,
                Err(error) => return Ok(failed(Some(side.main()), &error, &dir)),
            };
            if !digest.is_sound() {
                return Err(format!("the integrity check fails:\n{digest}"));
            }
            let outcome = Outcome::of_text(Some(side.main()), vec![format!("{:016x}", digest.number())]);
            memory.digest = Some(digest);
            Ok(outcome)
        }
    }
}

fn answer(db: &Connection, found: rusqlite::Result<Vec<String>>, dir: &str) -> Outcome {
    match found {
        Ok(text) => Outcome::of_text(Some(db), text),
        Err(error) => failed(Some(db), &error, dir),
    }
}

fn failed(db: Option<&Connection>, error: &rusqlite::Error, dir: &str) -> Outcome {
    let mut outcome = Outcome::of_text(db, Vec::new());
    outcome.fail(error, dir);
    outcome
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
            Ok(Outcome::of_text(None, vec![format!("{:016x}", digest.number())]))
        }
        Err(error) => Ok(failed(None, &error, dir)),
    }
}

fn blob_rows(db: &Connection, nth: usize) -> rusqlite::Result<Vec<i64>> {
    let mut statement =
        db.prepare_cached("SELECT id FROM keep_blobs WHERE length(b) > 0 ORDER BY id LIMIT 2 OFFSET ?1")?;
    let rows = statement.query_map([i64::try_from(nth).unwrap_or(0)], |r| r.get(0))?;
    rows.collect()
}

fn blob_read(db: &Connection, nth: usize, piece: usize) -> rusqlite::Result<Vec<String>> {
    let rows = blob_rows(db, nth)?;
    let mut text = Vec::new();
    let Some(first) = rows.first() else {
        return Ok(text);
    };
    let mut blob = db.blob_open("main", "keep_blobs", "b", *first, true)?;
    for (i, row) in rows.iter().enumerate() {
        if i > 0 {
            blob.reopen(*row)?;
        }
        let mut sum = 0u64;
        let mut at = 0;
        let mut buffer = vec![0; piece];
        while at < blob.len() {
            let read = blob.read_at(&mut buffer, at)?;
            for byte in &buffer[..read] {
                sum = sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
            }
            at += read.max(1);
        }
        text.push(format!("row {row}: {} bytes, sum {sum:x}", blob.len()));
    }
    Ok(text)
}

fn blob_write(db: &Connection, nth: usize, per_mille: usize, len: usize, seed: u64) -> rusqlite::Result<Vec<String>> {
    let rows = blob_rows(db, nth)?;
    let Some(row) = rows.first() else {
        return Ok(Vec::new());
    };
    let mut blob = db.blob_open("main", "keep_blobs", "b", *row, false)?;
    let at = blob.len() * per_mille / 1000;
    let len = len.min(blob.len() - at);
    let bytes: Vec<u8> = (0..len).map(|i| (seed >> (i % 57)) as u8).collect();
    blob.write_at(&bytes, at)?;
    blob.close()?;
    Ok(vec![format!("row {row}: {len} bytes at {at}")])
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

fn vacuum_into(side: &mut Side, memory: &mut Memory, sql: &str, plain: bool, dir: &str) -> Result<Outcome, String> {
    let into = side.path("into.db");
    let mut outcome = Outcome::of_sql(side.main(), sql, dir);
    if outcome.is_ok() {
        check_copy(side, memory, "into.db", plain, &mut outcome)?;
    }
    match fs::remove_file(into) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(format!("remove the copy: {e}")),
    }
    Ok(outcome)
}

pub(crate) fn copy_name(plain: bool) -> &'static str {
    if plain { "copy_plain.db" } else { "copy.db" }
}

fn backup_out(
    side: &mut Side,
    memory: &mut Memory,
    plain: bool,
    pages: i32,
    between: Option<&str>,
    dir: &str,
) -> Result<Outcome, String> {
    let name = copy_name(plain);
    let copied = side.open(name, !plain).and_then(|mut to| copy(side.main(), &mut to, pages, between));
    let mut outcome = answer(side.main(), copied, dir);
    if outcome.is_ok() {
        check_copy(side, memory, name, plain, &mut outcome)?;
    }
    Ok(outcome)
}

/// Steps a backup to its end; what each step answered.
fn copy(from: &Connection, to: &mut Connection, pages: i32, between: Option<&str>) -> rusqlite::Result<Vec<String>> {
    let mut text = Vec::new();
    let backup = Backup::new(from, to)?;
    let mut busy = 0;
    loop {
        let step = backup.step(pages)?;
        let progress = backup.progress();
        text.push(format!("{step:?} {}/{}", progress.remaining, progress.pagecount));
        match step {
            StepResult::Done => return Ok(text),
            StepResult::More => {}
            _ if busy < 3 => busy += 1,
            _ => return Ok(text),
        }
        if text.len() == 1
            && let Some(sql) = between
        {
            let done = from.execute_batch(sql).map_err(|e| code_and_message(&e, "").0);
            text.push(format!("between: {done:?}"));
        }
    }
}

/// Compares a copy of `main` with `main` itself and adds its digest to the answer; on
/// Densite's side, the copy is of the form it was asked for.
fn check_copy(side: &Side, memory: &mut Memory, name: &str, plain: bool, outcome: &mut Outcome) -> Result<(), String> {
    if side.flavour == Flavour::Densite && is_densite(&side.path(name)) == plain {
        return Err(format!("{name} has the wrong form: Densite's where plain was asked for, or the reverse"));
    }
    let copy = side.open(name, !plain).map_err(|e| format!("open {name}: {e}"))?;
    let read = |e: rusqlite::Error| format!("read {name}: {e}");
    let digest = Digest::of(&copy).map_err(read)?;
    if !digest.is_sound() {
        return Err(format!("the integrity check of {name} fails:\n{digest}"));
    }
    // Within a transaction, and while another connection writes, the two may differ.
    if side.main().is_autocommit()
        && let Ok(ours) = Digest::of_rows(side.main())
    {
        let theirs = Digest::of_rows(&copy).map_err(read)?;
        if ours != theirs && outcome.last.as_ref().is_none_or(|l| l.starts_with("Done")) {
            return Err(format!("{name} is not its source:\n{}", ours.difference(&theirs)));
        }
    }
    outcome.first.push(format!("{name}: {:016x}", digest.number()));
    memory.digest = Some(digest);
    Ok(())
}

fn reopen(side: &mut Side, memory: &mut Memory, settings: &str, check: bool) -> Result<Outcome, String> {
    memory.snapshot = None;
    side.second = None;
    if let Some(main) = side.main.take()
        && let Err((_, error)) = main.close()
    {
        return Err(format!("close: {error}"));
    }
    let files = side.files();
    if side.flavour == Flavour::Densite {
        if !is_densite(&side.path("main.db")) {
            return Err("main.db is not a Densite file".to_owned());
        }
        if check {
            check_store(side, "main.db")?;
        }
        side.settings = settings.to_owned();
    }
    side.open_main().map_err(|e| format!("open again with {settings}: {e}"))?;
    let vacant: Option<i64> = side
        .main()
        .query_row("SELECT count(*) FROM keep_blobs", [], |r| r.get(0))
        .optional()
        .map_err(|e| format!("read after opening again with {settings}: {e}"))?;
    let mut text = files;
    text.push(format!("{vacant:?} blobs"));
    Ok(Outcome::of_text(Some(side.main()), text))
}

/// Verifies every frame and the accounting of a file that nobody has open.
pub(crate) fn check_store(side: &Side, name: &str) -> Result<(), String> {
    let path = side.path(name);
    let open = || -> densite_store::Result<densite_store::CheckReport> {
        let file = densite_disk::RealFile::open(&path, densite_disk::OpenMode::Read)?;
        let options = densite_store::Options { read_only: true, threads: 0, ..Default::default() };
        let identity = format!("check {}", path.display());
        let mut handle = densite_store::Handle::open(Box::new(file), &identity, options)?;
        handle.check(&mut |_, _| true)
    };
    let report = open().map_err(|e| format!("check of {name}: {e}"))?;
    if !report.problems.is_empty() || report.cut.is_some() {
        return Err(format!("check of {name}: {:?}, cut: {:?}", report.problems, report.cut));
    }
    if !report.clean {
        return Err(format!("{name} was not closed cleanly"));
    }
    Ok(())
}
