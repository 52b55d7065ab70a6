//! `densite advise DB`: what to do with a database, in five lines, with the figures of `info` and
//! an estimate by a sample.

use crate::args::{Common, DbArg};
use crate::exit::exit_code;
use crate::failure::{Failure, Outcome};
use crate::progress::Bar;
use crate::shown;
use crate::sql::failure::{At, failure};
use crate::sql::open::{Access, open};
use crate::verbs::gain::time;
use crate::{out, sqlite};
use densite_tools::{Error, Estimate, Form, Info, JournalMode};
use indicatif::BinaryBytes;
use serde_json::{Value, json};
use std::path::Path;

/// A vacuum or a compression that saves less than one byte in this many is not advised.
const WORTH: u64 = 20;
/// A WAL of more bytes is advised to be checkpointed.
const WAL_LARGE: u64 = 64 << 20;
/// The page sizes that suit most databases.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 4096..=16384;

/// One line of advice.
struct Line {
    /// The stable name of the subject.
    about: &'static str,
    text: String,
    /// What to run; `None` if nothing is to be done.
    command: Option<String>,
    /// Bytes that the command saves, if that is its purpose.
    saves: Option<u64>,
}

impl Line {
    fn fine(about: &'static str, text: String) -> Line {
        Line {
            about,
            text,
            command: None,
            saves: None,
        }
    }

    fn advice(about: &'static str, text: String, command: String) -> Line {
        Line {
            command: Some(command),
            ..Line::fine(about, text)
        }
    }

    fn saves(self, bytes: u64) -> Line {
        Line {
            saves: Some(bytes),
            ..self
        }
    }
}

pub(crate) fn run(common: Common, args: &DbArg) -> Outcome {
    let api = sqlite::api()?;
    let mut bar = Bar::interruptible(common)?;
    let info = densite_tools::info(api, &args.db)?;
    let estimate = match info.form {
        Form::Plain => Some(densite_tools::estimate(api, &args.db, &mut bar)),
        Form::Compressed | Form::Empty => None,
    };
    bar.rest();
    let estimate = match estimate {
        Some(Err(e @ Error::Interrupted { .. })) => return Err(e.into()),
        Some(Err(e)) if exit_code(&e) == 5 => return Err(e.into()),
        other => other,
    };
    let auto_vacuum = match info.form {
        Form::Empty => 0,
        _ => auto_vacuum(&args.db)?,
    };
    let lines = lines(&info, estimate.as_ref().map(Result::as_ref), auto_vacuum);
    let advice = |line: &Line| json!({ "about": line.about, "text": line.text, "command": line.command, "saves_bytes": line.saves });
    let object = json!({
        "verb": "advise",
        "path": info.path.to_string_lossy(),
        "form": densite_tools::json::form(info.form),
        "stored_bytes": info.stored_bytes,
        "compressed_bytes": compressed_bytes(estimate.as_ref().map(Result::as_ref)),
        "advice": lines.iter().map(advice).collect::<Vec<Value>>(),
    });
    let text: String = lines
        .iter()
        .map(|line| {
            let mark = if line.command.is_some() { "→" } else { "·" };
            let command = line.command.as_ref();
            let command = command.map_or(String::new(), |c| format!(": {}", shown::shown(c)));
            format!("{mark} {}{command}\n", line.text)
        })
        .collect();
    out::result(common, &object, &text)?;
    Ok(0)
}

fn compressed_bytes(estimate: Option<Result<&Estimate, &Error>>) -> Option<u64> {
    estimate?.ok().map(|estimate| estimate.compressed_bytes)
}

/// The setting in the file: 0 none, 1 full, 2 incremental.
fn auto_vacuum(path: &Path) -> Result<i64, Failure> {
    let name = path.to_string_lossy();
    let db = open(&name, Access::Existing)?;
    let value = db.query_row("PRAGMA auto_vacuum", [], |row| row.get(0));
    value.map_err(|e| failure(&name, At::Database, &e))
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", 100.0 * part as f64 / whole.max(1) as f64)
}

fn lines(info: &Info, estimate: Option<Result<&Estimate, &Error>>, auto_vacuum: i64) -> Vec<Line> {
    let path = quoted(&info.path.to_string_lossy());
    vec![
        compression(info, estimate, &path),
        vacuum(info, &path),
        journal(info, &path),
        page_size(info, &path),
        reclaiming(info, auto_vacuum, &path),
    ]
}

/// A word of a command line.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-:+@%,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

fn compression(info: &Info, estimate: Option<Result<&Estimate, &Error>>, path: &str) -> Line {
    const ABOUT: &str = "compress";
    let size = BinaryBytes(info.stored_bytes);
    match (info.form, estimate) {
        (Form::Compressed, _) => {
            let logical = BinaryBytes(info.logical_bytes);
            let share = percent(info.stored_bytes, info.logical_bytes);
            Line::fine(
                ABOUT,
                format!("compressed: {logical} take {size} ({share})"),
            )
        }
        (Form::Plain, Some(Ok(estimate))) => {
            let small = estimate.compressed_bytes;
            let text = format!(
                "plain, {size}: compressed about {} ({}), by a sample of {}",
                BinaryBytes(small),
                percent(small, info.stored_bytes),
                BinaryBytes(estimate.sampled_bytes),
            );
            match small + info.stored_bytes / WORTH < info.stored_bytes {
                true => Line::advice(ABOUT, text, format!("densite compress {path}"))
                    .saves(info.stored_bytes - small),
                false => Line::fine(ABOUT, format!("{text}, which is hardly worth it")),
            }
        }
        (Form::Plain, Some(Err(e))) => Line::fine(
            ABOUT,
            format!("plain, {size}: what compressing would bring is unknown: {e}"),
        ),
        _ => Line::fine(ABOUT, "the database is empty".to_owned()),
    }
}

fn vacuum(info: &Info, path: &str) -> Line {
    const ABOUT: &str = "vacuum";
    let Some(gain) = &info.gain else {
        let why = info.objects_problem.as_deref().unwrap_or("it has no pages");
        return Line::fine(
            ABOUT,
            format!("what a vacuum would bring is unknown: {why}"),
        );
    };
    let text = format!(
        "a vacuum frees about {} ({}) in about {}",
        BinaryBytes(gain.reclaimable_bytes),
        percent(gain.reclaimable_bytes, info.stored_bytes),
        time(gain.seconds),
    );
    match gain.reclaimable_bytes * WORTH < info.stored_bytes {
        true => Line::fine(ABOUT, format!("{text}, which is hardly worth it")),
        false => Line::advice(ABOUT, text, format!("densite vacuum {path}"))
            .saves(gain.reclaimable_bytes),
    }
}

fn journal(info: &Info, path: &str) -> Line {
    const ABOUT: &str = "journal_mode";
    if info.wal_bytes > WAL_LARGE {
        let wal = BinaryBytes(info.wal_bytes);
        let readers = match info.wal_readers.len() {
            0 => String::new(),
            n => format!(", which {n} processes read"),
        };
        let text = format!("the WAL has {wal}{readers}");
        let command = format!("densite sql {path} 'PRAGMA wal_checkpoint(TRUNCATE)'");
        return Line::advice(ABOUT, text, command).saves(info.wal_bytes);
    }
    match info.journal_mode {
        JournalMode::Wal => Line::fine(
            ABOUT,
            format!(
                "WAL mode, with a WAL of {}: readers and a writer do not wait for each other",
                BinaryBytes(info.wal_bytes)
            ),
        ),
        JournalMode::Rollback => Line::advice(
            ABOUT,
            "rollback mode: with several programs, or many small commits, WAL is faster".to_owned(),
            format!("densite sql {path} 'PRAGMA journal_mode=WAL'"),
        ),
    }
}

fn page_size(info: &Info, path: &str) -> Line {
    const ABOUT: &str = "page_size";
    let size = info.page_size;
    let pages = out::thousands(info.pages);
    match (PAGE_SIZES.contains(&size), info.form) {
        _ if size == 0 => Line::fine(ABOUT, "it has no pages yet".to_owned()),
        (true, _) => Line::fine(ABOUT, format!("{pages} pages of {size} bytes, a good size")),
        (false, Form::Plain) => Line::advice(
            ABOUT,
            format!("{pages} pages of {size} bytes; 4096 suit most databases"),
            format!("densite compress --page-size 4096 {path}"),
        ),
        (false, _) => Line::advice(
            ABOUT,
            format!("{pages} pages of {size} bytes; 4096 suit most databases"),
            format!("densite decompress {path} && densite compress --page-size 4096 {path}"),
        ),
    }
}

fn reclaiming(info: &Info, auto_vacuum: i64, path: &str) -> Line {
    const ABOUT: &str = "auto_vacuum";
    let free = match info.page_size {
        0 => String::new(),
        size => {
            let bytes = BinaryBytes(info.free_pages * u64::from(size));
            format!("{} free pages ({bytes})", out::thousands(info.free_pages))
        }
    };
    match (auto_vacuum, info.form) {
        (0, Form::Compressed) => Line::fine(
            ABOUT,
            format!("{free} take no space: Densite reclaims it, auto_vacuum is off"),
        ),
        (0, _) => Line::fine(
            ABOUT,
            format!("{free} are reused; auto_vacuum is off, so only a vacuum returns them"),
        ),
        (_, Form::Compressed) => Line::advice(
            ABOUT,
            format!("auto_vacuum is on, which costs writes and brings nothing here; {free}"),
            format!("densite sql {path} 'PRAGMA auto_vacuum=NONE; VACUUM'"),
        ),
        (mode, _) => Line::fine(
            ABOUT,
            format!(
                "auto_vacuum is {}; {free}",
                if mode == 1 { "full" } else { "incremental" }
            ),
        ),
    }
}
