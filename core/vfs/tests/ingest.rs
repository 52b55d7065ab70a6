//! Ingest into Densite databases: the worker opens the same file through the same VFS, and its sync
//! of the file writes no slot.

use crate::common::{Place, assert_sound, int, run, text};

#[test]
fn rows_are_ingested_in_every_journal_mode() {
    for mode in ["WAL", "DELETE"] {
        let place = Place::new();
        let db = place.open("x.db");
        assert_eq!(
            text(&db, &format!("PRAGMA journal_mode={mode}")),
            mode.to_lowercase()
        );
        run(
            &db,
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE INDEX by_v ON t(v)",
        );
        run(
            &db,
            "CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t, on_conflict=replace)",
        );
        for from in 0..5 {
            run(
                &db,
                &format!(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO t_in SELECT i + {from} * 1000, 'text ' || i FROM n"
                ),
            );
            assert_eq!(
                int(&db, "SELECT count(*) FROM t_in"),
                5000 + from * 1000,
                "{mode}"
            );
        }
        assert_eq!(int(&db, "SELECT densite_wait()"), 25_000, "{mode}");
        assert_eq!(int(&db, "SELECT count(*) FROM t"), 9000, "{mode}");
        drop(db);
        assert!(!place.is_plain("x.db"), "{mode}");
        let db = place.open("x.db");
        assert_eq!(int(&db, "SELECT count(*) FROM t"), 9000, "{mode}");
        assert_eq!(
            int(&db, "SELECT seq FROM densite_applied"),
            25_000,
            "{mode}"
        );
        assert_sound(&db);
    }
}
