//! What `compress` and `decompress` say when they are done.

use crate::args::Common;
use crate::out;
use densite::ConvertReport;
use serde_json::json;
use std::io;

pub(super) fn print(common: Common, verb: &str, report: &ConvertReport) -> io::Result<()> {
    let ratio = if report.source_bytes == 0 {
        0.0
    } else {
        report.destination_bytes as f64 / report.source_bytes as f64
    };
    let object = json!({
        "verb": verb,
        "source": report.source.to_string_lossy(),
        "destination": report.destination.to_string_lossy(),
        "in_place": report.in_place,
        "page_size": report.page_size,
        "pages": report.pages,
        "free_pages_zeroed": report.free_pages_zeroed,
        "source_bytes": report.source_bytes,
        "destination_bytes": report.destination_bytes,
        "ratio": ratio,
        "seconds": report.elapsed.as_secs_f64(),
    });
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
            100.0 * ratio,
            report.elapsed.as_secs_f64(),
        )
    };
    out::result(common, &object, &text)
}
