//! What triggers choose by what differs between members: some rows of many, without an order, row ids
//! that VACUUM changes, and what only this file or this connection has, as `pragma_journal_mode`.
//!
//! SQLite takes the first rows that its plan finds. The plan follows the statistics of ANALYZE and
//! the version of SQLite, and both differ from member to member.

use super::words::{names, without_comments};
use densite_ingest::parts::{Token, is_ours, tokens, unquoted};
use densite_sqlite::{Connection, Result};

/// Tables that SQLite has of this file or this connection.
const LOCAL: [&str; 3] = ["bytecode", "dbstat", "tables_used"];
/// What the names of others begin with, and of Densite's own.
const LOCAL_BEGIN: [&str; 3] = ["pragma_", "sqlite_", "densite_"];

/// A trigger or a view of the application.
struct Part {
    kind: String,
    name: String,
    table: String,
    sql: String,
}

/// Why triggers, and views that they name, would choose other rows on other members, and what to
/// do, one sentence for each.
///
/// # Errors
/// SQLite's.
pub(super) fn different(connection: &Connection) -> Result<Vec<String>> {
    let (mut reached, mut views): (Vec<Part>, Vec<Part>) =
        (parts(connection)?.into_iter()).partition(|part| part.kind == "trigger");
    let mut next = 0;
    while let Some(sql) = reached.get(next).map(|part| part.sql.clone()) {
        let (named, others) = views.into_iter().partition(|view| {
            names(&sql, |name| name.eq_ignore_ascii_case(&view.name)) != Some(false)
        });
        views = others;
        reached.extend::<Vec<Part>>(named);
        next += 1;
    }
    let mut found = Vec::new();
    for Part {
        kind,
        name,
        table,
        sql,
    } in reached
    {
        let sql = without_comments(&sql);
        let tokens = tokens(&sql).unwrap_or_default();
        let problem = problem(&tokens).map(|what| format!("the {kind} {name} {what}"));
        found.extend(problem);
        if kind == "trigger" && takes_row_id(&tokens) && has_hidden_ids(connection, &table)? {
            found.push(format!(
                "the trigger {name} takes row ids of {table}, which VACUUM changes because {table} has no INTEGER PRIMARY KEY: use its key"
            ));
        }
    }
    Ok(found)
}

fn parts(connection: &Connection) -> Result<Vec<Part>> {
    let mut statement = connection.prepare(&format!(
        "SELECT type, name, tbl_name, sql FROM main.sqlite_schema \
         WHERE type IN ('trigger', 'view') AND NOT (type = 'trigger' AND {}) ORDER BY type, name",
        is_ours()
    ))?;
    let mut found = Vec::new();
    while statement.step()? {
        let text = |i| statement.column(i).as_str().unwrap_or_default().to_owned();
        found.push(Part {
            kind: text(0),
            name: text(1),
            table: text(2),
            sql: text(3),
        });
    }
    Ok(found)
}

/// What in a statement differs from member to member, and what to do.
pub(super) fn problem(tokens: &[(usize, Token<'_>)]) -> Option<String> {
    if limits_without_order(tokens) {
        let what = "has a LIMIT without ORDER BY, so which rows it takes differs from member to member: add an ORDER BY of a key";
        return Some(what.to_owned());
    }
    let local = tokens.iter().find_map(|(_, token)| match token {
        Token::Quoted(text) if text.starts_with('\'') => None,
        Token::Word(name) | Token::Quoted(name) => is_local(&unquoted(name)),
        Token::Sign(_) => None,
    })?;
    Some(format!(
        "reads {local}, which differs from member to member: let the application compute the value"
    ))
}

/// The name, if it is of a table whose rows are of this file or this connection.
fn is_local(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let is_one = LOCAL.contains(&name.as_str()) || LOCAL_BEGIN.iter().any(|b| name.starts_with(b));
    is_one.then_some(name)
}

/// Whether a SELECT has a LIMIT and no ORDER BY. That in an EXISTS only asks whether there are rows.
fn limits_without_order(tokens: &[(usize, Token<'_>)]) -> bool {
    // For each open parenthesis: whether the SELECT in it has an order, and whether it is an EXISTS.
    let mut open = vec![(false, false)];
    let mut last = "";
    for (_, token) in tokens {
        let word = match token {
            Token::Word(word) => *word,
            Token::Quoted(_) => "",
            Token::Sign(sign) => {
                match sign {
                    '(' => open.push((false, last.eq_ignore_ascii_case("exists"))),
                    ')' if open.len() > 1 => drop(open.pop()),
                    ';' => open = vec![(false, false)],
                    _ => {}
                }
                ""
            }
        };
        if let Some((is_ordered, exists)) = open.last_mut() {
            if last.eq_ignore_ascii_case("order") && word.eq_ignore_ascii_case("by") {
                *is_ordered = true;
            } else if word.eq_ignore_ascii_case("limit") && !*is_ordered && !*exists {
                return true;
            }
        }
        last = word;
    }
    false
}

/// Whether a trigger has `new.rowid` or `old.rowid`, by any of the names of a row id.
fn takes_row_id(tokens: &[(usize, Token<'_>)]) -> bool {
    tokens.windows(3).any(|three| match three {
        [
            (_, Token::Word(row)),
            (_, Token::Sign('.')),
            (_, Token::Word(id) | Token::Quoted(id)),
        ] => {
            let is_row = ["new", "old"]
                .iter()
                .any(|name| name.eq_ignore_ascii_case(row));
            let id = unquoted(id);
            let is_id = ["rowid", "oid", "_rowid_"].iter();
            is_row && is_id.clone().any(|name| name.eq_ignore_ascii_case(&id))
        }
        _ => false,
    })
}

/// Whether a table has row ids and no column of its own that stores them.
fn has_hidden_ids(connection: &Connection, table: &str) -> Result<bool> {
    let own = "SELECT count(*) FROM pragma_table_xinfo(?1, 'main') \
               WHERE name COLLATE NOCASE IN ('rowid', 'oid', '_rowid_') \
                  OR (pk = 1 AND type = 'INTEGER' COLLATE NOCASE)";
    let mut statement = connection.prepare(own)?;
    statement.bind(1, &densite_sqlite::Value::from(table))?;
    Ok(statement.step()? && statement.column(0).as_i64() == Some(0))
}
