//! The tables and indexes in the output of `densite info`.

use crate::out;
use crate::shown::shown;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use densite_tools::json::kind;
use densite_tools::{Info, Object, ObjectKind};
use std::fmt::Write as _;

/// Number of objects that are shown without `--columns`.
const SHORT: usize = 10;

/// The largest objects; with `columns` all of them, with the encodings of their columns.
pub(super) fn text(info: &Info, columns: bool) -> String {
    let mut text = String::new();
    if let Some(problem) = &info.objects_problem {
        let _ = writeln!(
            text,
            "\ntables and indexes are not shown: {}",
            shown(problem)
        );
        return text;
    }
    let all = &info.objects.all;
    if all.is_empty() {
        return text;
    }
    let (schema, others): (Vec<&Object>, Vec<&Object>) = all.iter().partition(|o| o.name.is_some());
    let shown = if columns { schema.len() } else { SHORT };
    let rows = schema
        .iter()
        .take(shown)
        .chain(others.iter().filter(|o| o.pages > 0));
    let _ = writeln!(text, "\n{}", table(rows.copied()).trim_fmt());
    if schema.len() > shown {
        let more = schema.len() - shown;
        let _ = writeln!(text, "... and {more} more: densite info --columns");
    }
    if info.wal_bytes > 0 {
        text.push_str("These figures do not include the content of the WAL.\n");
    }
    if info.objects.broken > 0 {
        let _ = writeln!(
            text,
            "{} interior pages could not be read; the pages below them count as overflow. Run densite check.",
            info.objects.broken
        );
    }
    if columns {
        for o in schema {
            column_text(o, &mut text);
        }
    }
    text
}

fn table<'a>(objects: impl Iterator<Item = &'a Object>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "object",
        "kind",
        "pages",
        "raw",
        "stored",
        "ratio",
        "pages by codec",
    ]);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let size = |n: u64| indicatif::BinaryBytes(n).to_string();
    for o in objects {
        let codecs: Vec<String> = o
            .codecs
            .iter()
            .map(|(name, n)| format!("{name} {}", out::thousands(*n)))
            .collect();
        table.add_row(vec![
            Cell::new(
                o.name
                    .as_deref()
                    .map_or_else(|| format!("({})", kind(o.kind)), shown),
            ),
            Cell::new(match o.kind {
                ObjectKind::Overflow | ObjectKind::Free => "",
                known => kind(known),
            }),
            right(out::thousands(o.pages)),
            right(size(o.raw_bytes)),
            right(o.stored_bytes.map_or_else(|| "-".into(), size)),
            right(
                o.ratio()
                    .map_or_else(|| "-".into(), |r| format!("{:.1} %", 100.0 * r)),
            ),
            Cell::new(codecs.join(", ")),
        ]);
    }
    table
}

/// The columns of one object.
fn column_text(o: &Object, text: &mut String) {
    let name = o.name.as_deref().map(shown).unwrap_or_default();
    let _ = write!(text, "\n{name} ({}", kind(o.kind));
    if let Some(table) = &o.table {
        let _ = write!(text, " of {}", shown(table));
    }
    let _ = match o.model_pages {
        0 => {
            text.push_str("): no pages are coded by a model\n");
            return;
        }
        n => writeln!(
            text,
            "): the model of {} of {} pages",
            out::thousands(n),
            out::thousands(o.pages)
        ),
    };
    let width = o
        .columns
        .iter()
        .map(|c| shown(&c.name).chars().count())
        .max();
    let width = width.unwrap_or(0);
    for c in &o.columns {
        let encodings = match c.encodings.is_empty() {
            true => "-".to_owned(),
            false => c.encodings.join("\n      "),
        };
        let _ = writeln!(
            text,
            "    {:<width$}  {}",
            shown(&c.name),
            encodings.replace("\n      ", &format!("\n    {:width$}  ", ""))
        );
    }
}
