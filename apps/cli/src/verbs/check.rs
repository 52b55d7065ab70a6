//! `densite check DB`

use crate::args::{CheckArgs, Common};
use crate::failure::Outcome;
use crate::progress::Bar;
use crate::shown::{self, shown};
use crate::{out, sqlite};
use densite_tools::Checked;
use std::fmt::Write as _;

pub(crate) fn run(common: Common, args: &CheckArgs) -> Outcome {
    let mut bar = Bar::new(common);
    let checked = densite_tools::check(sqlite::api()?, &args.db, &mut bar);
    drop(bar);
    let checked = checked?;
    let code = if checked.ok() { 0 } else { 5 };
    let object = densite_tools::json::checked(&checked);
    let text = if common.quiet && checked.ok() && checked.not_verified.is_empty() {
        String::new()
    } else {
        text(&checked)
    };
    Ok(out::verdict(common, &object, &text, code)?)
}

/// The most problems that are printed.
const SHOWN: usize = 20;

/// The problems, a line each.
fn problems(c: &Checked) -> Vec<String> {
    let of_store = c.problems.iter().map(|p| {
        let page = p.page.map(|n| format!(" (page {n})")).unwrap_or_default();
        format!(
            "damaged: {} at offset {}{page}: {}",
            p.what,
            p.offset,
            shown(&p.problem)
        )
    });
    // SQLite puts all that is wrong with pages into one text, under the name of the database.
    let of_sqlite = c.integrity_check.iter().flat_map(|text| text.lines());
    let of_sqlite = of_sqlite
        .filter(|line| *line != "ok" && !line.starts_with("*** in database"))
        .map(|line| format!("SQLite: {}", shown(line)));
    let of_trees = c.damaged_trees.iter().flat_map(|text| text.lines());
    let of_trees = of_trees.map(|line| format!("b-trees: {}", shown(line)));
    of_store.chain(of_sqlite).chain(of_trees).collect()
}

fn text(c: &Checked) -> String {
    let mut s = String::new();
    let problems = problems(c);
    for line in problems.iter().take(SHOWN) {
        let _ = writeln!(s, "{line}");
    }
    if problems.len() > SHOWN {
        let _ = writeln!(
            s,
            "and {} more problems; --json lists all",
            out::thousands((problems.len() - SHOWN) as u64)
        );
    }
    if c.integrity_check == ["ok"] {
        let _ = writeln!(s, "SQLite: ok");
    }
    for table in &c.not_verified {
        let _ = writeln!(
            s,
            "not verified, because only its application can: {}",
            shown(table)
        );
    }
    for remedy in c.remedies() {
        let _ = writeln!(s, "remedy: {}", shown(&remedy));
    }
    if let Some(cut) = &c.cut {
        let _ = writeln!(s, "cut: {}", shown(cut));
    }
    let verdict = match (c.ok(), &c.cut) {
        (true, None) if !c.not_verified.is_empty() => "ok, as far as it can be verified here",
        (true, None) => "ok",
        (true, Some(_)) => {
            "ok, at an earlier state: the newest changes were lost because the database was not closed cleanly"
        }
        (false, _) if c.is_whole() => {
            "all pages and b-trees are intact; the remedies repair the rest"
        }
        (false, _) => {
            "damaged; restore it from a backup, or save what can be read (densite salvage)"
        }
    };
    let _ = match c.frames {
        Some(frames) => writeln!(
            s,
            "{}: {verdict} ({} pages in {} frames)",
            shown::path(&c.path),
            out::thousands(c.pages),
            out::thousands(frames)
        ),
        None => writeln!(
            s,
            "{}: {verdict} ({} pages)",
            shown::path(&c.path),
            out::thousands(c.pages)
        ),
    };
    s
}
