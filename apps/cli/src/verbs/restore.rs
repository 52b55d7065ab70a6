//! `densite restore URL DB`

use crate::args::{Common, RestoreArgs};
use crate::ask::consent;
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::progress::Bar;
use crate::sqlite;
use crate::verbs::replicate::HEAD;
use crate::verbs::restore_all;
use crate::verbs::restored::{line, notes, object, warnings};
use densite_tools::Error;
use densite_tools::replica::{
    At, RestoreOptions, RestoreReport, can_replace, restore, shown, verify,
};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Refuses a replica in the place of the database, above all if the database was named first.
fn in_order(args: &RestoreArgs) -> Result<(), Failure> {
    let Some(db) = &args.db else {
        return Ok(());
    };
    let is_url = |path: &Path| path.to_string_lossy().contains("://");
    let (url, is_replica) = (&args.url, is_url(db) || db.join(HEAD).is_file());
    let text = match is_replica && !url.join(HEAD).is_file() {
        true if !is_url(url) && !url.is_dir() => format!(
            "{0} is not a replica, and {1} is not a file; name the replica first: densite restore {1} {0}",
            url.display(),
            shown(db).display()
        ),
        _ if is_url(db) => format!(
            "{} is a URL, but a database is restored to a file; name a file",
            shown(db).display()
        ),
        _ => return Ok(()),
    };
    Err(Failure::Other("usage", 2, text, json!({})))
}

pub(crate) fn run(common: Common, args: &RestoreArgs) -> Outcome {
    in_order(args)?;
    let api = sqlite::api()?;
    let at = match (args.at, args.number) {
        (Some(time_ms), _) => At::Time(time_ms),
        (None, Some(n)) => At::Number(n),
        (None, None) => At::Newest,
    };
    let options = RestoreOptions {
        replaces: args.force,
        without_log: args.without_log,
        keeps_damage: args.keep_damage,
        ..RestoreOptions::new(at)
    };
    if let Some(db) = args.db.as_ref().filter(|db| args.force && db.exists()) {
        // Nothing is asked about what cannot be done.
        if !common.yes && !db.is_dir() {
            can_replace(api, &args.url, at, db)?;
        }
        let what = if db.is_dir() { "databases in " } else { "" };
        consent(common, &format!("Replace {what}{}?", db.display()))?;
    }
    let into_directory = |db: &PathBuf| db.is_dir() || db.to_string_lossy().ends_with('/');
    if args.db.as_ref().is_some_and(into_directory) || (args.db.is_none() && args.all) {
        return restore_all::run(common, args, options);
    }
    let mut bar = Bar::interruptible(common)?;
    let report = match &args.db {
        Some(db) => match restore(api, &args.url, options, db, &mut bar) {
            Err(Error::Exists { path }) if path == *db => {
                let text = format!(
                    "{} exists already and was not changed; choose another name, or replace it with --force",
                    path.display()
                );
                return Err(Failure::Other("exists", 1, text, json!({ "path": path })));
            }
            done => done?,
        },
        None => verify(api, &args.url, options, &mut bar)?,
    };
    drop(bar);
    tell(common, &report);
    Ok(0)
}

fn tell(common: Common, report: &RestoreReport) {
    let text = match common.quiet {
        true => String::new(),
        false => line(report) + "\n",
    };
    out::report(common, &object(report), &text, "the database was restored");
    for note in notes(report) {
        out::message(common, &note);
    }
    for warning in warnings(report) {
        out::warning(&warning);
    }
}
