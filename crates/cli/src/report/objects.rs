//! Tables and indexes, each with a bar.

use super::text::{escaped, share, size};
use crate::out;
use densite_tools::json::kind;
use densite_tools::{Info, Object, ObjectKind};
use std::fmt::Write as _;

pub(super) fn section(info: &Info, page: &mut String) {
    let stored = info.store.is_some();
    let about = if info.objects.exact {
        ""
    } else {
        ", estimated from a sample"
    };
    page.push_str("<section>\n<h2>By table and index</h2>\n<p class=\"legend\">");
    if stored {
        page.push_str("<span><i class=\"key live\"></i>stored</span> <span><i class=\"key raw\"></i>as SQLite sees it</span> ");
    } else {
        page.push_str("<span><i class=\"key live\"></i>in use</span> ");
    }
    let _ = write!(
        page,
        "<span><i class=\"key slack\"></i>unallocated in its pages{about}</span></p>\n\
         <div class=\"wide\"><table class=\"objects\">\n<thead><tr><th>object</th><th></th><th class=\"n\">pages</th>"
    );
    if stored {
        page.push_str("<th class=\"n\">stored</th><th class=\"n\">of raw</th>");
    }
    page.push_str("<th class=\"n\">raw</th><th class=\"n\">unallocated</th><th class=\"bars\"></th></tr></thead>\n<tbody>\n");
    let objects = &info.objects.all;
    let widest = objects.iter().map(|o| o.raw_bytes).max().unwrap_or(0);
    for object in objects {
        let named = object.name.is_some();
        if named || object.pages > 0 {
            row(object, stored, widest, page);
        }
    }
    page.push_str("</tbody>\n</table></div>\n");
    if info.objects.broken > 0 {
        let _ = writeln!(
            page,
            "<p class=\"warn\">{} interior pages could not be read; the pages below them count as long values. Run densite check.</p>",
            info.objects.broken
        );
    }
    page.push_str("</section>\n");
}

fn row(o: &Object, stored: bool, widest: u64, page: &mut String) {
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
        "<tr><th scope=\"row\">{name}</th><td>{sort}</td><td class=\"n\">{}</td>",
        out::thousands(o.pages)
    );
    if stored {
        let bytes = o.stored_bytes.unwrap_or(0);
        let _ = write!(
            page,
            "<td class=\"n\">{}</td><td class=\"n\">{}</td>",
            size(bytes),
            share(bytes, o.raw_bytes)
        );
    }
    let unallocated = match o.kind {
        ObjectKind::Overflow | ObjectKind::Free => "-".to_string(),
        _ => share(o.unallocated_bytes, o.raw_bytes),
    };
    let _ = write!(
        page,
        "<td class=\"n\">{}</td><td class=\"n\">{unallocated}</td><td class=\"bars\">",
        size(o.raw_bytes)
    );
    let width = |bytes: u64| 100.0 * bytes as f64 / widest.max(1) as f64;
    let mut bar = |class: &str, bytes: u64| {
        if bytes > 0 {
            let _ = write!(
                page,
                "<span class=\"{class}\" style=\"width:{:.2}%\"></span>",
                width(bytes)
            );
        }
    };
    if let Some(bytes) = o.stored_bytes {
        // The stored bytes, and the bytes that SQLite sees.
        bar("live", bytes);
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
    page.push_str("</td></tr>\n");
}
