//! What to do with a database, in five lines: for `advise`, and for the page of `report`.

use crate::gain::time;
use crate::out;
use densite_tools::{AutoVacuum, Error, Estimate, Form, Info, JournalMode};
use indicatif::BinaryBytes;

/// A vacuum or a compression that saves less than one byte in this many is not advised.
const WORTH: u64 = 20;
/// A WAL of more bytes is advised to be checkpointed.
const WAL_LARGE: u64 = 64 << 20;
/// The page sizes that suit most databases.
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 4096..=16384;

/// One line of advice.
pub(crate) struct Line {
    /// The stable name of the subject.
    pub(crate) about: &'static str,
    pub(crate) text: String,
    /// What to run; `None` if nothing is to be done.
    pub(crate) command: Option<String>,
    /// Bytes that the command saves, if that is its purpose.
    pub(crate) saves: Option<u64>,
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

fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// The five lines. `estimate` is that of `compress`, for a plain file.
pub(crate) fn lines(info: &Info, estimate: Option<&Result<Estimate, Error>>) -> Vec<Line> {
    let path = quoted(&info.path.to_string_lossy());
    let mut lines = vec![
        compression(info, estimate, &path),
        vacuum(info, &path),
        journal(info, &path),
        page_size(info, &path),
        reclaiming(info, &path),
    ];
    if info.remote.is_some() {
        // Nothing can be written there.
        lines.iter_mut().for_each(|line| line.command = None);
    }
    lines
}

/// Quotes a word for the shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        return word.to_string();
    }
    let word = word.replace('\'', "'\\''");
    match word.starts_with('-') {
        true => format!("'./{word}'"),
        false => format!("'{word}'"),
    }
}

fn compression(info: &Info, estimate: Option<&Result<Estimate, Error>>, path: &str) -> Line {
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
        (Form::Plain, _) if info.program.is_some() => Line::fine(
            ABOUT,
            format!(
                "plain, {size}: {} opens it with a SQLite of its own, and could not open it compressed",
                info.program.unwrap_or_default()
            ),
        ),
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
        (Form::Plain, None) => Line::fine(
            ABOUT,
            format!("plain, {size}: what compressing would bring was not measured"),
        ),
        _ => Line::fine(ABOUT, "the database is empty".to_owned()),
    }
}

fn vacuum(info: &Info, path: &str) -> Line {
    const ABOUT: &str = "vacuum";
    if info.remote.is_some() {
        let text = "a database at a URL cannot be vacuumed: vacuum the file, and publish it again";
        return Line::fine(ABOUT, text.to_owned());
    }
    if info.page_size == 0 {
        return Line::fine(ABOUT, "there is nothing to free".to_owned());
    }
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
    if info.remote.is_some() {
        let text = "a database at a URL is only read, so its journal mode does not matter";
        return Line::fine(ABOUT, text.to_owned());
    }
    match info.journal_mode {
        JournalMode::Wal => Line::fine(
            ABOUT,
            format!(
                "WAL mode, with a WAL of {}: readers and a writer do not wait for each other",
                BinaryBytes(info.wal_bytes)
            ),
        ),
        JournalMode::Rollback if info.program.is_some() => {
            Line::fine(ABOUT, "rollback mode, which its program chose".to_owned())
        }
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
        _ if size == 0 => Line::fine(ABOUT, "there are no pages yet".to_owned()),
        (true, _) => Line::fine(ABOUT, format!("{pages} pages of {size} bytes, a good size")),
        (false, Form::Plain) if info.program.is_some() => Line::fine(
            ABOUT,
            format!("{pages} pages of {size} bytes, which its program chose"),
        ),
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

fn reclaiming(info: &Info, path: &str) -> Line {
    const ABOUT: &str = "auto_vacuum";
    if info.page_size == 0 {
        return Line::fine(ABOUT, "there are no free pages".to_owned());
    }
    let bytes = BinaryBytes(info.free_pages * u64::from(info.page_size));
    let free = format!("{} free pages ({bytes})", out::thousands(info.free_pages));
    match (info.auto_vacuum, info.form) {
        (AutoVacuum::None, Form::Compressed) => Line::fine(
            ABOUT,
            format!(
                "auto_vacuum is off, which is best here: Densite itself reclaims space; {free}"
            ),
        ),
        (AutoVacuum::None, _) => Line::fine(
            ABOUT,
            format!("{free} are reused; auto_vacuum is off, so only a vacuum returns them"),
        ),
        (_, Form::Compressed) => Line::advice(
            ABOUT,
            format!("auto_vacuum is on, which costs writes and brings nothing here; {free}"),
            format!("densite sql {path} 'PRAGMA auto_vacuum=NONE; VACUUM'"),
        ),
        (AutoVacuum::Full, _) => Line::fine(ABOUT, format!("auto_vacuum is full; {free}")),
        (AutoVacuum::Incremental, _) => {
            Line::fine(ABOUT, format!("auto_vacuum is incremental; {free}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_stay_words() {
        assert_eq!(quoted("/a/b-c.db"), "/a/b-c.db");
        assert_eq!(quoted("a b.db"), "'a b.db'");
        assert_eq!(quoted("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!(quoted("-rf"), "'./-rf'");
        assert_eq!(quoted(""), "''");
    }
}
