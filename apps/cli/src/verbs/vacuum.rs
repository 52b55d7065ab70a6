//! `densite vacuum PATH`

use crate::args::{Common, VacuumArgs};
use crate::ask;
use crate::failure::Outcome;
use crate::gain;
use crate::progress::Bar;
use crate::shown;
use crate::{chroma, out, sqlite};
use densite_tools::chroma::{ChromaVacuum, PrunePlan};
use densite_tools::{Form, VacuumOptions, VacuumPlan, VacuumReport};
use serde_json::{Value, json};
use std::fmt::Write as _;

pub(crate) fn run(common: Common, args: &VacuumArgs) -> Outcome {
    let api = sqlite::api()?;
    let options = VacuumOptions {
        store: args.level.store(),
        wait: args.lock.timeout,
    };
    if let Some(directory) = ChromaVacuum::find(api, &args.path, &options)? {
        return of_chroma(common, args, &options, &directory);
    }
    let bar = Bar::new(common);
    let plan = VacuumPlan::new(api, &args.path, &options)?;
    drop(bar);
    if args.dry_run {
        out::result(common, &planned_json(&plan)?, &planned_text(&plan)?)?;
        return Ok(0);
    }
    plan.check()?;
    if !common.yes {
        let given = args.path.display();
        out::message(
            common,
            &format!("{given}: a vacuum reclaims {}", gain::sentence(plan.gain())),
        );
        ask::consent(common, &format!("Vacuum {given} now?"))?;
    }
    let mut bar = Bar::interruptible(common)?;
    let report = plan.run(&options, None, &mut bar);
    drop(bar);
    let (object, text) = done(common, &report?);
    out::report(common, &object, &text, &is_done(args));
    Ok(0)
}

/// The same for a Chroma directory, whose log is pruned too.
fn of_chroma(
    common: Common,
    args: &VacuumArgs,
    options: &VacuumOptions,
    directory: &ChromaVacuum,
) -> Outcome {
    let plan = directory.vacuum();
    let with_plan = |mut object: Value, plan: &PrunePlan| {
        if let Value::Object(object) = &mut object {
            object.insert("chroma".into(), chroma::json(plan));
        }
        object
    };
    if args.dry_run {
        let object = with_plan(planned_json(plan)?, directory.plan());
        let text = format!("{}{}", chroma::text(directory.plan()), planned_text(plan)?);
        out::result(common, &object, &text)?;
        return Ok(0);
    }
    directory.check()?;
    if !common.yes {
        let given = args.path.display();
        for line in chroma::text(directory.plan()).trim_end().lines() {
            out::message(common, line);
        }
        let reclaims = gain::sentence(plan.gain());
        out::message(
            common,
            &format!(
                "{given}: a vacuum reclaims {reclaims}, plus the space of the deleted rows of the log"
            ),
        );
        ask::consent(common, &format!("Prune and vacuum {given} now?"))?;
    }
    let mut bar = Bar::interruptible(common)?;
    let report = directory.run(options, &mut bar);
    drop(bar);
    let (pruned, report) = report?;
    let (object, text) = done(common, &report);
    let text = if common.quiet {
        text
    } else {
        let folders = match pruned.leftovers.len() as u64 {
            0 => String::new(),
            n => format!(
                "; {} of deleted collections removed, {}",
                out::counted(n, "folder", "folders"),
                out::bytes(chroma::leftover_bytes(&pruned))
            ),
        };
        format!(
            "{}: {} of {} rows of the log pruned{folders}\n{text}",
            shown::path(&pruned.dir),
            out::thousands(pruned.rows),
            out::thousands(pruned.queue_rows),
        )
    };
    out::report(common, &with_plan(object, &pruned), &text, &is_done(args));
    Ok(0)
}

fn planned_json(plan: &VacuumPlan) -> Result<Value, densite_tools::Error> {
    let info = plan.info();
    let mut object = json!({
        "verb": "vacuum",
        "path": info.path.to_string_lossy(),
        "dry_run": true,
        "form": densite_tools::json::form(info.form),
        "chroma": null,
        "bytes_before": info.stored_bytes,
        "available_bytes": plan.available_bytes()?,
    });
    if let Value::Object(object) = &mut object {
        object.extend(densite_tools::json::gain(plan.gain()));
    }
    Ok(object)
}

fn planned_text(plan: &VacuumPlan) -> Result<String, densite_tools::Error> {
    let info = plan.info();
    let mut text = format!(
        "{}: {}\n",
        shown::path(&info.path),
        out::bytes(info.stored_bytes)
    );
    for (name, value) in gain::lines(plan.gain(), info.form == Form::Compressed) {
        let _ = writeln!(text, "  {name}: {value}");
    }
    let available = out::bytes(plan.available_bytes()?);
    let _ = writeln!(text, "  available: {available}");
    Ok(text)
}

fn is_done(args: &VacuumArgs) -> String {
    format!("{}: the vacuum is done", args.path.display())
}

/// The result, as JSON and as text.
fn done(common: Common, report: &VacuumReport) -> (Value, String) {
    let freed = report.freed_bytes();
    let object = densite_tools::json::vacuumed(report);
    let more = |bytes: u64| format!("{} more than before", indicatif::BinaryBytes(bytes));
    let change = match (report.replaced, freed) {
        (false, _) => format!(
            "not changed, because a new file would take {}",
            more(report.written_bytes.saturating_sub(report.bytes_before))
        ),
        (true, 0..) => format!("{} reclaimed", indicatif::BinaryBytes(freed.unsigned_abs())),
        (true, _) => more(freed.unsigned_abs()),
    };
    let text = if common.quiet {
        String::new()
    } else {
        format!(
            "{}: {} to {} on the disk, {change}; {} of {} and {} compared, {:.1} s\n",
            shown::path(&report.path),
            indicatif::BinaryBytes(report.allocated_before),
            indicatif::BinaryBytes(report.allocated_after),
            out::counted(report.rows, "row", "rows"),
            out::counted(report.tables, "table", "tables"),
            out::counted(report.indexes, "index", "indexes"),
            report.elapsed.as_secs_f64(),
        )
    };
    (object, text)
}
