//! The page of `densite report`: one file without scripts and without external resources.
//!
//! Everything from the database or the command line is text: [`html_text::escaped`] escapes it, and a
//! policy in the head of the page forbids the browser to load or run anything. The page keeps the
//! figures of earlier reports ([`history`]).

mod colours;
mod column_coding;
mod earlier;
pub(crate) mod history;
mod html_text;
mod layout;
mod objects;
mod savings;

use crate::advice;
use densite_tools::{Error, Estimate, Form, Gain, Info};
use history::History;
use html_text::{change, escaped, share, size};
use std::fmt::Write as _;

/// Colours for light and dark mode that colour-blind people can distinguish (Okabe and Ito), and
/// that differ in brightness. Unused space is hatched.
const STYLE: &str = include_str!("style.css");

/// What was found out about a database.
pub(crate) struct Measured<'a> {
    pub(crate) info: &'a Info,
    /// The result of compressing, estimated; `None` if the file is not plain or not local.
    pub(crate) estimate: Option<&'a Result<Estimate, Error>>,
    /// The reports on it, with this one.
    pub(crate) history: &'a History,
}

/// The whole page.
pub(crate) fn page(measured: &Measured<'_>) -> String {
    let Measured { info, history, .. } = measured;
    let name = info
        .path
        .file_name()
        .map_or_else(|| info.path.to_string_lossy(), |n| n.to_string_lossy());
    let mut page = history.start();
    let _ = write!(
        page,
        "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{} - where its space is</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escaped(&name)
    );
    head(measured, &name, &mut page);
    if let Some(problem) = &info.objects_problem {
        let _ = writeln!(
            page,
            "<p class=\"warn\">Tables and indexes could not be read: {}</p>",
            escaped(problem)
        );
    }
    if let Some(gain) = &info.gain {
        split(info, gain, &mut page);
    }
    if info.form != Form::Empty {
        savings::section(info, measured, &mut page);
        let lines = advice::lines(info, measured.estimate);
        savings::other_advice(info, &lines, &mut page);
    }
    if !info.objects.all.is_empty() {
        layout::section(info, &mut page);
        objects::section(info, history, &mut page);
        column_coding::section(info, &mut page);
    }
    earlier::section(history, &mut page);
    let again = match history.runs().len() {
        0 | 1 => " Written to this file again, the report also shows how the figures have changed.",
        _ => "",
    };
    let _ = write!(
        page,
        "<footer>densite {}. Figures are those of <code>densite info</code>; sizes are in units of 1024.{again}</footer>\n</main>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    );
    page
}

fn head(measured: &Measured<'_>, name: &str, page: &mut String) {
    let info = measured.info;
    let form = match info.form {
        Form::Compressed => "compressed (Densite)",
        Form::Plain => "plain SQLite",
        Form::Empty => "empty: it becomes a database at the first write",
    };
    let _ = write!(
        page,
        "<header>\n<h1>{}</h1>\n{}<p>{form}",
        escaped(name),
        match info.path.to_string_lossy() {
            path if path == name => String::new(),
            path => format!("<p class=\"path\">{}</p>\n", escaped(&path)),
        },
    );
    if info.page_size > 0 {
        let _ = write!(
            page,
            ", {} pages of {} bytes",
            crate::out::thousands(info.pages),
            info.page_size
        );
    }
    match info.form {
        Form::Compressed => {
            let _ = write!(
                page,
                ": {} stored in <b>{}</b> ({})",
                size(info.logical_bytes),
                size(info.stored_bytes),
                share(info.stored_bytes, info.logical_bytes)
            );
        }
        _ => {
            let _ = write!(page, ": <b>{}</b>", size(info.stored_bytes));
        }
    }
    page.push_str("</p>\n");
    if let Some((last, before)) = measured.history.runs().split_last() {
        let _ = write!(page, "<p class=\"path\">{} UTC", earlier::time(last.time));
        if let Some(before) = before.last() {
            let _ = write!(
                page,
                "; file since {}: {}",
                earlier::time(before.time),
                change(before.stored, last.stored)
            );
        }
        page.push_str("</p>\n");
    }
    if info.wal_bytes > 0 {
        let _ = writeln!(
            page,
            "<p class=\"warn\">There is a WAL of {} beside it; these figures do not include its content.</p>",
            size(info.wal_bytes)
        );
    }
    page.push_str("</header>\n");
}

/// The bytes of the file by use.
fn split(info: &Info, gain: &Gain, page: &mut String) {
    let stored = info.form == Form::Compressed;
    let about = if gain.estimated { "about " } else { "" };
    let mut parts = vec![("live", "live", gain.live_bytes, "holds tables and indexes")];
    if stored {
        parts.push((
            "dead",
            "dead",
            gain.dead_bytes,
            "replaced pages between live ones",
        ));
        parts.push((
            "free",
            "free",
            gain.free_bytes,
            "is reused before the file grows",
        ));
    } else {
        parts.push((
            "slack",
            "unallocated",
            gain.unallocated_bytes,
            "empty parts of pages in use",
        ));
        parts.push((
            "free",
            "free",
            gain.free_bytes,
            "pages on SQLite's freelist",
        ));
    }
    let whole: u64 = parts.iter().map(|p| p.2).sum();
    page.push_str("<section>\n<h2>The file</h2>\n<div class=\"split\" role=\"img\" aria-label=\"the file by use of its bytes\">");
    for (class, _, bytes, _) in parts.iter().filter(|p| p.2 > 0) {
        let _ = write!(
            page,
            "<span class=\"{class}\" style=\"flex-grow:{}\"></span>",
            // Every part is wide enough to be visible.
            (bytes * 1000 / whole.max(1)).max(3)
        );
    }
    page.push_str("</div>\n<dl class=\"cards\">\n");
    for (class, name, bytes, what) in parts {
        let _ = writeln!(
            page,
            "<div><dt><i class=\"key {class}\"></i>{name}</dt><dd>{}{}<small>{} of the file; {what}</small></dd></div>",
            if class == "slack" { about } else { "" },
            size(bytes),
            share(bytes, whole)
        );
    }
    if stored {
        let _ = writeln!(
            page,
            "<div><dt><i class=\"key slack\"></i>unallocated</dt><dd>{about}{}<small>empty parts of pages in use, which are not stored</small></dd></div>",
            size(gain.unallocated_bytes)
        );
    }
    page.push_str("</dl>\n</section>\n");
}
