//! What to do about the lines of SQLite's integrity check if pages and b-trees are intact.

use crate::integrity::is_of_pages;
use densite_sqlite::quoted;

/// The most remedies that are named.
const MOST: usize = 5;

/// A remedy for each kind of line, the same one once.
pub(crate) fn remedies(lines: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in lines.iter().filter(|line| *line != "ok") {
        let remedy = remedy(line);
        if !found.contains(&remedy) {
            found.push(remedy);
        }
    }
    found.truncate(MOST);
    found
}

fn remedy(line: &str) -> String {
    if is_of_pages(line) {
        return "rebuild its pages with densite vacuum".to_owned();
    }
    if line.starts_with("malformed database schema") {
        return "open it with the program that wrote it: its schema has a statement that this SQLite cannot read, in another dialect (libSQL's, or a newer SQLite's) or written with PRAGMA writable_schema".to_owned();
    }
    if let Some(table) = text_index(line) {
        let table = quoted(table);
        return format!("INSERT INTO {table}({table}) VALUES('rebuild')");
    }
    if let Some((_, index)) = line.split_once(" index ") {
        let reindex = format!("REINDEX {}", quoted(index));
        return match line.starts_with("non-unique") {
            true => format!("remove the rows that are there twice, then {reindex}"),
            false => reindex,
        };
    }
    format!("correct the rows that PRAGMA integrity_check names ({line})")
}

/// The table of a text index that is not of its rows.
fn text_index(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("inverted index for FTS")?;
    let (_, name) = rest.split_once("table ")?;
    let (_, table) = name.split_once('.')?;
    // "unable to validate …: reason"
    Some(table.split_once(": ").map_or(table, |(table, _)| table))
}

#[cfg(test)]
mod tests {
    use super::remedies;

    #[test]
    fn each_kind_of_line_has_its_remedy() {
        let lines = [
            "row 2 missing from index by_name",
            "wrong # of entries in index by_name",
            "non-unique entry in index u",
            "malformed inverted index for FTS5 table main.notes",
            "*** in database main ***\nPage 3: never used",
        ];
        let lines = lines.map(str::to_owned);
        assert_eq!(
            remedies(&lines),
            [
                "REINDEX \"by_name\"",
                "remove the rows that are there twice, then REINDEX \"u\"",
                "INSERT INTO \"notes\"(\"notes\") VALUES('rebuild')",
                "rebuild its pages with densite vacuum",
            ]
        );
        let rows = remedies(&["NULL value in t.c".to_owned()]);
        assert!(rows[0].contains("NULL value in t.c"), "{rows:?}");
        assert!(remedies(&["ok".to_owned()]).is_empty());
    }
}
