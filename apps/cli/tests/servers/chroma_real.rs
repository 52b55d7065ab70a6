//! Directories that Chroma itself created, with packages from PyPI: it finds the same before and
//! after, and can continue to write.
//!
//! `chroma/setup.sh` (`make chroma`) creates the environments. Without them the tests are skipped.

use crate::common::{densite, temp};
use densite_testing::Effort;
use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const OLD: &str = "0.5.4";
const NEW: &str = "1.5.9";

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chroma");
/// Beside the build output, wherever that is.
const VENVS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../chroma-venvs");

/// The Python of an environment. Prints why there is none.
fn python(version: &str) -> Option<PathBuf> {
    let venvs = Path::new(VENVS);
    if venvs.join(format!("{version}.built")).is_file() {
        return Some(venvs.join(version).join("bin/python"));
    }
    let why = format!("there is no chromadb {version}; {HERE}/setup.sh {VENVS} installs it");
    densite_testing::skip(&why);
    None
}

/// Runs the driver. Returns its message if Chroma fails.
fn try_drive(version: &str, args: &[&str]) -> Result<(), String> {
    let python = python(version).expect("it was there");
    let out = Command::new(python)
        .arg(format!("{HERE}/driver.py"))
        .args(args)
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("Python runs");
    let err = String::from_utf8_lossy(&out.stderr);
    out.status.success().then_some(()).ok_or(err.into_owned())
}

fn drive(version: &str, args: &[&str]) {
    try_drive(version, args).unwrap_or_else(|e| panic!("{version} {args:?}: {e}"));
}

/// Everything that this Chroma finds in a copy of the directory. Reading the original could change
/// it.
fn try_look(version: &str, dir: &Path) -> Result<Value, String> {
    let copy = Copied::of(dir);
    let out = temp();
    let file = out.path().join("found.json");
    try_drive(version, &["look", text(&copy.dir), text(&file)])?;
    let found = fs::read_to_string(&file).expect("found");
    Ok(serde_json::from_str(&found).expect("JSON"))
}

fn look(version: &str, dir: &Path) -> Value {
    try_look(version, dir).unwrap_or_else(|e| panic!("{version}: {e}"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A copy of a Chroma directory, removed on drop.
struct Copied {
    dir: PathBuf,
    _holds: tempfile::TempDir,
}

impl Copied {
    fn of(dir: &Path) -> Self {
        let holds = temp();
        let to = holds.path().join("chroma");
        fs::create_dir(&to).expect("made");
        for entry in fs::read_dir(dir).expect("listed").flatten() {
            if entry.path().is_dir() {
                fs::create_dir(to.join(entry.file_name())).expect("made");
                for file in fs::read_dir(entry.path()).expect("listed").flatten() {
                    fs::copy(
                        file.path(),
                        to.join(entry.file_name()).join(file.file_name()),
                    )
                    .expect("copied");
                }
            } else {
                fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
            }
        }
        Self {
            dir: to,
            _holds: holds,
        }
    }
}

/// Rows in the queue, by tenant, database and name of the collection.
fn queue(dir: &Path) -> BTreeMap<String, i64> {
    let db = Connection::open(dir.join("chroma.sqlite3")).expect("open");
    let mut rows = db
        .prepare(
            "SELECT d.tenant_id || '/' || d.name || '/' || c.name,
                    (SELECT count(*) FROM embeddings_queue WHERE topic LIKE '%/' || c.id)
             FROM collections c JOIN databases d ON d.id = c.database_id",
        )
        .expect("a query");
    let rows = rows
        .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))
        .expect("rows");
    rows.map(|r| r.expect("a row")).collect()
}

/// The first difference between two results: other places, or a place with another count, other
/// records or other answers.
fn difference(before: &Value, after: &Value) -> Option<String> {
    let (before, after) = (
        before.as_object().expect("places"),
        after.as_object().expect("places"),
    );
    if !before.keys().eq(after.keys()) {
        return Some(format!("{:?}, {:?}", before.keys(), after.keys()));
    }
    for (place, found) in before {
        for part in ["count", "records", "answers"] {
            let (was, is) = (&found[part], &after[place][part]);
            if was != is {
                return Some(format!("{place}: other {part}: {}", first_other(was, is)));
            }
        }
    }
    None
}

/// The first innermost values that differ.
fn first_other(was: &Value, is: &Value) -> String {
    match (was, is) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let at = a.iter().zip(b).position(|(a, b)| a != b);
            let at = at.expect("they differ");
            format!("[{at}]{}", first_other(&a[at], &b[at]))
        }
        _ => format!(" {was}, now {is}"),
    }
}

/// Asserts that `version` finds the same in two directories.
///
/// Chroma's index is approximate and is built again from the queue at each start. Rarely, two runs
/// on the same files answer differently (once in about two hundred runs). So a difference counts
/// only if three runs on both directories show it. A real loss shows each time: every run reads a
/// fresh copy, and nothing writes to the directories in between.
fn same(version: &str, before: &Path, after: &Path) {
    let mut differences = Vec::new();
    for _ in 0..3 {
        match difference(&look(version, before), &look(version, after)) {
            None => return,
            Some(other) => differences.push(other),
        }
    }
    panic!("{version}: {differences:#?}");
}

/// Vacuums the directory, and returns a copy of its state before.
fn vacuum(dir: &Path) -> Copied {
    let before = Copied::of(dir);
    densite(&["vacuum", text(dir), "--yes", "--json"]).expect(0);
    let parts = "SELECT count(DISTINCT segid) FROM embedding_fulltext_search_idx";
    let database = dir.join("chroma.sqlite3");
    let count = |dir: &Path| -> i64 {
        let db = rusqlite::Connection::open(dir).expect("open");
        db.query_row(parts, [], |row| row.get(0)).expect("a number")
    };
    assert!(count(&before.dir.join("chroma.sqlite3")) >= 1);
    assert_eq!(count(&database), 1, "the index of documents is one part");
    before
}

/// Counts the content that the driver creates. Without this check, the comparisons could compare
/// nothing.
fn is_what_was_made(found: &Value) {
    let counts: Vec<_> = found
        .as_object()
        .expect("places")
        .iter()
        .map(|(place, found)| (place.as_str(), found["count"].as_i64().unwrap_or(-1)))
        .collect();
    assert_eq!(
        counts,
        [
            ("acme/shop/big", 1223),
            ("default_tenant/archive/big", 1123),
            ("default_tenant/archive/empty", 0),
            ("default_tenant/default_database/big", 2191),
            ("default_tenant/default_database/idle", 1250),
            ("default_tenant/default_database/odd-ids", 1107),
            ("default_tenant/default_database/small", 59),
        ]
    );
}

#[test]
fn directories_of_the_old_chroma() {
    if !Effort::wanted().is_full() || python(OLD).is_none() || python(NEW).is_none() {
        return;
    }
    let at = temp();
    let dir = at.path().join("chroma");
    drive(OLD, &["make", text(&dir)]);
    is_what_was_made(&look(OLD, &dir));

    let rows = queue(&dir);
    let unpruned = vacuum(&dir);
    let left = queue(&dir);
    for (place, fewer) in [
        ("default_tenant/default_database/big", true),
        ("default_tenant/default_database/idle", true),
        ("default_tenant/default_database/odd-ids", true),
        ("default_tenant/archive/big", true),
        ("acme/shop/big", true),
        ("default_tenant/default_database/small", false),
    ] {
        assert_eq!(
            left[place] < rows[place],
            fewer,
            "{place}: {rows:?}, {left:?}"
        );
    }
    same(OLD, &unpruned.dir, &dir);

    // The newest Chroma takes the directory over, as it would without us.
    same(NEW, &unpruned.dir, &dir);
    let taken_over = Copied::of(&dir);
    drive(NEW, &["more", text(&taken_over.dir)]);
    let unpruned = vacuum(&taken_over.dir);
    same(NEW, &unpruned.dir, &taken_over.dir);

    // The old Chroma can also continue with it.
    drive(OLD, &["more", text(&dir)]);
    let unpruned = vacuum(&dir);
    same(OLD, &unpruned.dir, &dir);
}

#[test]
fn directories_of_the_new_chroma() {
    if !Effort::wanted().is_full() || python(NEW).is_none() {
        return;
    }
    let at = temp();
    let dir = at.path().join("chroma");
    drive(NEW, &["make", text(&dir)]);
    is_what_was_made(&look(NEW, &dir));

    // A purge that deletes too much must be detected. The metadata segment took these rows, but the
    // index on disk does not have them.
    let ruined = Copied::of(&dir);
    let db = Connection::open(ruined.dir.join("chroma.sqlite3")).expect("open");
    db.execute(
        "DELETE FROM embeddings_queue WHERE seq_id < (SELECT max(m.seq_id) FROM max_seq_id m JOIN segments s ON s.id = m.segment_id
           WHERE s.scope = 'METADATA' AND embeddings_queue.topic LIKE '%/' || s.collection)",
        [],
    )
    .expect("deleted");
    drop(db);
    let ruin = try_look(NEW, &ruined.dir).expect_err("Chroma must report the loss");
    assert!(ruin.contains("Error finding id"), "{ruin}");

    let unpruned = vacuum(&dir);
    same(NEW, &unpruned.dir, &dir);
    drive(NEW, &["more", text(&dir)]);
    let unpruned = vacuum(&dir);
    same(NEW, &unpruned.dir, &dir);
}

/// Folders of the directory, in the order of their names.
fn folders(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("listed").flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<_> = folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Both versions leave the folder if the process that deletes the collection did not open its index.
#[test]
fn the_folder_of_a_deleted_collection_goes() {
    for version in [OLD, NEW] {
        if python(version).is_none() {
            return;
        }
        let at = temp();
        let dir = at.path().join("chroma");
        drive(version, &["make", text(&dir)]);
        let db = dir.join("chroma.sqlite3");
        let named = || -> Vec<String> {
            let db = Connection::open(&db).expect("open");
            let mut ids = db
                .prepare("SELECT id FROM segments WHERE scope = 'VECTOR' ORDER BY 1")
                .expect("a query");
            let ids = ids.query_map([], |row| row.get(0)).expect("rows");
            ids.map(|id| id.expect("an id")).collect()
        };
        let owned = |names: &mut Vec<String>| names.retain(|name| named().contains(name));
        let mut kept = folders(&dir);
        owned(&mut kept);
        assert!(kept.len() > 2, "{kept:?}");
        drive(version, &["leave", text(&dir)]);
        drive(version, &["drop", text(&dir)]);
        let before = folders(&dir);
        let left: Vec<&String> = before
            .iter()
            .filter(|name| !named().contains(name))
            .collect();
        assert!(!left.is_empty(), "{version}: {before:?}");

        let args = ["vacuum", text(&dir), "--dry-run", "--json"];
        let planned = densite(&args).expect(0).json();
        assert_eq!(
            planned["chroma"]["leftover_folders"],
            left.len(),
            "{planned}"
        );
        assert_eq!(folders(&dir), before, "{version}");
        let unpruned = Copied::of(&dir);
        let done = densite(&["vacuum", text(&dir), "--yes", "--json"])
            .expect(0)
            .json();
        let freed = &done["chroma"]["leftover_bytes"];
        assert!(
            freed.as_u64().is_some_and(|bytes| bytes > 100_000),
            "{done}"
        );
        assert_eq!(*freed, planned["chroma"]["leftover_bytes"]);
        assert_eq!(folders(&dir), kept, "{version}");
        same(version, &unpruned.dir, &dir);
        let again = densite(&["vacuum", text(&dir), "--yes", "--json"])
            .expect(0)
            .json();
        assert_eq!(again["chroma"]["leftover_folders"], 0, "{again}");
    }
}
