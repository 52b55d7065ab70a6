//! A freelist that names pages that tables use, as lost locks leave it: no verb drops their rows.

use crate::common::{at, densite, rows, snapshot, temp};
use densite_sqlite_format::page::{Kind, Page};
use rusqlite::Connection;
use std::fs;

const PAGE: usize = 4096;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// A plain database with a freelist, to which a page is added: a leaf of a table, or the first page
/// of a long value.
fn made(path: &str, kind: &str) {
    let db = Connection::open(path).expect("open");
    db.execute_batch(
        "CREATE TABLE gone(a);
         CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
         WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
           INSERT INTO gone SELECT zeroblob(500) FROM n;
         WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
           INSERT INTO t SELECT i, 'name ' || i FROM n;
         INSERT INTO t VALUES (5000, printf('%.*c', 20000, 'x'));
         DROP TABLE gone",
    )
    .expect("made");
    let root: u32 = db
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 't'",
            [],
            |row| row.get(0),
        )
        .expect("a root");
    db.close().expect("closed");
    let mut bytes = fs::read(path).expect("read");
    let parsed = |number: u32| {
        let (mut page, at) = (Page::new(), (number as usize - 1) * PAGE);
        assert!(page.parse(&bytes[at..at + PAGE], PAGE, false), "a b-tree");
        page
    };
    let root = parsed(root);
    assert_eq!(root.kind, Kind::TableInterior);
    let page = match kind {
        "leaf" => root.cells[0].child,
        // The long value is the last cell of the last leaf.
        _ => parsed(root.right).cells.last().expect("a cell").overflow,
    };
    let trunk = (u32_at(&bytes, 32) as usize - 1) * PAGE;
    let leaves = u32_at(&bytes, trunk + 4);
    assert!(leaves > 0 && (leaves as usize) < PAGE / 4 - 8);
    put(&mut bytes, trunk + 8 + 4 * leaves as usize, page);
    put(&mut bytes, trunk + 4, leaves + 1);
    let free = u32_at(&bytes, 36);
    put(&mut bytes, 36, free + 1);
    fs::write(path, bytes).expect("written");
}

fn all(db: &str) -> Vec<String> {
    let found = rows(db, "SELECT id, length(name), name FROM t ORDER BY id");
    assert_eq!(found.len(), 2001);
    found
}

#[test]
fn a_page_that_a_table_uses_is_never_dropped_as_free() {
    for kind in ["leaf", "overflow"] {
        let dir = temp();
        let db = at(&dir, "a.db");
        made(&db, kind);
        let wanted = all(&db);
        let before = snapshot(dir.path());
        let copy = at(&dir, "b.db");
        for command in [vec!["compress", &db], vec!["compress", &db, &copy]] {
            densite(&command).expect(5).says("--keep-damage");
        }
        let published = at(&dir, "published.db");
        densite(&["publish", &db, &published])
            .expect(5)
            .says("densite vacuum");
        assert!(snapshot(dir.path()) == before);
        let ran = densite(&["compress", &db, &copy, "--keep-damage", "--json"])
            .expect(0)
            .says("in use");
        assert_eq!(ran.json()["free_pages_in_use"], 1);
        assert_eq!(all(&copy), wanted, "{kind}");
        // Writing and closing reclaim free pages, and use them again.
        densite(&[
            "sql",
            &copy,
            "CREATE TABLE more(a); WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
             INSERT INTO more SELECT randomblob(500) FROM n; DROP TABLE more",
        ])
        .expect(0);
        assert_eq!(all(&copy), wanted, "{kind}");
        let said = densite(&["check", &copy, "--json"]).expect(5).json();
        assert_eq!(said["damaged_trees"], serde_json::json!([]), "{said}");
        densite(&["vacuum", &copy, "--yes"]).expect(0);
        densite(&["check", &copy]).expect(0);
        assert_eq!(all(&copy), wanted, "{kind}");
        // A vacuum repairs the plain one, and a new page size is a rewrite.
        let other = at(&dir, "c.db");
        densite(&["compress", &db, &other, "--page-size", "8192"]).expect(0);
        assert_eq!(all(&other), wanted, "{kind}");
        densite(&["vacuum", &db, "--yes"]).expect(0);
        densite(&["check", &db]).expect(0);
        densite(&["compress", &db]).expect(0);
        assert_eq!(all(&db), wanted, "{kind}");
    }
}

/// Values with bytes that look like numbers of free pages are no reason to refuse.
#[test]
fn bytes_of_values_are_not_taken_for_pointers() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let sql = Connection::open(&db).expect("open");
    sql.execute_batch(
        "CREATE TABLE gone(a); CREATE TABLE t(id INTEGER PRIMARY KEY, name BLOB);
         WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
           INSERT INTO gone SELECT zeroblob(500) FROM n",
    )
    .expect("made");
    // Overflow pages whose bytes look like interior pages that name each page up to 255.
    let mut value = vec![0u8; 200_000];
    for (i, byte) in value.iter_mut().enumerate() {
        *byte = match i % 4 {
            3 => u8::try_from(i / 4 % 255).expect("small"),
            _ => 0,
        };
    }
    sql.execute("INSERT INTO t VALUES (1, ?1)", [&value])
        .expect("inserted");
    sql.execute_batch("DROP TABLE gone").expect("dropped");
    sql.close().expect("closed");
    let report = densite(&["compress", &db, "--json"]).expect(0).json();
    assert!(report["free_pages_zeroed"].as_u64() > Some(100), "{report}");
    assert_eq!(report["free_pages_in_use"], 0);
}
