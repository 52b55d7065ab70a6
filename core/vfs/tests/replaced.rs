//! A connection whose file was replaced, as `mv` does, does not touch the new file's journal and
//! WAL.

use crate::common::{Place, assert_sound, fill, int, run, text};
use rusqlite::ffi;

#[test]
fn journals_and_wals_of_the_new_file_are_not_changed() {
    for (mode, is_used) in [("DELETE", false), ("DELETE", true), ("WAL", false)] {
        let what = format!("{mode}, used before: {is_used}");
        let place = Place::new();
        for name in ["t.db", "new.db"] {
            let db = place.open(name);
            assert_eq!(
                text(&db, &format!("PRAGMA journal_mode={mode}")).to_uppercase(),
                mode
            );
            fill(&db, 500);
        }
        let old = place.open("t.db");
        if is_used {
            assert_eq!(int(&old, "SELECT count(*) FROM t"), 500);
        }
        std::fs::rename(place.path("new.db"), place.path("t.db")).expect("renamed");
        let new = place.open("t.db");
        run(
            &new,
            "PRAGMA cache_size=5; PRAGMA wal_autocheckpoint=0; BEGIN IMMEDIATE; DELETE FROM t WHERE a % 2",
        );
        let tries = || {
            // A WAL is found by the name, so in WAL mode reads fail too.
            let read = old.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
            let moved = |e: &rusqlite::Error| {
                e.sqlite_error().map(|e| e.extended_code) == Some(ffi::SQLITE_READONLY_DBMOVED)
            };
            match (mode, &read) {
                ("DELETE", Ok(500)) => {}
                ("WAL", Err(e)) if moved(e) => {}
                _ => panic!("{what}: {read:?}"),
            }
            for sql in ["DELETE FROM t", "PRAGMA journal_mode=MEMORY; DELETE FROM t"] {
                let refused = old.execute_batch(sql).expect_err("it would be lost");
                assert!(moved(&refused), "{what}: {refused}");
            }
        };
        tries();
        run(&new, "COMMIT");
        tries();
        drop((old, new));
        let new = place.open("t.db");
        assert_eq!(int(&new, "SELECT count(*) FROM t"), 250, "{what}");
        assert_sound(&new);
    }
}
