//! `densite_schema(statement)`: a change of the schema on all members.

use super::chosen;
use super::reached::{self, TIME};
use super::words::{names, without_comments};
use crate::member::SCHEMA;
use crate::member::tables::Membership;
use densite_ingest::parts::{Session, Token, equip, refused, tokens, unquoted};
use densite_log::{Batch, Op, Table, Txn, Value as LogValue};
use densite_sqlite::{Connection, Result, Value, ValueRef, ffi};

/// Statements that change the schema.
const CHANGES: [&str; 3] = ["create", "alter", "drop"];
/// Words and functions that give other values on each member, wherever they stand, beside those of
/// the time.
const DIFFERENT: [&str; 8] = [
    "random",
    "randomblob",
    "current_date",
    "current_time",
    "current_timestamp",
    "last_insert_rowid",
    "changes",
    "total_changes",
];

/// Appends a change of the schema to the log. Returns its number.
///
/// # Errors
/// What stands against the statement; as a COMMIT of rows.
pub(super) fn change(
    session: &Session,
    connection: &Connection,
    given: &[ValueRef<'_>],
) -> Result<Value> {
    let sql = given.first().and_then(|sql| sql.as_str()).ok_or_else(|| {
        refused("densite_schema wants a statement, as in densite_schema('ALTER TABLE vote ADD COLUMN at')")
    })?;
    if !connection.is_autocommit() {
        return Err(refused(
            "densite_schema: this connection has a transaction open, and the change would stay if that is rolled back; end it first",
        ));
    }
    if Membership::read(connection)?.is_none() {
        return Err(refused(
            "densite_schema: this database is no member of a stream; run the statement itself",
        ));
    }
    allowed(sql)?;
    let (statement, rest) = connection.prepare_with_tail(sql)?;
    drop(statement);
    if !without_comments(rest).trim().is_empty() {
        return Err(refused(
            "densite_schema takes one statement; call it once for each",
        ));
    }
    reaches_the_same(connection, sql)?;
    let database_log = session.existing_log(connection)?;
    let failed = |e| database_log.failed(e);
    let table = Table::new(SCHEMA, ["sql"], 0, []).map_err(failed)?;
    let mut batch = Batch::new(&table, Op::Insert);
    batch
        .push(&[LogValue::Text(sql.as_bytes())])
        .map_err(failed)?;
    let txn = Txn::of(database_log.log().new_txn(), &batch).map_err(failed)?;
    let last = database_log.append(connection, txn)?;
    Ok(Value::Integer(i64::try_from(last).unwrap_or(i64::MAX)))
}

/// Refuses statements by their words.
fn allowed(sql: &str) -> Result<()> {
    let plain = without_comments(sql);
    let words: Vec<String> = plain
        .split_whitespace()
        .take(2)
        .map(str::to_ascii_lowercase)
        .collect();
    let first = words.first().map(String::as_str).unwrap_or_default();
    if !CHANGES.contains(&first) {
        return Err(refused(format!(
            "densite_schema: {first} does not change the schema; it takes CREATE, ALTER and DROP"
        )));
    }
    let is_own = |name: &str| name.to_ascii_lowercase().starts_with("densite_");
    if names(sql, is_own) != Some(false) {
        return Err(refused(
            "densite_schema: the statement has a name that begins with densite_, and such names belong to Densite: leave its tables and triggers as they are, and choose another name for a new one",
        ));
    }
    let is_temporary = matches!(words.get(1).map(String::as_str), Some("temp" | "temporary"));
    if is_temporary || names_temp(&plain) {
        return Err(refused(
            "densite_schema: a temporary table, view, index or trigger belongs to one connection: run the statement itself",
        ));
    }
    let tokens = tokens(&plain).unwrap_or_default();
    // The rows of a new table; what triggers reach is found below.
    let is_table = words.get(1).is_some_and(|word| word.starts_with("table"));
    if let Some(what) = chosen::problem(&tokens).filter(|_| is_table) {
        return Err(refused(format!("densite_schema: the statement {what}")));
    }
    if let Some(word) = differs(&plain) {
        return Err(refused(format!(
            "densite_schema: {word} gives another value on each member; let the application compute the value"
        )));
    }
    Ok(())
}

/// Whether a name of a statement is in the schema `temp`.
fn names_temp(sql: &str) -> bool {
    let tokens = tokens(sql).unwrap_or_default();
    tokens.windows(2).any(|pair| match pair {
        [
            (_, Token::Word(name) | Token::Quoted(name)),
            (_, Token::Sign('.')),
        ] => unquoted(name).eq_ignore_ascii_case("temp"),
        _ => false,
    })
}

/// A word of a statement that gives different values on different members.
fn differs(sql: &str) -> Option<String> {
    let tokens = tokens(sql).unwrap_or_default();
    tokens.iter().enumerate().find_map(|(i, (_, token))| {
        let word = match token {
            Token::Word(word) | Token::Quoted(word) => unquoted(word),
            Token::Sign(_) => return None,
        };
        let calls = matches!(tokens.get(i + 1), Some((_, Token::Sign('('))));
        let mut different = DIFFERENT.iter().chain(&TIME);
        let is_one = different.any(|d| d.eq_ignore_ascii_case(&word));
        let is_bare = matches!(token, Token::Word(_));
        let is_constant = is_bare && word.to_ascii_lowercase().starts_with("current_");
        (is_one && (calls || is_constant)).then_some(word)
    })
}

/// Refuses a statement after which rows would give different values on different members. It is
/// tried in a database in memory that has this schema and no rows.
fn reaches_the_same(connection: &Connection, sql: &str) -> Result<()> {
    let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_NOMUTEX;
    let trial = Connection::open(connection.api(), ":memory:", flags, None)?;
    equip(&trial)?;
    // The schema can be of a SQLite that took double quotes for those of a text.
    trial.set_config(ffi::DBCONFIG_DQS_DDL, true)?;
    trial.set_config(ffi::DBCONFIG_DQS_DML, true)?;
    let mut statement = connection.prepare(
        "SELECT sql FROM main.sqlite_schema WHERE sql IS NOT NULL ORDER BY type != 'table', sql NOT LIKE 'CREATE VIRTUAL%', rowid",
    )?;
    while statement.step()? {
        // Tables of SQLite and of a virtual table exist already, and a module can be missing: what
        // needs such a table is found below.
        let made = trial.exec(statement.column(0).as_str().unwrap_or_default());
        made.ok();
    }
    drop(statement);
    let before = reached::different(&trial)?;
    trial.exec(sql)?;
    let after = reached::different(&trial)?;
    let new: Vec<String> = (after.into_iter())
        .filter(|why| !before.contains(why))
        .collect();
    match new.is_empty() {
        true => Ok(()),
        false => Err(refused(format!("densite_schema: {}", new.join("; ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_between_members_are_found() {
        for (sql, word) in [
            ("INSERT INTO t VALUES (random())", Some("random")),
            ("INSERT INTO t VALUES (\"random\"())", Some("random")),
            ("SELECT datetime ('now')", Some("datetime")),
            (
                "UPDATE t SET at = CURRENT_TIMESTAMP",
                Some("CURRENT_TIMESTAMP"),
            ),
            ("UPDATE t SET date = new.time", None),
            ("SELECT 'random()'", None),
        ] {
            assert_eq!(differs(sql).as_deref(), word, "{sql}");
        }
    }

    #[test]
    fn names_of_densite_and_temporary_objects_are_refused() {
        for (sql, word) in [
            ("DROP TABLE densite_applied", "belong to Densite"),
            (
                "drop trigger [densite_member_insert_vote]",
                "belong to Densite",
            ),
            ("CREATE TABLE \"Densite_x\"(a)", "belong to Densite"),
            (
                "ALTER TABLE vote RENAME TO `densite_vote`",
                "belong to Densite",
            ),
            (
                "ALTER TABLE main.densite_member ADD COLUMN a",
                "belong to Densite",
            ),
            ("drop table /* ' */ densite_x /* ' */", "belong to Densite"),
            ("CREATE TABLE 'x", "belong to Densite"),
            ("CREATE TEMP TABLE a(b)", "one connection"),
            (
                "create /* */ temporary view a AS SELECT 1",
                "one connection",
            ),
            ("CREATE TABLE temp.a(b)", "one connection"),
            ("DROP TABLE \"temp\" . a", "one connection"),
            ("/* */ PRAGMA foreign_keys", "pragma does not change"),
        ] {
            let refused = allowed(sql).expect_err(sql);
            assert!(refused.message.contains(word), "{sql}: {refused}");
        }
        for sql in [
            "CREATE TABLE temp(a)",
            "-- densite_applied\nCREATE TABLE t(a, my_densite_x)",
        ] {
            assert!(allowed(sql).is_ok(), "{sql}");
        }
    }
}
