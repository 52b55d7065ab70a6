//! Where in the file each object lies: a map of the whole file, and a line for each object, which
//! says the same in words.

use super::colours::{Colours, Shown};
use super::html_text::{escaped, share, size};
use densite_tools::{Form, Info, SpaceUse};
use std::fmt::Write as _;

/// Parts of a line.
const BINS: usize = 150;
/// Up to so many squares are larger.
const FEW: usize = 300;
/// The most stretches of the file that are named in words.
const STRETCHES: usize = 3;

pub(super) fn section(info: &Info, page: &mut String) {
    let parts = &info.objects.layout.parts;
    if parts.is_empty() {
        return;
    }
    let colours = Colours::new(info);
    let parts: Vec<Vec<(Shown, u64)>> = parts.iter().map(|part| shown(part, &colours)).collect();
    let each = info.objects.layout.part_bytes;
    let _ = write!(
        page,
        "<section>\n<h2>Where it lies</h2>\n<p>The file from its start to its end. Each square is {}, and has the colour of what fills most of it.{}</p>\n",
        size(each),
        match info.form {
            Form::Compressed => " The empty top of a square is dead or free.",
            _ => " The empty top of a square is free.",
        }
    );
    grid(&parts, each, &colours, page);
    page.push_str("<h3>The same, by object</h3>\n<p>Each line is the whole file. The stronger the colour, the more of that place belongs to the object.</p>\n<div class=\"lanes\">\n");
    for known in colours.legend() {
        lane(known, &parts, each, &colours, page);
    }
    page.push_str("</div>\n");
    beside(info, page);
    page.push_str("</section>\n");
}

/// The uses of a part as they are shown, most bytes first.
fn shown(part: &[(SpaceUse, u64)], colours: &Colours<'_>) -> Vec<(Shown, u64)> {
    let mut uses: Vec<(Shown, u64)> = Vec::new();
    for (known, bytes) in part {
        let known = colours.of(*known);
        match uses.iter_mut().find(|(k, _)| *k == known) {
            Some((_, n)) => *n += bytes,
            None => uses.push((known, *bytes)),
        }
    }
    uses.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    uses
}

fn is_idle(known: Shown) -> bool {
    matches!(known, Shown::Dead | Shown::Free)
}

fn grid(parts: &[Vec<(Shown, u64)>], each: u64, colours: &Colours<'_>, page: &mut String) {
    let _ = writeln!(
        page,
        "<div class=\"map{}\" role=\"img\" aria-label=\"map of the file; the lines below say the same in words\">",
        if parts.len() <= FEW { " large" } else { "" }
    );
    for (part, i) in parts.iter().zip(0u64..) {
        let whole: u64 = part.iter().map(|(_, n)| n).sum();
        let idle: u64 = part
            .iter()
            .filter(|(k, _)| is_idle(*k))
            .map(|(_, n)| n)
            .sum();
        let used = part.iter().find(|(k, _)| !is_idle(*k));
        let full = match idle * 8 / whole.max(1) {
            0 => "",
            1..=2 => " f3",
            3..=4 => " f2",
            5..=6 => " f1",
            _ => " f0",
        };
        let class = match (full, used.or(part.first())) {
            // Nearly nothing is in it.
            (" f0", _) => part.iter().find(|(k, _)| is_idle(*k)),
            (_, known) => known,
        };
        let class = class.map_or("free", |(k, _)| colours.class(*k));
        let full = if full == " f0" { "" } else { full };
        let words: Vec<String> = part
            .iter()
            .take(4)
            .map(|(k, n)| format!("{} {}", colours.name(*k), share(*n, whole)))
            .collect();
        let title = format!("from {}: {}", size(i * each), words.join(", "));
        let _ = write!(
            page,
            "<i class=\"{class}{full}\" title=\"{}\"></i>",
            escaped(&title)
        );
        if i % 40 == 39 {
            page.push('\n');
        }
    }
    page.push_str("</div>\n");
}

/// A line of the legend: where one use lies.
fn lane(
    known: Shown,
    parts: &[Vec<(Shown, u64)>],
    each: u64,
    colours: &Colours<'_>,
    page: &mut String,
) {
    let bytes: u64 = parts.iter().map(|part| bytes_of(known, part)).sum();
    if bytes == 0 {
        return;
    }
    let whole: u64 = parts.iter().flatten().map(|(_, n)| n).sum();
    let class = colours.class(known);
    let _ = write!(
        page,
        "<div class=\"lane\"><span class=\"name\"><i class=\"key {class}\"></i>{}</span><span class=\"n\">{} <small>{}</small></span>\
         <svg viewBox=\"0 0 {BINS} 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        escaped(&colours.name(known)),
        size(bytes),
        share(bytes, whole),
    );
    // Neighbours of one strength are one rectangle.
    let mut open: Option<(usize, &str)> = None;
    for bin in 0..=BINS {
        let strength = match bin < BINS {
            true => strength(&parts[bin * parts.len() / BINS..], parts.len(), bin, known),
            false => "",
        };
        match open {
            Some((_, same)) if same == strength => {}
            other => {
                if let Some((from, strength)) = other.filter(|(_, s)| !s.is_empty()) {
                    let _ = write!(
                        page,
                        "<rect class=\"{class} {strength}\" x=\"{from}\" width=\"{}\" height=\"1\"/>",
                        bin - from
                    );
                }
                open = Some((bin, strength));
            }
        }
    }
    let _ = writeln!(
        page,
        "</svg><small class=\"where\">{}</small></div>",
        stretches(known, parts, each)
    );
}

/// The bytes of a use in a part.
fn bytes_of(known: Shown, part: &[(Shown, u64)]) -> u64 {
    let found = part.iter().find(|(k, _)| *k == known);
    found.map_or(0, |(_, n)| *n)
}

/// How much of a bin belongs to a use, as a class. `parts` begins with the bin's first part.
fn strength(parts: &[Vec<(Shown, u64)>], all: usize, bin: usize, known: Shown) -> &'static str {
    let first = bin * all / BINS;
    let end = ((bin + 1) * all / BINS).max(first + 1);
    let (mut mine, mut whole) = (0, 0);
    for part in parts.iter().take(end - first) {
        mine += bytes_of(known, part);
        whole += part.iter().map(|(_, n)| n).sum::<u64>();
    }
    match mine * 100 / whole.max(1) {
        0 if mine == 0 => "",
        0..10 => "s1",
        10..40 => "s2",
        40..80 => "s3",
        _ => "s4",
    }
}

/// Where a use lies, in words: the longest stretches of the file that it fills most of.
fn stretches(known: Shown, parts: &[Vec<(Shown, u64)>], each: u64) -> String {
    let whole: u64 = parts.iter().flatten().map(|(_, n)| n).sum();
    let at = |part: usize| size((part as u64 * each).min(whole));
    let has = |part: &Vec<(Shown, u64)>| part.iter().any(|(k, _)| *k == known);
    let leads = |part: &Vec<(Shown, u64)>| part.first().is_some_and(|(k, _)| *k == known);
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (i, _) in parts.iter().enumerate().filter(|(_, part)| leads(part)) {
        match runs.last_mut() {
            Some((_, end)) if *end == i => *end += 1,
            _ => runs.push((i, i + 1)),
        }
    }
    if runs.is_empty() {
        let first = parts.iter().position(has).unwrap_or(0);
        let last = parts.iter().rposition(has).unwrap_or(0);
        return match last - first {
            0 => format!("at {}", at(first)),
            _ => format!("in small parts from {} to {}", at(first), at(last + 1)),
        };
    }
    let all = runs.len();
    runs.sort_by_key(|(from, to)| (std::cmp::Reverse(to - from), *from));
    runs.truncate(STRETCHES);
    runs.sort_unstable();
    let named: Vec<String> = runs
        .iter()
        .map(|(from, to)| format!("{} to {}", at(*from), at(*to)))
        .collect();
    let more = match all.saturating_sub(STRETCHES) {
        0 => String::new(),
        1 => " and 1 more stretch".into(),
        n => format!(" and {n} more stretches"),
    };
    format!("mostly {}{more}", named.join(", "))
}

/// Files that belong to the database.
fn beside(info: &Info, page: &mut String) {
    let log = match &info.log {
        Some(Ok(figures)) => figures.status.bytes + figures.status.free_segment_bytes,
        _ => 0,
    };
    let files = [
        (
            "WAL",
            info.wal_bytes,
            "changes that SQLite writes into the file at the next checkpoint",
        ),
        (
            "rollback journal",
            info.journal_bytes,
            "of a transaction that runs or was interrupted",
        ),
        (
            "log",
            log,
            "rows of ingest, until they are applied and read",
        ),
    ];
    let files = files.iter().filter(|(_, bytes, _)| *bytes > 0);
    let widest = files.clone().map(|(_, n, _)| *n).max().unwrap_or(0);
    if widest == 0 {
        return;
    }
    let widest = widest.max(info.stored_bytes);
    page.push_str("<h3>Beside the file</h3>\n<p>At the same scale. The map does not include the content of these files.</p>\n<div class=\"lanes\">\n");
    for (name, bytes, what) in files {
        let _ = writeln!(
            page,
            "<div class=\"lane\"><span class=\"name\"><i class=\"key wal\"></i>{name}</span><span class=\"n\">{}</span>\
             <span class=\"track\"><span class=\"wal\" style=\"width:{:.2}%\"></span></span><small class=\"where\">{what}</small></div>",
            size(*bytes),
            100.0 * *bytes as f64 / widest as f64,
        );
    }
    page.push_str("</div>\n");
}
