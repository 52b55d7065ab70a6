//! Advice on how to reclaim space, with the commands to run.

use super::text::{escaped, quoted, share, size};
use crate::verbs::gain::time;
use densite_tools::{Form, Info};
use std::fmt::Write as _;
use std::path::Path;

/// A vacuum that frees less than one byte in this many is marked as hardly worth it.
const WORTH: u64 = 20;

pub(super) fn section(info: &Info, page: &mut String) {
    let Some(gain) = &info.gain else { return };
    let path = quoted(&info.path.to_string_lossy());
    page.push_str("<section>\n<h2>How to reclaim it</h2>\n<table class=\"advice\">\n<thead><tr><th>frees</th><th>by</th><th></th></tr></thead>\n<tbody>\n");
    let mut row = |bytes: String, command: &str, what: &str| {
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{bytes}</td><td><code>{}</code></td><td>{what}</td></tr>",
            escaped(command)
        );
    };
    let worth = match gain.reclaimable_bytes * WORTH < info.stored_bytes {
        true => " This is hardly worth it.",
        false => "",
    };
    row(
        format!("about {}", size(gain.reclaimable_bytes),),
        &format!("densite vacuum {path}"),
        &format!(
            "{} of the file. It takes about {} and needs up to {} beside the file; no other program can use the database meanwhile.{worth}",
            share(gain.reclaimable_bytes, info.stored_bytes),
            time(gain.seconds),
            size(gain.needed_bytes),
        ),
    );
    let maintained = info.stored_bytes.saturating_sub(gain.maintained_bytes);
    if maintained > 0 {
        row(
            format!("about {}", size(maintained)),
            &format!("densite sql {path} 'PRAGMA densite_maintain'"),
            "happens by itself when a program has the database open and is idle, or closes it last. Other programs can use it meanwhile.",
        );
    }
    if info.form == Form::Plain {
        row(
            "most of the rest".into(),
            &format!("densite compress {path}"),
            "compresses it, typically to between a third and a seventh; programs then open it through Densite.",
        );
    }
    if info.wal_bytes > 0 {
        row(
            size(info.wal_bytes),
            &format!("densite sql {path} 'PRAGMA wal_checkpoint(TRUNCATE)'"),
            "writes the WAL into the file and empties it, if no reader needs it.",
        );
    }
    for left in &info.leftovers {
        let bytes = std::fs::metadata(left).map_or(0, |m| m.len());
        let name: &Path = left;
        row(
            size(bytes),
            &format!("rm {}", quoted(&name.to_string_lossy())),
            "was left by an interrupted run or belongs to one that is still running.",
        );
    }
    page.push_str("</tbody>\n</table>\n</section>\n");
}
