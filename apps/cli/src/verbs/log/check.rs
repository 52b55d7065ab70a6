//! `densite log check DB [--repair]`

use super::repair;
use crate::args::{Common, LogCheckArgs};
use crate::failure::Outcome;
use crate::out;
use crate::shown::shown;
use crate::sqlite;
use densite_log::{CheckReport, check};
use densite_tools::log::Beside;
use serde_json::{Value, json};
use std::fmt::Write;

pub(super) fn run(common: Common, args: &LogCheckArgs) -> Outcome {
    let beside = Beside::expect(sqlite::api()?, &args.db)?;
    let report = check(beside.dir.clone(), beside.id).map_err(|e| beside.failed(&e))?;
    let problems = report.problems.iter();
    let problems =
        problems.map(|p| json!({ "segment": p.segment, "offset": p.offset, "problem": p.problem }));
    // For a damaged log the list of damage is more useful.
    let misfit = match report.problems.is_empty() {
        true => beside.figures(sqlite::api()?)?.misfit(),
        false => None,
    };
    if let Some(misfit) = &misfit {
        out::message(common, &format!("{}: {misfit}", args.db.display()));
    }
    let is_ok = report.problems.is_empty();
    let mut object = json!({
        "verb": "log check",
        "path": args.db.to_string_lossy(),
        "directory": beside.path.to_string_lossy(),
        "ok": is_ok,
        "segments": report.segments,
        "batches": report.batches,
        "rows": report.rows,
        "unconfirmed_bytes": report.unconfirmed_bytes,
        "problems": problems.collect::<Vec<_>>(),
        "misfit": misfit,
        "repair": Value::Null,
    });
    let mut text = text(common, &report);
    let code = match (is_ok, args.repair) {
        (true, _) if misfit.is_some() => 5,
        (true, _) => 0,
        (false, false) => {
            text +=
                "densite log check --repair keeps the readable rows, and first prints the losses\n";
            5
        }
        (false, true) => {
            let repaired = repair::run(common, &beside)?;
            object["repair"] = repaired.object;
            text += &repaired.text;
            let done = format!("{}: the log was repaired", args.db.display());
            out::report(common, &object, &text, &done);
            return Ok(0);
        }
    };
    Ok(out::verdict(common, &object, &text, code)?)
}

fn text(common: Common, report: &CheckReport) -> String {
    let mut text = String::new();
    for p in &report.problems {
        let _ = writeln!(
            text,
            "damaged: {}, offset {}: {}",
            shown(&p.segment),
            p.offset,
            shown(&p.problem)
        );
    }
    if report.problems.is_empty() && !common.quiet {
        let _ = writeln!(
            text,
            "ok: {} in {}",
            out::counted(report.rows, "row", "rows"),
            out::counted(report.segments, "segment", "segments")
        );
    }
    text
}
