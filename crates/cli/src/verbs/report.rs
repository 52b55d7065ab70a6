//! `densite report DB -o FILE.html`

use crate::args::{Common, ReportArgs};
use crate::failure::{Failure, Outcome};
use crate::shown;
use crate::{out, report, sqlite};
use densite_tools::{Error, parent_of};
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(crate) fn run(common: Common, args: &ReportArgs) -> Outcome {
    let api = sqlite::api()?;
    // Checked before the database is read, because that can take a while.
    may_write(common, args)?;
    let info = densite_tools::info(api, &args.db)?;
    let page = report::page(&info);
    write(common, &args.output, page.as_bytes())?;
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
    out::result(common, &object, &text)?;
    Ok(0)
}

/// Refuses an existing file unless the user gave `--yes`. Always refuses the database and its
/// companion files.
fn may_write(common: Common, args: &ReportArgs) -> Result<(), Failure> {
    let Ok(there) = fs::symlink_metadata(&args.output) else {
        return Ok(());
    };
    let followed = fs::metadata(&args.output).unwrap_or(there);
    let exists = || Error::Exists {
        path: args.output.clone(),
    };
    let belongs = ["", "-journal", "-wal", "-shm"].iter().any(|suffix| {
        let mut name = args.db.clone().into_os_string();
        name.push(suffix);
        let meta = fs::metadata(Path::new(&name));
        meta.is_ok_and(|m| (m.dev(), m.ino()) == (followed.dev(), followed.ino()))
    });
    match common.yes && followed.is_file() && !belongs {
        true => Ok(()),
        false => Err(exists().into()),
    }
}

fn write(common: Common, path: &Path, page: &[u8]) -> Result<(), Failure> {
    let failed = |e: io::Error| -> Failure {
        match e.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists {
                path: path.to_path_buf(),
            }
            .into(),
            io::ErrorKind::NotFound => Error::NotFound {
                path: parent_of(path),
            }
            .into(),
            io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge => Error::NoSpace {
                dir: parent_of(path),
                needed: Some(page.len() as u64),
                available: None,
            }
            .into(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::Permission {
                    path: path.to_path_buf(),
                    doing: "write it".into(),
                }
                .into()
            }
            _ => Error::Io {
                path: path.to_path_buf(),
                doing: "write".into(),
                message: e.to_string(),
            }
            .into(),
        }
    };
    let mut options = OpenOptions::new();
    options.write(true);
    match common.yes {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let mut file = options.open(path).map_err(failed)?;
    file.write_all(page).map_err(|e| {
        // A half-written page has no use.
        let _ = fs::remove_file(path);
        failed(e)
    })
}
