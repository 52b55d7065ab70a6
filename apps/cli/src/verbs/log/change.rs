//! `densite log subscribe|unsubscribe|prune DB`: through the SQL functions, as an application would
//! do it.

use crate::args::{Common, DbArg, From, SubscribeArgs, UnsubscribeArgs};
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::shown::shown;
use crate::sql::failure::{At, failure};
use crate::sql::open::{Access, open};
use crate::sqlite;
use densite_tools::log::Beside;
use rusqlite::{Connection, Params};
use serde_json::{Value, json};
use std::path::Path;

/// Runs one function and closes the database.
fn call(path: &Path, sql: &str, params: impl Params) -> Result<Option<i64>, Failure> {
    if !path.exists() {
        let path = path.to_path_buf();
        return Err(densite_tools::Error::NotFound { path }.into());
    }
    let name = path.to_string_lossy();
    let db: Connection = open(&name, Access::Existing)?;
    let answer = db.query_row(sql, params, |row| row.get(0));
    let answer = answer.map_err(|e| failure(&name, At::Database, &e))?;
    db.close()
        .map_err(|(_, e)| failure(&name, At::Database, &e))?;
    Ok(answer)
}

fn print_change(common: Common, object: &Value, text: &str, done: &str) -> Outcome {
    let text = if common.quiet { "" } else { text };
    out::report(common, object, text, done);
    Ok(0)
}

pub(super) fn subscribe(common: Common, args: &SubscribeArgs) -> Outcome {
    let from = match args.from {
        From::Start => "start",
        From::Now => "now",
    };
    let sql = "SELECT densite_subscribe(?1, ?2)";
    let position = call(&args.db, sql, (&args.name, from))?.unwrap_or(0);
    let object = json!({
        "verb": "log subscribe",
        "path": args.db.to_string_lossy(),
        "name": args.name,
        "position": position,
    });
    print_change(
        common,
        &object,
        &format!("{} starts after row {position}\n", shown(&args.name)),
        &format!("{}: the subscriber was added", args.db.display()),
    )
}

pub(super) fn unsubscribe(common: Common, args: &UnsubscribeArgs) -> Outcome {
    Beside::expect(sqlite::api()?, &args.db)?;
    call(&args.db, "SELECT densite_unsubscribe(?1)", [&args.name])?;
    let object = json!({
        "verb": "log unsubscribe",
        "path": args.db.to_string_lossy(),
        "name": args.name,
    });
    print_change(
        common,
        &object,
        &format!("{} is not a subscriber any more\n", shown(&args.name)),
        &format!("{}: the subscriber was removed", args.db.display()),
    )
}

pub(super) fn prune(common: Common, args: &DbArg) -> Outcome {
    Beside::expect(sqlite::api()?, &args.db)?;
    let freed = call(&args.db, "SELECT densite_prune()", [])?.unwrap_or(0);
    let object = json!({
        "verb": "log prune",
        "path": args.db.to_string_lossy(),
        "freed_bytes": freed,
    });
    let freed = out::bytes(u64::try_from(freed).unwrap_or(0));
    let done = format!("{}: the log was pruned", args.db.display());
    print_change(common, &object, &format!("{freed} pruned\n"), &done)
}
