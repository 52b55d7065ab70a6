//! What `compress` and `decompress` say when they are done.

use crate::args::Common;
use crate::out;
use densite::ConvertReport;
use std::io;

pub(super) fn print(common: Common, verb: &str, report: &ConvertReport) -> io::Result<()> {
    let object = densite::json::converted(verb, report);
    let text = if common.quiet {
        String::new()
    } else {
        format!(
            "{}: {} pages of {} bytes, {} to {} ({:.1} %), {:.1} s\n",
            report.destination.display(),
            out::thousands(report.pages),
            report.page_size,
            indicatif::BinaryBytes(report.source_bytes),
            indicatif::BinaryBytes(report.destination_bytes),
            100.0 * report.ratio(),
            report.elapsed.as_secs_f64(),
        )
    };
    out::result(common, &object, &text)
}
