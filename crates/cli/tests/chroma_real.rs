//! Directories that Chroma itself made, by the packages of PyPI: what it finds in them before and after is the same, and it goes on writing.
//!
//! The environments are made by `chroma/setup.sh` (`make chroma`); without them the tests are skipped.

use crate::common::{densite, temp};
use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const OLD: &str = "0.5.4";
const NEW: &str = "1.5.9";

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chroma");
/// Beside the build's output, wherever that is.
const VENVS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../chroma-venvs");

/// The Python of an environment; prints why there is none.
fn python(version: &str) -> Option<PathBuf> {
    let venv = Path::new(VENVS).join(version);
    if venv.join("built").is_file() {
        return Some(venv.join("bin/python"));
    }
    let why = format!("there is no chromadb {version}; {HERE}/setup.sh {VENVS} installs it");
    densite_testing::skip(&why);
    None
}

/// Runs the driver; what it says when Chroma does not do what it should.
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

/// Everything that this Chroma finds in the directory; in a copy, for looking may change it.
fn try_look(version: &str, dir: &Path) -> Result<Value, String> {
    let copy = copied(dir);
    let file = copy.path().join("found.json");
    try_drive(
        version,
        &["look", text(&copy.path().join("chroma")), text(&file)],
    )?;
    let found = fs::read_to_string(&file).expect("found");
    Ok(serde_json::from_str(&found).expect("JSON"))
}

fn look(version: &str, dir: &Path) -> Value {
    try_look(version, dir).unwrap_or_else(|e| panic!("{version}: {e}"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A copy, as `chroma` in a directory of its own.
fn copied(dir: &Path) -> tempfile::TempDir {
    let copy = temp();
    let to = copy.path().join("chroma");
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
    copy
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

/// The same places, and for each the same records and answers; the first difference is named.
fn same(before: &Value, after: &Value) {
    let (before, after) = (
        before.as_object().expect("places"),
        after.as_object().expect("places"),
    );
    assert!(
        before.keys().eq(after.keys()),
        "{:?}, {:?}",
        before.keys(),
        after.keys()
    );
    for (place, found) in before {
        for part in ["count", "records", "answers"] {
            assert!(found[part] == after[place][part], "{place}: other {part}");
        }
    }
}

fn vacuum(dir: &Path) {
    densite(&["vacuum", text(dir), "--yes", "--json"]).expect(0);
}

/// What the driver makes, counted: without it, comparing would prove nothing.
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
    if python(OLD).is_none() || python(NEW).is_none() {
        return;
    }
    let at = temp();
    let dir = at.path().join("chroma");
    drive(OLD, &["make", text(&dir)]);
    let before = look(OLD, &dir);
    is_what_was_made(&before);
    let unpruned = copied(&dir);

    let rows = queue(&dir);
    vacuum(&dir);
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
    same(&before, &look(OLD, &dir));

    // The newest Chroma takes it over, as it would without us.
    same(
        &look(NEW, &unpruned.path().join("chroma")),
        &look(NEW, &dir),
    );
    let taken_over = copied(&dir);
    let other = taken_over.path().join("chroma");
    drive(NEW, &["more", text(&other)]);
    let before = look(NEW, &other);
    vacuum(&other);
    same(&before, &look(NEW, &other));

    // And the old one goes on.
    drive(OLD, &["more", text(&dir)]);
    let before = look(OLD, &dir);
    vacuum(&dir);
    same(&before, &look(OLD, &dir));
}

#[test]
fn directories_of_the_new_chroma() {
    if python(NEW).is_none() {
        return;
    }
    let at = temp();
    let dir = at.path().join("chroma");
    drive(NEW, &["make", text(&dir)]);
    let before = look(NEW, &dir);
    is_what_was_made(&before);

    // That a purge which goes too far is seen: the metadata segment took these rows, and the index on the disk has not.
    let ruined = copied(&dir);
    let other = ruined.path().join("chroma");
    let db = Connection::open(other.join("chroma.sqlite3")).expect("open");
    db.execute(
        "DELETE FROM embeddings_queue WHERE seq_id < (SELECT max(m.seq_id) FROM max_seq_id m JOIN segments s ON s.id = m.segment_id
           WHERE s.scope = 'METADATA' AND embeddings_queue.topic LIKE '%/' || s.collection)",
        [],
    )
    .expect("deleted");
    drop(db);
    let ruin = try_look(NEW, &other).expect_err("the loss is not seen");
    assert!(ruin.contains("Error finding id"), "{ruin}");

    vacuum(&dir);
    same(&before, &look(NEW, &dir));
    drive(NEW, &["more", text(&dir)]);
    let before = look(NEW, &dir);
    vacuum(&dir);
    same(&before, &look(NEW, &dir));
}
