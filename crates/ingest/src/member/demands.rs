//! What a database must be like to become a member: all members compute the same from the same
//! messages.

use super::tables_of;
use crate::error::refused;
use crate::expression::{Token, tokens};
use crate::own_triggers::is_ours;
use crate::position;
use densite_sqlite::{Connection, Result};
use densite_stream::{Durability, SyncInterval};

/// Words of SQL that give different values on different members.
const DIFFERENT: [&str; 14] = [
    "random",
    "randomblob",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "time",
    "datetime",
    "julianday",
    "strftime",
    "unixepoch",
    "last_insert_rowid",
    "changes",
    "total_changes",
];

/// What stands against joining, one sentence for each; empty if nothing does. The rejects of a member,
/// or of a copy of one, have numbers of the stream and stay.
///
/// # Errors
/// SQLite's.
pub(crate) fn unmet(connection: &Connection, is_member: bool) -> Result<Vec<String>> {
    let mut unmet = Vec::new();
    let rejects = position::rejects(connection)?;
    if rejects > 0 && !is_member {
        unmet.push(format!(
            "densite_rejects has {rejects} rows: apply them (densite_replay_rejects) or delete them"
        ));
    }
    let triggers = format!(
        "SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger' AND NOT {}",
        is_ours()
    );
    let mut statement = connection.prepare(&triggers)?;
    while statement.step()? {
        let text = |i| statement.column(i).as_str().unwrap_or_default();
        if let Some(word) = differs(text(1)) {
            unmet.push(format!(
                "the trigger {} uses {word}, which gives another value on each member: let the application compute the value",
                text(0)
            ));
        }
    }
    Ok(unmet)
}

/// A word of a trigger or of another statement that gives different values on different members.
pub(crate) fn differs(sql: &str) -> Option<String> {
    let tokens = tokens(sql).unwrap_or_default();
    let word = tokens.iter().enumerate().find_map(|(i, (_, token))| {
        let Token::Word(word) = token else {
            return None;
        };
        let calls = matches!(tokens.get(i + 1), Some((_, Token::Sign('('))));
        let is_one = DIFFERENT.iter().any(|d| d.eq_ignore_ascii_case(word));
        let is_constant = word.to_ascii_lowercase().starts_with("current_");
        (is_one && (calls || is_constant)).then_some(*word)
    });
    word.map(str::to_owned)
}

/// Whether the database has no table of the application.
///
/// # Errors
/// SQLite's.
pub(crate) fn is_empty(connection: &Connection) -> Result<bool> {
    Ok(tables_of(connection)?.is_empty())
}

/// Refuses servers that can lose what they acknowledged.
///
/// # Errors
/// What to set on the server.
pub(crate) fn trusted(durability: Durability) -> Result<()> {
    if durability.survives_a_power_cut() {
        return Ok(());
    }
    let why = match durability.sync {
        SyncInterval::Unknown => "a client cannot see whether this server syncs messages before it acknowledges them: name its monitoring port (--monitor http://host:8222)".to_owned(),
        SyncInterval::Every(time) => format!(
            "the server syncs messages every {} seconds, so a power cut loses some that it acknowledged: set sync_interval to always, or use three replicas",
            time.as_secs()
        ),
        SyncInterval::Always => return Ok(()),
    };
    Err(refused(format!(
        "{why}; or say that you trust it (--trust-server)"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_between_members_are_found() {
        for (sql, word) in [
            ("INSERT INTO t VALUES (random())", Some("random")),
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
}
