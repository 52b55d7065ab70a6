//! The file from start to end, as rows of cells.

use super::text::{escaped, share, size};
use densite_tools::json::kind;
use densite_tools::{Info, Object, ObjectKind};
use std::fmt::Write as _;

/// Cells in a row.
const COLUMNS: usize = 80;
/// The largest number of cells.
const CELLS: usize = 1600;
/// The edge of a cell, and the distance between the starts of two cells.
const EDGE: usize = 11;
const STEP: usize = 12;
/// Number of objects with their own colour.
const COLOURED: usize = 6;

pub(super) fn section(info: &Info, page: &mut String) {
    page.push_str("<section>\n<h2>Along the file</h2>\n");
    if info.units.is_empty() {
        by_object(info, page);
    } else {
        by_unit(info, page);
    }
    page.push_str("</section>\n");
}

/// A compressed file: the live part of each unit.
fn by_unit(info: &Info, page: &mut String) {
    let each = info.units.len().div_ceil(CELLS).max(1);
    let cell_bytes = info.unit_bytes * each as u64;
    let mut cells = Vec::new();
    for (i, units) in info.units.chunks(each).enumerate() {
        let live: u64 = units.iter().map(|n| u64::from(*n)).sum();
        let start = i as u64 * cell_bytes;
        let whole = (units.len() as u64 * info.unit_bytes)
            .min(info.stored_bytes.saturating_sub(start))
            .max(1);
        let class = match (live * 100 / whole).min(100) {
            0 if live == 0 => "l0",
            0..25 => "l1",
            25..50 => "l2",
            50..75 => "l3",
            75..95 => "l4",
            _ => "l5",
        };
        cells.push((
            class,
            format!("from {}: {} live", size(start), share(live, whole)),
        ));
    }
    let _ = writeln!(
        page,
        "<p>Each square is {}, in the order of the file. The stronger its colour, the larger its live part.</p>",
        size(cell_bytes)
    );
    grid(&cells, "the file by how much of it is live", page);
    page.push_str("<p class=\"legend\">");
    for (class, words) in [
        ("l0", "free"),
        ("l1", "up to 25 % live"),
        ("l2", "to 50 %"),
        ("l3", "to 75 %"),
        ("l4", "to 95 %"),
        ("l5", "live"),
    ] {
        key(class, words, page);
    }
    page.push_str("</p>\n");
}

/// A plain file: the objects of the pages.
fn by_object(info: &Info, page: &mut String) {
    let objects = &info.objects;
    let mut cells = Vec::new();
    for (i, part) in objects.parts.iter().enumerate() {
        let start = i as u64 * objects.part_pages * u64::from(info.page_size);
        let mut owners: Vec<(usize, u64)> = part.clone();
        owners.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let total: u64 = owners.iter().map(|(_, n)| n).sum();
        let class = owners
            .first()
            .map_or("other", |(o, _)| class(*o, objects.all.get(*o)));
        let words: Vec<String> = owners
            .iter()
            .take(4)
            .map(|(o, n)| format!("{} {}", name(objects.all.get(*o)), share(*n, total)))
            .collect();
        cells.push((class, format!("from {}: {}", size(start), words.join(", "))));
    }
    let _ = writeln!(
        page,
        "<p>Each square is {}, in the order of the file, and has the colour of the object that most of its pages belong to.</p>",
        size(objects.part_pages * u64::from(info.page_size))
    );
    grid(&cells, "the file by the objects of its pages", page);
    page.push_str("<p class=\"legend\">");
    for (i, object) in objects.all.iter().enumerate() {
        let coloured =
            i < COLOURED || matches!(object.kind, ObjectKind::Overflow | ObjectKind::Free);
        if coloured && object.pages > 0 {
            key(class(i, Some(object)), &name(Some(object)), page);
        }
    }
    if objects.all.len() > COLOURED + 2 {
        key("other", "others", page);
    }
    page.push_str("</p>\n");
}

/// The colour class of an object, by its index in the list.
fn class(place: usize, object: Option<&Object>) -> &'static str {
    match object.map(|o| o.kind) {
        Some(ObjectKind::Free) => "free",
        Some(ObjectKind::Overflow) => "over",
        _ => ["o0", "o1", "o2", "o3", "o4", "o5"]
            .get(place)
            .copied()
            .unwrap_or("other"),
    }
}

fn name(object: Option<&Object>) -> String {
    match object {
        Some(o) => match (&o.name, o.kind) {
            (Some(name), _) => name.clone(),
            (None, ObjectKind::Overflow) => "long values (overflow pages)".into(),
            (None, other) => kind(other).into(),
        },
        None => "?".into(),
    }
}

fn key(class: &str, words: &str, page: &mut String) {
    let _ = write!(
        page,
        "<span><i class=\"key {class}\"></i>{}</span> ",
        escaped(words)
    );
}

fn grid(cells: &[(&str, String)], label: &str, page: &mut String) {
    let rows = cells.len().div_ceil(COLUMNS).max(1);
    let columns = cells.len().clamp(1, COLUMNS);
    let _ = write!(
        page,
        "<svg class=\"strip\" viewBox=\"0 0 {} {}\" style=\"max-width:{}px\" role=\"img\" aria-label=\"{label}\">\n\
         <defs><pattern id=\"hatch\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect class=\"hatch-back\" width=\"4\" height=\"4\"/><rect class=\"hatch-line\" width=\"1.2\" height=\"4\"/></pattern></defs>\n",
        columns * STEP,
        rows * STEP,
        columns * STEP,
    );
    for (i, (class, words)) in cells.iter().enumerate() {
        let _ = write!(
            page,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{EDGE}\" height=\"{EDGE}\"><title>{}</title></rect>",
            i % COLUMNS * STEP,
            i / COLUMNS * STEP,
            escaped(words)
        );
        if i % COLUMNS == COLUMNS - 1 {
            page.push('\n');
        }
    }
    page.push_str("</svg>\n");
}
