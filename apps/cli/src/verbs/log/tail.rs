//! `densite log tail DB`

use crate::args::{Common, TailArgs};
use crate::failure::{Failure, Outcome};
use crate::shown::{self, shown};
use crate::sqlite;
use densite_ingest::{Entry, entries};
use densite_log::{Error, Log};
use densite_tools::log::Beside;
use serde_json::json;
use std::io::{self, Write};
use std::time::Duration;

/// How long to wait for rows before checking again.
const WAIT: Duration = Duration::from_millis(500);

pub(super) fn run(common: Common, args: &TailArgs) -> Outcome {
    if common.json && args.follow {
        let text = "--json prints one object, but --follow never ends; use only one of them";
        return Err(Failure::Other("usage", 2, text.to_owned(), json!({})));
    }
    let beside = Beside::expect(sqlite::api()?, &args.db)?;
    let log = beside.read()?;
    let failed = |e: Error| beside.failed(&e);
    let after = begin(&log, args).map_err(failed)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut reader = log.read_after(after).map_err(failed)?;
    let mut shown = Vec::new();
    let mut left = if args.follow { u64::MAX } else { args.max };
    while left > 0 {
        let Some(record) = reader.next().map_err(failed)? else {
            if !args.follow {
                break;
            }
            out.flush()?;
            log.wait_after(reader.position(), WAIT).map_err(failed)?;
            continue;
        };
        for entry in entries(&record).take(usize::try_from(left).unwrap_or(usize::MAX)) {
            left -= 1;
            match common.json {
                true => shown.push(object(&entry)),
                false => writeln!(out, "{}", line(&entry))?,
            }
        }
    }
    if common.json {
        let object = json!({
            "verb": "log tail",
            "path": args.db.to_string_lossy(),
            "rows": shown,
        });
        writeln!(out, "{}", shown::json(&object))?;
    }
    out.flush()?;
    Ok(0)
}

/// The row after which the output starts.
fn begin(log: &Log, args: &TailArgs) -> densite_log::Result<u64> {
    if let Some(after) = args.after {
        return Ok(after);
    }
    let status = log.status()?;
    Ok(status.last.saturating_sub(args.max).max(status.first - 1))
}

fn line(entry: &Entry) -> String {
    let what = entry.row.as_ref().unwrap_or(&entry.key);
    let (table, what) = (shown(&entry.table), shown::json_text(what));
    format!("{} {} {table} {what}", entry.seq, entry.op)
}

fn object(entry: &Entry) -> serde_json::Value {
    // The text comes from a JSON library, so parsing cannot fail.
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    json!({
        "seq": entry.seq,
        "table": entry.table,
        "op": entry.op,
        "key": parsed(&entry.key),
        "row": entry.row.as_deref().map(parsed),
    })
}
