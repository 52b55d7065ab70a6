//! Compressing with another page size: through SQL, for every page is new.
//!
//! The source's pages are copied as they are into a first compressed file, which nobody else has, and
//! SQLite's VACUUM INTO writes a second one from that. So the source is held by the same locks as
//! without another page size, in every journal mode.

use crate::check;
use crate::convert::ConvertOptions;
use crate::copy::{self, Input};
use crate::db::{Access, Through, from_sqlite, uri};
use crate::error::{Error, Result};
use crate::paths::{Target, len_or_zero};
use crate::progress::Progress;
use crate::same;
use crate::temp::Temp;
use densite_sqlite::{Api, Connection};
use densite_store::Options;
use std::path::Path;

/// The rewritten database.
pub(crate) struct Rewritten {
    pub(crate) temp: Temp,
    pub(crate) pages: u64,
}

#[allow(
    clippy::too_many_arguments,
    reason = "they are what conversion knows; a struct would only rename them"
)]
pub(crate) fn with_page_size(
    api: Api,
    input: &mut Input<'_>,
    first: Temp,
    wanted: &Path,
    target: &Target,
    page_size: u32,
    options: &ConvertOptions,
    progress: &mut dyn Progress,
) -> Result<Rewritten> {
    let wal = input.header.wal;
    // It is read once and thrown away: the cheapest level will do.
    let quick = Options {
        level: 1,
        ..options.store.clone()
    };
    copy::to_compressed(input, first.path(), &quick, progress)?;
    copy::prove_compressed(input, first.path(), &quick, progress)?;

    let (temp, file) = Temp::create(wanted, &target.path, wanted == target.path)?;
    drop(file);
    progress.phase("rewriting", 0);
    if progress.cancelled() {
        return Err(Error::Interrupted {
            path: target.given.clone(),
        });
    }
    let level = options.store.level.to_string();
    let threads = options.store.threads.to_string();
    let cache = (options.store.decoded_cache_bytes >> 20).to_string();
    let parameters = [
        ("vfs", "densite"),
        ("level", &*level),
        ("threads", &*threads),
        ("decoded_cache", &*cache),
        ("maintain", "off"),
    ];
    let into = uri(temp.path(), &parameters)?;

    let old = Through::Densite.connect(api, first.path(), Access::Write, 0)?;
    let failed = |e| from_sqlite(&target.given, e);
    old.exec(&format!("PRAGMA page_size={page_size}"))
        .map_err(failed)?;
    old.exec(&format!("VACUUM INTO '{into}'")).map_err(failed)?;
    if len_or_zero(temp.path()) == 0 {
        return Err(Error::Unsupported(
            "this SQLite's VACUUM INTO wrote nothing; use a newer SQLite".into(),
        ));
    }

    let new = Through::Densite.connect(api, temp.path(), Access::Write, 0)?;
    if wal {
        // VACUUM INTO gives a rollback journal whatever the source has.
        set_wal(&new, temp.path())?;
    }
    progress.phase("verifying", 0);
    same::prove(&old, &new, &target.given, progress)?;
    check::integrity(&new, temp.path())?;
    let pages = new
        .query_i64("PRAGMA page_count")
        .map_err(|e| from_sqlite(temp.path(), e))?
        .unwrap_or(0);
    let size = new
        .query_i64("PRAGMA page_size")
        .map_err(|e| from_sqlite(temp.path(), e))?;
    if size != Some(i64::from(page_size)) {
        return Err(Error::Io {
            path: target.given.clone(),
            doing: "rewrite".into(),
            message: format!("SQLite kept another page size than {page_size}"),
        });
    }
    new.close().map_err(|e| from_sqlite(temp.path(), e))?;
    old.close().map_err(|e| from_sqlite(first.path(), e))?;
    temp.sync()?;
    check::frames(temp.path(), progress)?;
    Ok(Rewritten {
        temp,
        pages: u64::try_from(pages).unwrap_or(0),
    })
}

fn set_wal(db: &Connection, path: &Path) -> Result<()> {
    let mode = db
        .query_string("PRAGMA journal_mode=WAL")
        .map_err(|e| from_sqlite(path, e))?;
    if mode.as_deref() == Some("wal") {
        return Ok(());
    }
    Err(Error::Io {
        path: path.to_path_buf(),
        doing: "keep WAL mode in".into(),
        message: "SQLite refused it".into(),
    })
}
