//! Replaces a damaged log by a new one, and keeps the damaged log beside it.

use crate::args::Common;
use crate::ask;
use crate::failure::Failure;
use crate::out;
use crate::shown;
use densite_disk::{Dir, RealDir, exchange};
use densite_log::{Log, LogDir, Lost, Options, Salvage, Salvaged};
use densite_tools::log::Beside;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct Repaired {
    pub(super) object: Value,
    pub(super) text: String,
}

/// Prints the losses, asks, and repairs.
pub(super) fn run(common: Common, beside: &Beside) -> Result<Repaired, Failure> {
    let api = crate::sqlite::api()?;
    let failed = |e: densite_log::Error| Failure::from(beside.failed(&e));
    let io = |e: densite_disk::Error| Failure::from(beside.failed(&e.into()));
    let applied = || beside.applied(api).filter(|a| a.is_same);
    let hold = || {
        let seq = applied().map(|a| a.position.seq);
        Salvage::begin(beside.dir.clone(), beside.id, seq).map_err(failed)
    };
    // The lock is not held while the user thinks about the answer.
    let plan = hold()?.run(None).map_err(failed)?;
    let parent = beside.path.parent().unwrap_or(Path::new("/"));
    let needed = size(&beside.path)?;
    let available = RealDir::new(parent).free_space().map_err(io)?;
    if needed > available {
        let text = format!(
            "{}: a copy of the readable rows needs up to {}, but only {} are free; nothing was done; free some disk space and try again",
            beside.path.display(),
            out::bytes(needed),
            out::bytes(available)
        );
        let details = json!({ "needed_bytes": needed, "available_bytes": available });
        return Err(Failure::Other("no_space", 4, text, details));
    }
    for line in summary(&plan).lines() {
        out::message(common, line);
    }
    let aside = free_name(&beside.path, "-damaged");
    let question = format!(
        "Keep the readable rows, and rename the damaged log to {}?",
        aside.display()
    );
    ask::consent(common, &question)?;
    // The lock is held until the end: a process that waits for the log must find the new one.
    let held = hold()?;
    let new = free_name(&beside.path, "-new");
    let dir = RealDir::new(&new).like(&beside.db).made().map_err(io)?;
    let dir: LogDir = Arc::new(dir);
    let done = held.run(Some(dir.clone())).and_then(|salvaged| {
        // The numbers of rows that are in the database but lost in the log must not be used again.
        let mut options = Options::new(beside.id);
        options.above = applied().map_or(0, |a| a.position.end());
        drop(Log::open(dir, options)?);
        // The database has a log at all times.
        exchange(&beside.path, &new)?;
        Ok(salvaged)
    });
    let salvaged = match done {
        Ok(salvaged) => salvaged,
        Err(e) => {
            // Only the new log is removed. The damaged log is unchanged.
            std::fs::remove_dir_all(&new).ok();
            return Err(failed(e));
        }
    };
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let parent = RealDir::new(parent);
    parent.rename(&name(&new), &name(&aside)).map_err(io)?;
    parent.sync().map_err(io)?;
    drop(held);
    let lost = |l: &Lost| json!({ "first": l.first, "last": l.last, "segment": l.segment, "offset": l.offset, "problem": l.problem });
    Ok(Repaired {
        object: json!({
            "rows": salvaged.rows,
            "transactions": salvaged.transactions,
            "lost": salvaged.lost.iter().map(lost).collect::<Vec<_>>(),
            "state_lost": salvaged.state_lost,
            "rollbacks_lost": salvaged.state_lost,
            "damaged_directory": aside.to_string_lossy(),
        }),
        text: format!(
            "repaired: {} kept; the damaged log is {}\n",
            out::counted(salvaged.rows, "row", "rows"),
            shown::path(&aside)
        ),
    })
}

/// The kept rows and the losses, one line each.
fn summary(plan: &Salvaged) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} in {} can be read",
        out::counted(plan.rows, "row", "rows"),
        out::counted(plan.transactions, "transaction", "transactions")
    );
    for lost in &plan.lost {
        let last = match lost.last {
            Some(last) => last.to_string(),
            None => "the end, which is unknown".to_owned(),
        };
        let _ = writeln!(
            text,
            "lost: rows {} to {last} ({}, offset {}: {})",
            lost.first, lost.segment, lost.offset, lost.problem
        );
    }
    if plan.state_lost {
        text += "lost: subscribers and settings; add the subscribers again\n";
        text += "lost: which transactions were rolled back; their rows that are still in the log come back, also into the database if it has not applied later rows\n";
    }
    text
}

fn size(path: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// The path with a suffix, and with a number if that name is taken, if only by a link to nothing.
fn free_name(path: &Path, ending: &str) -> PathBuf {
    let name = |n: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        if n > 0 {
            name.push(format!("-{n}"));
        }
        PathBuf::from(name)
    };
    let mut free = (0..).map(name).filter(|p| p.symlink_metadata().is_err());
    free.next().unwrap_or_else(|| name(0))
}
