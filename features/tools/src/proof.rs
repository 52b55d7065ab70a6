//! The proof that a rewritten database holds what its source holds (docs/decisions/vacuum.md).
//!
//! For each table and index, the digests of both b-trees are compared: the bytes of all records,
//! their row ids and their order. The source is read a second time, beside the rewrite. The copy is
//! read back, each page through its checksums. The walk also checks that it visits every page of
//! the copy exactly once, that all leaves of a tree are at one depth, and the bounds of row ids.
//! SQL compares schema and settings. SQLite's quick check covers pointer maps of auto_vacuum. What
//! it says of rows is true of the source, too, and no reason to refuse.

mod sides;
mod walk;

pub(crate) use sides::{NewSide, OldSide, Side};

use crate::db::{Through, from_sqlite};
use crate::digest::{Digest, Key};
use crate::digester::Odd;
use crate::error::{Error, Result};
use crate::objects::not_in_trees;
use crate::output::Output;
use crate::progress::Progress;
use crate::view::{View, connect, given};
use crate::{integrity, same, source, stand_in};
use densite_sqlite::{self as sqlite, Connection};
use densite_vfs::LockedView;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use walk::{Watch, digest};

/// The interval of progress reports.
const TICK: Duration = Duration::from_millis(20);

/// The b-tree of a table or index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    name: String,
    table: bool,
    root: u32,
    /// The position in the order in which VACUUM reads trees: tables in the order of the schema,
    /// each with its indexes.
    turn: (i64, i64),
}

/// How far in bytes the digest of the source can be ahead of VACUUM. Then the pages that it decodes
/// are still in the shared cache when VACUUM reads them.
const LEAD_BYTES: u64 = 16 << 20;

/// The result of the proof.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Proven {
    /// Tables compared.
    pub(crate) tables: u64,
    /// Indexes compared.
    pub(crate) indexes: u64,
    /// Number of rows of all tables.
    pub(crate) rows: u64,
}

/// The content of the source.
pub(crate) struct Old {
    pub(crate) trees: Vec<Tree>,
    /// `None` if a page is not in the form that SQLite writes.
    pub(crate) digests: Option<Vec<Digest>>,
}

/// The b-trees of a database, without that of its schema, in an order that a rewrite keeps.
pub(crate) fn trees(db: &Connection) -> sqlite::Result<Vec<Tree>> {
    let mut found = db.prepare(
        "SELECT name, type='table', rootpage,
           (SELECT min(t.rowid) FROM main.sqlite_master AS t WHERE t.type='table' AND t.name=m.tbl_name),
           m.type='index', m.rowid
         FROM main.sqlite_master AS m WHERE rootpage>0 ORDER BY type, name",
    )?;
    let mut trees = Vec::new();
    while found.step()? {
        let name = found.column(0).as_bytes().unwrap_or_default();
        trees.push(Tree {
            name: String::from_utf8_lossy(name).into_owned(),
            table: found.column(1).as_i64() == Some(1),
            root: found
                .column(2)
                .as_i64()
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(0),
            turn: (
                found.column(3).as_i64().unwrap_or(0),
                // The table itself comes before its indexes.
                found.column(4).as_i64().unwrap_or(0) * found.column(5).as_i64().unwrap_or(0),
            ),
        });
    }
    Ok(trees)
}

/// Computes the digests of the source's trees on this thread; `None` if a page is not in the form
/// that SQLite writes. After a stop the digests are incomplete and must not be used.
pub(crate) fn digest_old(side: &OldSide<'_>, trees: &[Tree]) -> Result<Option<Vec<Digest>>> {
    let mut first = side.reader()?;
    let header = source::header(&mut *first, given(side.view))?;
    let mut order: Vec<usize> = (0..trees.len()).collect();
    order.sort_by_key(|i| trees.get(*i).map(|t| t.turn));
    let roots: Vec<u32> = order
        .iter()
        .filter_map(|i| trees.get(*i))
        .map(|t| t.root)
        .collect();
    let size = u64::from(header.page_size);
    let ahead = |pages: u64| {
        !side.alone.load(Ordering::Relaxed) && pages * size > side.view.bytes_read() + LEAD_BYTES
    };
    let watch = Watch {
        stop: &side.stop,
        pages: AtomicU64::new(0),
        ahead: &ahead,
    };
    match digest(side, &roots, &header, side_key(side.view), 1, &watch) {
        Ok(found) => {
            let mut digests = vec![Digest::default(); trees.len()];
            for (i, digest) in order.iter().zip(found.trees) {
                if let Some(place) = digests.get_mut(*i) {
                    *place = digest;
                }
            }
            Ok(Some(digests))
        }
        Err(Odd::NotATree) => Ok(None),
        Err(Odd::Error(e)) => Err(e),
    }
}

/// The random numbers for the digests of one comparison, the same for both sides.
fn side_key(view: &View) -> Key {
    let (a, b) = view.random();
    Key::new(a, b)
}

/// Compares the copy with the content of the source.
pub(crate) fn prove(
    old_side: &OldSide<'_>,
    view: &LockedView,
    old: Old,
    new_side: &NewSide<'_>,
    progress: &mut dyn Progress,
) -> Result<Proven> {
    let path = given(old_side.view);
    let failed = |e| from_sqlite(path, e);
    let before = connect(old_side.api, view).map_err(failed)?;
    // The copy is opened through its descriptor. No file beside it is opened, even in WAL mode.
    let bytes = Arc::new(Output::written(new_side.temp, new_side.form)?);
    let new_path = new_side.temp.path();
    let shown = LockedView::new(new_side.api, bytes).map_err(failed)?;
    let after = connect(new_side.api, &shown).map_err(|e| from_sqlite(new_path, e))?;
    for db in [&before, &after] {
        stand_in::provide(db).map_err(failed)?;
    }
    same::settings_and_schema(&before, &after, path, progress)?;
    let trees = trees(&after).map_err(|e| from_sqlite(new_path, e))?;
    let names = |trees: &[Tree]| -> Vec<(String, bool)> {
        trees.iter().map(|t| (t.name.clone(), t.table)).collect()
    };
    if names(&trees) != names(&old.trees) {
        return Err(differs(path, "its tables and indexes"));
    }
    let mut roots: Vec<u32> = trees.iter().map(|t| t.root).collect();
    // The tree of the schema has other root pages than the source's. SQL compared it above, so this
    // walk only visits its pages.
    roots.push(1);
    let whole = walk_copy(new_side, &roots, side_key(old_side.view), path, progress)?;
    let digests = whole.map(|mut digests| {
        digests.pop();
        digests
    });
    let proven = |records: &[Digest]| Proven {
        tables: trees.iter().filter(|t| t.table).count() as u64,
        indexes: trees.iter().filter(|t| !t.table).count() as u64,
        rows: trees
            .iter()
            .zip(records)
            .filter(|(t, _)| t.table)
            .map(|(_, d)| d.records)
            .sum(),
    };
    match (&old.digests, &digests) {
        (Some(old), Some(new)) if old == new => {
            if after.query_i64("PRAGMA auto_vacuum").map_err(failed)? != Some(0) {
                integrity::pages(&after, new_path)?;
            }
            Ok(proven(new))
        }
        _ => {
            progress.phase("comparing", 0);
            let rows = same::rows(&before, &after, path, progress)?;
            integrity::full(&after, new_path)?;
            after.close().map_err(failed)?;
            if new_side.form == Through::Densite {
                integrity::frames(new_side.temp, progress)?;
            }
            Ok(Proven {
                rows,
                ..proven(&[])
            })
        }
    }
}

/// Computes the digests of the copy's trees on all cores; `None` if a page is not in the form that
/// SQLite writes.
fn walk_copy(
    side: &NewSide<'_>,
    roots: &[u32],
    key: Key,
    path: &Path,
    progress: &mut dyn Progress,
) -> Result<Option<Vec<Digest>>> {
    let unreadable = |e: Error| Error::Io {
        path: path.to_path_buf(),
        doing: "verify the copy of".into(),
        message: e.to_string(),
    };
    let mut first = side.reader().map_err(unreadable)?;
    let header = source::header(&mut *first, side.temp.path()).map_err(unreadable)?;
    let size = u64::from(header.page_size);
    progress.phase("verifying", first.len());
    let stop = AtomicBool::new(false);
    let watch = Watch {
        stop: &stop,
        pages: AtomicU64::new(0),
        ahead: &|_| false,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let found = std::thread::scope(|scope| {
        let work = scope.spawn(|| digest(side, roots, &header, key, threads, &watch));
        while !work.is_finished() {
            std::thread::park_timeout(TICK);
            progress.done(watch.pages.load(Ordering::Relaxed) * size);
            if progress.cancelled() {
                stop.store(true, Ordering::Relaxed);
            }
        }
        work.join()
            .unwrap_or_else(|_| Err(Odd::Error(Error::panicked(path))))
    });
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted {
            path: path.to_path_buf(),
        });
    }
    let mut found = match found {
        Ok(found) => found,
        Err(Odd::NotATree) => return Ok(None),
        Err(Odd::Error(e)) => return Err(unreadable(e)),
    };
    let count = u32::try_from(first.len() / size).unwrap_or(u32::MAX);
    let mut broken = 0;
    let others = not_in_trees(&mut *first, &header, count, &mut broken).map_err(unreadable)?;
    let mut apart = broken == 0;
    let others = others.list.pages().chain(others.maps);
    for page in others.filter(|p| *p <= count) {
        apart &= found.seen.insert(page);
    }
    // Every page belongs to exactly one tree, or is a known page outside of the trees.
    Ok((apart && found.seen.len() == u64::from(count)).then_some(found.trees))
}

fn differs(path: &Path, what: &str) -> Error {
    Error::Io {
        path: path.to_path_buf(),
        doing: "verify".into(),
        message: format!("the copy differs in {what}; try again, and check disk and memory"),
    }
}
