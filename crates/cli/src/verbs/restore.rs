//! `densite restore URL DB`

use crate::args::{Common, RestoreArgs};
use crate::ask::consent;
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::progress::Bar;
use crate::sqlite;
use crate::verbs::restore_all;
use crate::verbs::restored::{line, notes, object, warnings};
use densite_tools::Error;
use densite_tools::replica::{At, RestoreOptions, RestoreReport, restore, verify};
use serde_json::json;
use std::path::PathBuf;

pub(crate) fn run(common: Common, args: &RestoreArgs) -> Outcome {
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
