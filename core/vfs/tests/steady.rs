//! An application that never rests: rows come in and old ones go, with an index of random keys,
//! then a commit each 0.4 seconds. The file stays near the size of a fresh copy.

use crate::common::{Place, assert_sound, int, run, text};
use rusqlite::Connection;
use std::time::{Duration, Instant};

const ROWS: i64 = 200_000;
/// Rows that come in, and go, in each round.
const EACH: i64 = 20_000;
const ROUNDS: i64 = 4;
/// Rows of a commit.
const FEW: i64 = 250;

fn size(place: &Place, name: &str) -> u64 {
    std::fs::metadata(place.path(name))
        .expect("the file exists")
        .len()
}

fn insert(db: &Connection, rows: std::ops::Range<i64>) {
    run(
        db,
        &format!(
            "WITH RECURSIVE n(i) AS (SELECT {} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {})
             INSERT INTO states SELECT i, 20 + random() % 50 / 10.0, i * 0.5, i % 200, randomblob(16) FROM n",
            rows.start, rows.end
        ),
    );
}

#[test]
fn a_recorder_that_never_rests_keeps_its_file_small() {
    let place = Place::new();
    let db = place.open("x.db");
    run(
        &db,
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;
         CREATE TABLE states(id INTEGER PRIMARY KEY, state REAL, at REAL, kind INT, context BLOB);
         CREATE INDEX by_kind ON states(kind, at); CREATE INDEX by_context ON states(context);",
    );
    insert(&db, 1..ROWS);
    run(
        &db,
        "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA densite_maintain",
    );
    let copy = |name: &str| {
        let path = place.path(name);
        let path = path.to_str().expect("text");
        run(&db, &format!("VACUUM INTO 'file:{path}?vfs=densite'"));
        size(&place, name)
    };
    let fresh = copy("before.db");
    let mut largest = 0;
    let mut next = ROWS;
    for round in 0..ROUNDS {
        for _ in 0..EACH / FEW {
            insert(&db, next..next + FEW);
            next += FEW;
            largest = largest.max(size(&place, "x.db"));
        }
        run(
            &db,
            &format!("DELETE FROM states WHERE id < {}", (round + 1) * EACH),
        );
        largest = largest.max(size(&place, "x.db"));
    }
    println!("a fresh copy has {fresh}, the file had up to {largest}");
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(10) {
        insert(&db, next..next + 10);
        next += 10;
        std::thread::sleep(Duration::from_millis(400));
    }
    let then = size(&place, "x.db");
    println!("{then} after ten seconds of a commit each 0.4 s");
    let fresh = fresh.max(copy("after.db"));
    // A checkpoint stores a third of such a small file again. The space of the frames that it
    // replaces can be written again after the next checkpoint.
    assert!(largest <= fresh * 4, "{largest}, a fresh copy has {fresh}");
    assert!(then * 4 <= fresh * 5, "{then}, a fresh copy has {fresh}");
    assert_eq!(
        int(&db, "SELECT count(*) FROM states"),
        next - ROUNDS * EACH
    );
    assert_eq!(text(&db, "PRAGMA journal_mode"), "wal");
    assert_sound(&db);
}
