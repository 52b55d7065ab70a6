//! `densite report DB -o FILE.html`

use crate::args::{Common, ReportArgs};
use crate::failure::{Failure, Outcome};
use crate::progress::Bar;
use crate::report::Measured;
use crate::report::history::{Found, History};
use crate::shown;
use crate::sql::output::may_replace;
use crate::{out, report, sqlite};
use densite_sqlite::Companions;
use densite_tools::{Error, Form, NewFile};
use serde_json::json;
use std::fs;
use std::iter::once;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn run(common: Common, args: &ReportArgs) -> Outcome {
    let api = sqlite::api()?;
    // Checked before the database is read, because that can take a while.
    let mut history = earlier(common, args)?;
    drop(NewFile::create(&args.output, true)?);
    let mut bar = Bar::interruptible(common)?;
    let info = densite_tools::info_with_objects(api, &args.db)?;
    let estimate = match (info.form, &info.remote) {
        (Form::Plain, None) => Some(densite_tools::estimate(api, &args.db, &mut bar)),
        _ => None,
    };
    drop(bar);
    let estimate = match estimate {
        Some(Err(e @ Error::Interrupted { .. })) => return Err(e.into()),
        other => other,
    };
    history.add(&info, now());
    let page = report::page(&Measured {
        info: &info,
        estimate: estimate.as_ref(),
        history: &history,
    });
    let replaces = fs::symlink_metadata(&args.output).is_ok();
    if replaces {
        // Another program can have written the file meanwhile.
        earlier(common, args)?;
    }
    densite_tools::write_file(&args.output, page.as_bytes(), replaces)?;
    let object = json!({
        "verb": "report",
        "path": info.path.to_string_lossy(),
        "output": args.output.to_string_lossy(),
        "output_bytes": page.len(),
        "reports": history.runs().len(),
    });
    let text = match common.quiet {
        true => String::new(),
        false => format!(
            "{}: {}\n",
            shown::path(&args.output),
            out::bytes(page.len() as u64)
        ),
    };
    let done = format!("{}: the page was written", args.output.display());
    out::report(common, &object, &text, &done);
    Ok(0)
}

/// The figures of earlier reports, which are in the file that the page replaces. Without `--yes`,
/// refuses to replace anything but a page about the same database. Always refuses a symbolic link,
/// which another user can have put there, and the database and its companion files.
fn earlier(common: Common, args: &ReportArgs) -> Result<History, Failure> {
    let output = &args.output;
    let Ok(there) = fs::symlink_metadata(output) else {
        return Ok(History::new(&args.db));
    };
    let refused = |why: &str| {
        Err(Failure::Other(
            "exists",
            1,
            format!("{} exists already and {why}", output.display()),
            json!({ "path": output.to_string_lossy() }),
        ))
    };
    if there.is_symlink() {
        return refused(
            "is a symbolic link, which is not followed; remove it, or name the file itself",
        );
    }
    let belongs = once("").chain(Companions::ALL).any(|suffix| {
        let mut name = args.db.clone().into_os_string();
        name.push(suffix);
        let meta = fs::metadata(Path::new(&name));
        meta.is_ok_and(|m| (m.dev(), m.ino()) == (there.dev(), there.ino()))
    });
    if belongs || !there.is_file() {
        return Err(Error::Exists {
            path: output.clone(),
        }
        .into());
    }
    may_replace(output)?;
    match History::find(output, &args.db) {
        Found::Page(history) => Ok(history),
        Found::Nothing => Ok(History::new(&args.db)),
        Found::OfAnother | Found::Foreign if common.yes => Ok(History::new(&args.db)),
        Found::OfAnother => refused(
            "is the report on another database; choose another name, or replace it with --yes",
        ),
        Found::Foreign => refused(
            "is not a page of densite report, or was changed; choose another name, or replace it with --yes",
        ),
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}
