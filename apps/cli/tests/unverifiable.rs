//! Databases that SQLite objects to although their pages are intact, or that only their application
//! can verify: they are shipped and restored, checked and rewritten, each with a word of what is
//! wrong.

use crate::common::{at, densite, rows, temp};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

/// A connection of an application with a collation and a function of its own.
fn application(path: &str) -> Connection {
    let db = Connection::open(path).expect("open");
    db.create_collation("unicase", |a, b| a.to_lowercase().cmp(&b.to_lowercase()))
        .expect("a collation");
    let flags = FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_UTF8;
    db.create_scalar_function("plain_text", 1, flags, |context| {
        context.get::<String>(0).map(|text| text.to_lowercase())
    })
    .expect("a function");
    db
}

/// Changes the schema behind SQLite's back.
fn in_schema(db: &Connection, sql: &str) {
    db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)
        .expect("a setting");
    db.execute_batch(&format!(
        "PRAGMA writable_schema=ON; {sql}; PRAGMA writable_schema=RESET"
    ))
    .expect("changed");
}

const MANY: &str = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)";

/// A kind of database: how it is made, and what the warning says.
struct Kind {
    name: &'static str,
    make: fn(&Connection),
    /// Part of the warning of `replicate` and `restore`.
    says: &'static str,
    /// Whether SQLite's integrity check finds a problem, and does not only lack something.
    is_wrong: bool,
}

/// The tables of an Anki collection that need its collation.
fn anki(db: &Connection) {
    db.execute_batch(&format!(
        "CREATE TABLE notetypes(id INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL COLLATE unicase);
         CREATE UNIQUE INDEX idx_notetypes_name ON notetypes(name);
         CREATE TABLE fields(ntid INTEGER NOT NULL, ord INTEGER NOT NULL, name TEXT NOT NULL COLLATE unicase, PRIMARY KEY(ntid, ord)) WITHOUT ROWID;
         CREATE UNIQUE INDEX idx_fields_name_ntid ON fields(name, ntid);
         CREATE TABLE tags(tag TEXT NOT NULL PRIMARY KEY COLLATE unicase) WITHOUT ROWID;
         CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
         {MANY} INSERT INTO t SELECT i, 'name ' || i FROM n;
         {MANY} INSERT INTO notetypes SELECT i, char(65 + i % 2 * 32 + i % 26) || i FROM n;
         {MANY} INSERT INTO fields SELECT i, 0, 'Field ' || i FROM n;
         {MANY} INSERT INTO tags SELECT 'Tag ' || i FROM n"
    ))
    .expect("made");
}

fn with_function(db: &Connection) {
    db.execute_batch(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
         CREATE INDEX by_text ON t(plain_text(name));
         CREATE INDEX of_few ON t(name) WHERE plain_text(name) <> 'x';
         {MANY} INSERT INTO t SELECT i, 'Name ' || i FROM n"
    ))
    .expect("made");
}

fn with_text(db: &Connection, module: &str) {
    db.execute_batch(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
         {MANY} INSERT INTO t SELECT i, 'name ' || i FROM n;
         CREATE VIRTUAL TABLE words USING {module};
         {MANY} INSERT INTO words(rowid, name) SELECT i, 'name ' || i FROM n"
    ))
    .expect("made");
}

fn with_tokenizer(db: &Connection) {
    with_text(db, "fts5(name, tokenize=unicode61)");
    in_schema(
        db,
        "UPDATE sqlite_schema SET sql = replace(sql, 'unicode61', 'icu_words') WHERE name = 'words'",
    );
}

fn stale_fts5(db: &Connection) {
    with_text(db, "fts5(name)");
    db.execute_batch("UPDATE words_content SET c0 = 'other' WHERE id = 7")
        .expect("changed");
}

fn stale_fts4(db: &Connection) {
    with_text(db, "fts4(name)");
    db.execute_batch("UPDATE words_content SET c0name = 'other' WHERE docid = 7")
        .expect("changed");
}

fn broken_check(db: &Connection) {
    db.execute_batch(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT CHECK (name <> 'name 7'));
         PRAGMA ignore_check_constraints=ON;
         {MANY} INSERT INTO t SELECT i, 'name ' || i FROM n"
    ))
    .expect("made");
}

fn null_in_not_null(db: &Connection) {
    db.execute_batch(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
         {MANY} INSERT INTO t SELECT i, CASE i WHEN 7 THEN NULL ELSE 'name ' || i END FROM n"
    ))
    .expect("made");
    in_schema(
        db,
        "UPDATE sqlite_schema SET sql = replace(sql, 'name TEXT', 'name TEXT NOT NULL') WHERE name = 't'",
    );
}

fn index_without_rows(db: &Connection) {
    db.execute_batch(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
         CREATE INDEX by_name ON t(name);
         {MANY} INSERT INTO t SELECT i, 'name ' || i FROM n;
         CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'by_name'"
    ))
    .expect("made");
    in_schema(db, "DELETE FROM sqlite_schema WHERE name = 'by_name'");
    db.execute_batch("INSERT INTO t VALUES (10001, 'lost')")
        .expect("inserted");
    in_schema(db, "INSERT INTO sqlite_schema SELECT * FROM temp.kept");
}

const KINDS: [Kind; 9] = [
    Kind {
        name: "anki",
        make: anki,
        says: "no such collation sequence: unicase",
        is_wrong: false,
    },
    Kind {
        name: "function",
        make: with_function,
        says: "plain_text",
        is_wrong: false,
    },
    Kind {
        name: "tokenizer",
        make: with_tokenizer,
        says: "table words",
        is_wrong: false,
    },
    Kind {
        name: "stale_fts5",
        make: stale_fts5,
        says: "VALUES('rebuild')",
        is_wrong: true,
    },
    Kind {
        name: "stale_fts4",
        make: stale_fts4,
        says: "VALUES('rebuild')",
        is_wrong: true,
    },
    Kind {
        name: "check",
        make: broken_check,
        says: "CHECK constraint failed in t",
        is_wrong: true,
    },
    Kind {
        name: "not_null",
        make: null_in_not_null,
        says: "NULL value in t.name",
        is_wrong: true,
    },
    Kind {
        name: "index",
        make: index_without_rows,
        says: "REINDEX \"by_name\"",
        is_wrong: true,
    },
    Kind {
        name: "whole",
        make: |db| with_text(db, "fts5(name)"),
        says: "",
        is_wrong: false,
    },
];

impl Kind {
    /// A plain database of this kind in a rollback mode, or with auto_vacuum.
    fn made(&self, path: &str, auto_vacuum: &str) {
        let db = application(path);
        db.execute_batch(&format!("PRAGMA auto_vacuum={auto_vacuum}"))
            .expect("a setting");
        (self.make)(&db);
        // Free pages, so that a rewrite moves something.
        db.execute_batch(&format!(
            "CREATE TABLE gone(a); {MANY} INSERT INTO gone SELECT zeroblob(500) FROM n; DROP TABLE gone"
        ))
        .expect("made");
        db.close().expect("closed");
    }

    /// Asserts what `check` says.
    fn check(&self, db: &str) {
        let ran = densite(&["check", db, "--json"]).expect(if self.is_wrong { 5 } else { 0 });
        let said = ran.json();
        assert_eq!(said["ok"], !self.is_wrong, "{}: {said}", self.name);
        assert_eq!(said["damaged_trees"], serde_json::json!([]), "{said}");
        assert!(ran.out.replace("\\\"", "\"").contains(self.says), "{said}");
        let text = densite(&["check", db]).out;
        assert!(!text.contains("restore it from a backup"), "{text}");
    }
}

fn names_of(db: &str) -> Vec<String> {
    let rows = rows(
        db,
        "SELECT id || ' ' || ifnull(name, '') FROM t NOT INDEXED ORDER BY id",
    );
    assert!(rows.len() >= 600, "{} rows", rows.len());
    rows
}

#[test]
fn whatever_was_shipped_is_restored() {
    for kind in KINDS {
        let dir = temp();
        let (plain, db) = (at(&dir, "plain.db"), at(&dir, "a.db"));
        kind.made(&plain, "NONE");
        densite(&["compress", &plain, &db]).expect(0);
        let wanted = names_of(&db);
        let url = at(&dir, "replica");
        let shipped = densite(&["replicate", &db, &url, "--once"]).expect(0);
        assert!(
            shipped.err.contains(kind.says),
            "{}: {shipped:?}",
            kind.name
        );
        let copy = at(&dir, "copy.db");
        let restored = densite(&["restore", &url, &copy, "--json"]).expect(0);
        assert!(
            restored.err.contains(kind.says),
            "{}: {restored:?}",
            kind.name
        );
        let warnings = restored.json()["warnings"].as_array().map(Vec::len);
        assert_eq!(
            warnings,
            Some(usize::from(!kind.says.is_empty())),
            "{restored:?}"
        );
        assert_eq!(names_of(&copy), wanted, "{}", kind.name);
        densite(&["restore", &url, "--verify-only"])
            .expect(0)
            .says(kind.says);
        kind.check(&copy);
    }
}

#[test]
fn each_remedy_is_one() {
    for kind in KINDS
        .iter()
        .filter(|kind| kind.says.contains("REINDEX") || kind.says.contains("rebuild"))
    {
        let dir = temp();
        let db = at(&dir, "a.db");
        kind.made(&db, "NONE");
        let said = densite(&["check", &db, "--json"]).expect(5).json();
        let remedy = said["remedies"][0].as_str().expect("a remedy").to_owned();
        densite(&["sql", &db, &remedy]).expect(0);
        densite(&["check", &db]).expect(0);
    }
}

#[test]
fn rewrites_need_nothing_of_the_application() {
    for kind in KINDS {
        for auto_vacuum in ["NONE", "FULL"] {
            let dir = temp();
            let db = at(&dir, "a.db");
            kind.made(&db, auto_vacuum);
            let wanted = names_of(&db);
            let what = format!("{} {auto_vacuum}", kind.name);
            let ran = densite(&["vacuum", &db, "--yes", "--json"]);
            assert_eq!(ran.code, 0, "{what}: {ran:?}");
            assert_eq!(names_of(&db), wanted, "{what}");
            kind.check(&db);
            let ran = densite(&["compress", &db, "--page-size", "8192", "--known-program"]);
            assert_eq!(ran.code, 0, "{what}: {ran:?}");
            assert_eq!(names_of(&db), wanted, "{what}");
            densite(&["vacuum", &db, "--yes"]).expect(0);
            kind.check(&db);
            // The application agrees.
            densite(&["decompress", &db]).expect(0);
            if !kind.is_wrong && kind.name != "tokenizer" {
                let check = application(&db)
                    .query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
                assert_eq!(check.as_deref(), Ok("ok"), "{what}");
            }
        }
    }
}

/// Damage of a tree is not taken for a remark of SQLite.
#[test]
fn a_damaged_tree_is_restored_only_if_that_is_wanted() {
    let dir = temp();
    let (plain, db) = (at(&dir, "plain.db"), at(&dir, "a.db"));
    KINDS[0].made(&plain, "NONE");
    let root = rows(
        &plain,
        "SELECT rootpage FROM sqlite_schema WHERE name = 't'",
    );
    let root: usize = root[0].parse().expect("a number");
    let mut bytes = std::fs::read(&plain).expect("read");
    // The first two cells change places.
    let cells = (root - 1) * 4096 + 12;
    bytes[cells..cells + 4].rotate_left(2);
    std::fs::write(&plain, bytes).expect("written");
    let said = densite(&["check", &plain, "--json"]).expect(5).json();
    assert_ne!(said["damaged_trees"], serde_json::json!([]), "{said}");
    densite(&["compress", &plain, &db]).expect(0);
    let (url, copy) = (at(&dir, "replica"), at(&dir, "copy.db"));
    densite(&["replicate", &db, &url, "--once"]).expect(0);
    densite(&["restore", &url, &copy])
        .expect(5)
        .says("--keep-damage");
    densite(&["restore", &url, &copy, "--keep-damage"])
        .expect(0)
        .says("b-trees are damaged");
}
