//! Copies of the main database: VACUUM INTO and the backup API.

use std::fs;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::digest::{Digest, Memory};
use super::outcome::{Outcome, answer, code_and_message};
use super::side::{Flavour, Side, is_densite};

pub(crate) fn copy_name(plain: bool) -> &'static str {
    if plain { "copy_plain.db" } else { "copy.db" }
}

pub(crate) fn vacuum_into(
    side: &mut Side,
    memory: &mut Memory,
    sql: &str,
    plain: bool,
    dir: &str,
) -> Result<Outcome, String> {
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

pub(crate) fn backup_out(
    side: &mut Side,
    memory: &mut Memory,
    plain: bool,
    pages: i32,
    between: Option<&str>,
    dir: &str,
) -> Result<Outcome, String> {
    let name = copy_name(plain);
    let copied = side
        .open(name, !plain)
        .and_then(|mut to| copy(side.main(), &mut to, pages, between));
    let mut outcome = answer(side.main(), copied, dir);
    if outcome.is_ok() {
        check_copy(side, memory, name, plain, &mut outcome)?;
    }
    Ok(outcome)
}

/// Copies a file made by [`backup_out`] over the main database.
pub(crate) fn backup_in(
    side: &mut Side,
    plain: bool,
    pages: i32,
    dir: &str,
) -> Result<Outcome, String> {
    let source = side
        .open(copy_name(plain), !plain)
        .map_err(|e| format!("open the copy: {e}"))?;
    let mut main = side
        .main
        .take()
        .expect("the main connection is open between steps");
    let done = copy(&source, &mut main, pages, None);
    side.main = Some(main);
    Ok(answer(side.main(), done, dir))
}

/// Steps a backup to its end. Returns the result of each step.
fn copy(
    from: &Connection,
    to: &mut Connection,
    pages: i32,
    between: Option<&str>,
) -> rusqlite::Result<Vec<String>> {
    let mut text = Vec::new();
    let backup = Backup::new(from, to)?;
    let mut busy = 0;
    loop {
        let step = backup.step(pages)?;
        let progress = backup.progress();
        text.push(format!(
            "{step:?} {}/{}",
            progress.remaining, progress.pagecount
        ));
        match step {
            StepResult::Done => return Ok(text),
            StepResult::More => {}
            _ if busy < 3 => busy += 1,
            _ => return Ok(text),
        }
        if text.len() == 1
            && let Some(sql) = between
        {
            let done = from
                .execute_batch(sql)
                .map_err(|e| code_and_message(&e, "").0);
            text.push(format!("between: {done:?}"));
        }
    }
}

/// Compares a copy of `main` with `main`, and adds its digest to the outcome. For Densite, also
/// checks that the copy has the requested form.
fn check_copy(
    side: &Side,
    memory: &mut Memory,
    name: &str,
    plain: bool,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let path = side.path(name);
    // A backup that was busy until its end can leave an empty file.
    let is_empty = std::fs::metadata(&path).is_ok_and(|file| file.len() == 0);
    if side.flavour == Flavour::Densite && !is_empty && is_densite(&path) == plain {
        return Err(format!(
            "{name} has the wrong form: Densite's where plain was asked for, or the reverse"
        ));
    }
    let copy = side
        .open(name, !plain)
        .map_err(|e| format!("open {name}: {e}"))?;
    let done = outcome.first.clone();
    let read = |e: rusqlite::Error| format!("read {name}: {e}; it was made so: {done:?}");
    let digest = Digest::of(&copy).map_err(read)?;
    if !digest.is_sound() {
        return Err(format!("the integrity check of {name} fails:\n{digest}"));
    }
    // In a transaction, or while another connection writes, the two can differ.
    if side.main().is_autocommit()
        && let Ok(ours) = Digest::of_rows(side.main())
    {
        let theirs = Digest::of_rows(&copy).map_err(read)?;
        if ours != theirs && outcome.last.as_ref().is_none_or(|l| l.starts_with("Done")) {
            return Err(format!(
                "{name} is not its source:\n{}",
                ours.difference(&theirs)
            ));
        }
    }
    outcome
        .first
        .push(format!("{name}: {:016x}", digest.number()));
    memory.digest = Some(digest);
    Ok(())
}
