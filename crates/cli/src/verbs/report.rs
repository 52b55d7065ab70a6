//! `densite report DB -o FILE.html`

use crate::args::{Common, ReportArgs};
use crate::failure::{Failure, Outcome};
use crate::progress::Bar;
use crate::shown;
use crate::{out, report, sqlite};
use densite_tools::Error;
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(crate) fn run(common: Common, args: &ReportArgs) -> Outcome {
    let api = sqlite::api()?;
    // Checked before the database is read, because that can take a while.
    may_write(common, args)?;
    let bar = Bar::new(common);
    let info = densite_tools::info(api, &args.db)?;
    drop(bar);
    let page = report::page(&info);
    densite_tools::write_file(&args.output, page.as_bytes(), common.yes)?;
    let object = json!({
        "verb": "report",
        "path": info.path.to_string_lossy(),
        "output": args.output.to_string_lossy(),
        "output_bytes": page.len(),
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

/// Refuses an existing file unless the user gave `--yes`. Always refuses a symbolic link, which
/// another user can have put there, and the database and its companion files.
fn may_write(common: Common, args: &ReportArgs) -> Result<(), Failure> {
    let Ok(there) = fs::symlink_metadata(&args.output) else {
        return Ok(());
    };
    if there.is_symlink() {
        return Err(Failure::Other(
            "exists",
            1,
            format!(
                "{} exists already and is a symbolic link, which is not followed; remove it, or name the file itself",
                args.output.display()
            ),
            json!({ "path": args.output.to_string_lossy() }),
        ));
    }
    let belongs = ["", "-journal", "-wal", "-shm"].iter().any(|suffix| {
        let mut name = args.db.clone().into_os_string();
        name.push(suffix);
        let meta = fs::metadata(Path::new(&name));
        meta.is_ok_and(|m| (m.dev(), m.ino()) == (there.dev(), there.ino()))
    });
    match common.yes && there.is_file() && !belongs {
        true => Ok(()),
        false => Err(Error::Exists {
            path: args.output.clone(),
        }
        .into()),
    }
}
