//! Tables and indexes, each with a bar.

use super::history::History;
use super::html_text::{change, escaped, share, size};
use crate::out;
use densite_tools::json::kind;
use densite_tools::{Info, Object, ObjectKind};
use std::fmt::Write as _;

/// Tables and indexes that are shown at first.
const SHOWN: usize = 25;

/// What the rows have in common.
struct Rows<'a> {
    stored: bool,
    /// Whether an earlier report has sizes to compare with.
    compared: bool,
    widest: u64,
    history: &'a History,
}

pub(super) fn section(info: &Info, history: &History, page: &mut String) {
    let about = match info.objects.exact {
        true => "",
        false => ", estimated from a sample",
    };
    let objects = &info.objects.all;
    let rows = Rows {
        stored: info.store.is_some(),
        compared: objects.iter().any(|o| history.before(o).is_some()),
        widest: objects.iter().map(|o| o.raw_bytes).max().unwrap_or(0),
        history,
    };
    page.push_str("<section>\n<h2>By table and index</h2>\n<p class=\"legend\">");
    page.push_str(match rows.stored {
        true => "<span><i class=\"key live\"></i>stored</span> <span><i class=\"key raw\"></i>as SQLite sees it</span> ",
        false => "<span><i class=\"key live\"></i>in use</span> ",
    });
    let _ = writeln!(
        page,
        "<span><i class=\"key slack\"></i>unallocated in its pages{about}</span></p>"
    );
    let (named, others): (Vec<&Object>, Vec<&Object>) =
        objects.iter().partition(|o| o.name.is_some());
    let (first, more) = named.split_at(SHOWN.min(named.len()));
    let others = others.into_iter().filter(|o| o.pages > 0);
    rows.table(first.iter().copied().chain(others), page);
    if !more.is_empty() {
        let _ = writeln!(
            page,
            "<details><summary>{} more tables and indexes</summary>",
            out::thousands(more.len() as u64)
        );
        rows.table(more.iter().copied(), page);
        page.push_str("</details>\n");
    }
    if info.objects.broken > 0 {
        let _ = writeln!(
            page,
            "<p class=\"warn\">{} interior pages could not be read; the pages below them count as long values. Run densite check.</p>",
            info.objects.broken
        );
    }
    page.push_str("</section>\n");
}

impl Rows<'_> {
    fn table<'a>(&self, objects: impl Iterator<Item = &'a Object>, page: &mut String) {
        page.push_str("<table class=\"objects\">\n<thead><tr><th>object</th><th class=\"bars\"></th><th class=\"n\">pages</th><th class=\"n\">raw</th>");
        if self.compared {
            page.push_str("<th class=\"n\">since last</th>");
        }
        if self.stored {
            page.push_str("<th class=\"n\">stored</th><th class=\"n\">of raw</th>");
        }
        page.push_str("<th class=\"n\">unallocated</th></tr></thead>\n<tbody>\n");
        for object in objects {
            self.row(object, page);
        }
        page.push_str("</tbody>\n</table>\n");
    }

    fn row(&self, o: &Object, page: &mut String) {
        let (name, sort) = match (&o.name, o.kind) {
            (Some(name), ObjectKind::Index) => {
                let of = o.table.as_deref().unwrap_or_default();
                (escaped(name), format!("index of {}", escaped(of)))
            }
            (Some(name), known) => (escaped(name), kind(known).to_string()),
            (None, ObjectKind::Overflow) => ("<i>long values</i>".into(), "overflow pages".into()),
            (None, _) => ("<i>free</i>".into(), "freelist, pointer maps".into()),
        };
        let _ = write!(
            page,
            "<tr><th scope=\"row\">{name}<small>{sort}</small></th>"
        );
        self.bars(o, page);
        // On a narrow screen the names stand beside the figures.
        let mut cell = |name: &str, value: String| {
            let _ = write!(page, "<td class=\"n\" data-of=\"{name}\">{value}</td>");
        };
        cell("pages", out::thousands(o.pages));
        cell("raw", size(o.raw_bytes));
        if self.compared {
            let since = match self.history.before(o) {
                Some(Some(before)) => change(before, o.raw_bytes),
                Some(None) => "new".into(),
                None => "-".into(),
            };
            cell("since last", since);
        }
        if self.stored {
            let bytes = o.stored_bytes.unwrap_or(0);
            cell("stored", size(bytes));
            cell("of raw", share(bytes, o.raw_bytes));
        }
        let unallocated = match o.kind {
            ObjectKind::Overflow | ObjectKind::Free => "-".to_string(),
            _ => share(o.unallocated_bytes, o.raw_bytes),
        };
        cell("unallocated", unallocated);
        page.push_str("</tr>\n");
    }

    fn bars(&self, o: &Object, page: &mut String) {
        page.push_str("<td class=\"bars\">");
        let mut bar = |class: &str, bytes: u64| {
            if bytes > 0 {
                let _ = write!(
                    page,
                    "<span class=\"{class}\" style=\"width:{:.2}%\"></span>",
                    100.0 * bytes as f64 / self.widest.max(1) as f64
                );
            }
        };
        if let Some(bytes) = o.stored_bytes {
            // The stored bytes, and the bytes that SQLite sees.
            bar("live", bytes.min(self.widest));
            bar(
                "raw",
                o.raw_bytes.saturating_sub(bytes + o.unallocated_bytes),
            );
            bar(
                "slack",
                o.unallocated_bytes.min(o.raw_bytes.saturating_sub(bytes)),
            );
        } else if o.kind == ObjectKind::Free {
            bar("free", o.raw_bytes);
        } else {
            bar("live", o.raw_bytes.saturating_sub(o.unallocated_bytes));
            bar("slack", o.unallocated_bytes);
        }
        page.push_str("</td>");
    }
}
