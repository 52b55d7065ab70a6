//! The output of `compress`, `decompress` and `publish`.

use crate::args::Common;
use crate::failure::Failure;
use crate::out;
use crate::shown;
use densite_tools::{ConvertReport, Error};
use serde_json::json;
use std::path::Path;

/// A file that already has the requested form is not changed, and this is not a failure. With a
/// separate destination it is one, because the destination was not created.
pub(super) fn tell(
    common: Common,
    verb: &str,
    dst: Option<&Path>,
    report: densite_tools::Result<ConvertReport>,
) -> Result<(), Failure> {
    match report {
        Ok(report) => print(common, verb, &report),
        Err(e @ (Error::AlreadyCompressed { .. } | Error::AlreadyPlain { .. }))
            if dst.is_none() =>
        {
            let path = e.path().map(Path::to_string_lossy);
            let object =
                json!({ "verb": verb, "source": path, "destination": path, "already": true });
            out::report(common, &object, "", &e.to_string());
            out::message(common, &e.to_string());
        }
        Err(e) => return Err(e.into()),
    }
    Ok(())
}

/// What became of the size.
fn change(ratio: f64) -> String {
    match ratio {
        larger if larger > 1.0 => format!("{larger:.1} times as large"),
        _ => format!("{:.1} %", 100.0 * ratio),
    }
}

fn print(common: Common, verb: &str, report: &ConvertReport) {
    let object = densite_tools::json::converted(verb, report);
    let text = if common.quiet {
        String::new()
    } else {
        format!(
            "{}: {} pages of {} bytes, {} to {} ({}), {:.1} s\n",
            shown::path(&report.destination),
            out::thousands(report.pages),
            report.page_size,
            indicatif::BinaryBytes(report.source_bytes),
            indicatif::BinaryBytes(report.destination_bytes),
            change(report.ratio()),
            report.elapsed.as_secs_f64(),
        )
    };
    let done = format!("{}: the file was converted", report.destination.display());
    out::report(common, &object, &text, &done);
}
