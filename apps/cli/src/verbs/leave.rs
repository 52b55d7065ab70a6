//! `densite leave DB`: through the SQL function, as an application would do it.

use super::join::Database;
use crate::args::{Common, LeaveArgs};
use crate::failure::Outcome;
use crate::shown::{self, shown};
use crate::{out, sqlite};
use serde_json::json;

pub(crate) fn run(common: Common, args: &LeaveArgs) -> Outcome {
    sqlite::api()?;
    let database = Database::open(&args.db)?;
    let options = json!({ "force": args.force, "member": args.member }).to_string();
    let origin: String = database.value_from("SELECT densite_leave(?1)", &[&options])?;
    database.close()?;
    let object = json!({
        "verb": "leave",
        "path": args.db.to_string_lossy(),
        "origin": origin,
    });
    let (db, name) = (shown::path(&args.db), shown(&origin));
    let text = match args.member {
        Some(_) => format!("{name} is not a member any more\n"),
        None => format!("{db} is not a member any more, it was {name}\n"),
    };
    let text = if common.quiet { "" } else { &text };
    let done = match args.member {
        Some(_) => format!(
            "{}: the stream was told that {name} has left",
            args.db.display()
        ),
        None => format!("{}: the database left the stream", args.db.display()),
    };
    out::report(common, &object, text, &done);
    Ok(0)
}
