//! `densite trim DB`: through the SQL function, as an application would do it.

use super::join::Database;
use crate::advice::quoted;
use crate::args::{Common, TrimArgs};
use crate::failure::Outcome;
use crate::shown::{self, shown};
use crate::{out, sqlite};
use serde_json::json;

/// The member that has said least of what it has applied, of those that have not left.
const SLOWEST: &str = "SELECT (SELECT origin FROM main.densite_origins WHERE has_left = 0 AND origin <> (SELECT origin FROM main.densite_member) ORDER BY applied LIMIT 1)";

pub(crate) fn run(common: Common, args: &TrimArgs) -> Outcome {
    sqlite::api()?;
    let database = Database::open(&args.db)?;
    let first: i64 = database.value_from("SELECT densite_trim_stream(?1)", &[&args.keep])?;
    let first = u64::try_from(first).unwrap_or(0);
    let slowest: Option<String> = database.value_from(SLOWEST, &[])?;
    database.close()?;
    let object = json!({
        "verb": "trim",
        "path": args.db.to_string_lossy(),
        "first_message": first,
        "slowest": slowest,
    });
    let db = shown::path(&args.db);
    let mut text = format!(
        "{db}: the stream begins at message {}\n",
        out::thousands(first)
    );
    if let Some(slowest) = slowest {
        let slowest = shown(&slowest);
        let word = quoted(&db);
        text += &format!(
            "the slowest other member is {slowest}; densite_compare() lets all say how far they are, and `densite leave {word} --member {slowest}` says that it is gone\n"
        );
    }
    let text = if common.quiet { "" } else { &text };
    let done = format!("{}: the stream was trimmed", args.db.display());
    out::report(common, &object, text, &done);
    Ok(0)
}
