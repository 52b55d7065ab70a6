//! `densite vacuum PATH`

#[cfg(feature = "chroma")]
mod chroma;

use crate::args::{Common, VacuumArgs};
use crate::ask;
use crate::failure::Outcome;
use crate::gain;
use crate::progress::Bar;
use crate::shown;
use crate::{out, sqlite};
use densite_tools::{Form, VacuumOptions, VacuumPlan, VacuumReport};
use serde_json::{Value, json};
use std::fmt::Write as _;

pub(crate) fn run(common: Common, args: &VacuumArgs) -> Outcome {
    let api = sqlite::api()?;
    let options = VacuumOptions {
        store: args.level.store(),
        wait: args.lock.timeout,
    };
    #[cfg(feature = "chroma")]
    if let Some(code) = chroma::vacuum(common, args, &options)? {
        return Ok(code);
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
