//! Unknown schemas are refused, and nothing is changed.

use crate::made::{AGES, Age, Made};
use densite_tools::Error;
use densite_tools::chroma::is_chroma;

fn refused(age: Age, sql: &str, words: &str) {
    let mut made = Made::new(age);
    let a = made.collection("a");
    made.add(&a, "id", 0..10);
    made.persist(&a, 10);
    made.sql(sql);
    for e in [made.plan().map(drop), made.prune().map(drop)] {
        let e = e.expect_err(sql);
        assert!(
            matches!(&e, Error::Unsupported(m) if m.contains(words) && m.contains("nothing was changed")),
            "{sql}: {e}"
        );
        assert!(e.to_string().contains("chroma.sqlite3"), "{e}");
    }
    assert_eq!(made.rows().len(), 10);
}

#[test]
fn unknown_migrations_are_refused() {
    refused(
        Age::New,
        "INSERT INTO migrations VALUES('sysdb', 11, '00011-new.sqlite.sql', '', '')",
        "sysdb/00011-new.sqlite.sql (version 11)",
    );
    refused(
        Age::New,
        "INSERT INTO migrations VALUES('metadb', 7, '00007-new.sqlite.sql', '', '')",
        "metadb/00007",
    );
    refused(
        Age::New,
        "INSERT INTO migrations VALUES('embeddings_queue', 3, '00003-new.sqlite.sql', '', '')",
        "embeddings_queue/00003",
    );
    refused(
        Age::New,
        "INSERT INTO migrations VALUES('newdb', 1, '00001-new.sqlite.sql', '', '')",
        "newdb/00001",
    );
    refused(
        Age::Middle,
        "UPDATE migrations SET filename = '00004-other.sqlite.sql' WHERE dir = 'metadb' AND version = 4",
        "00004-other",
    );
    refused(
        Age::New,
        "DELETE FROM migrations WHERE dir = 'metadb' AND version = 5",
        "metadb/00006",
    );
}

#[test]
fn schemas_older_than_the_known_ones_are_refused() {
    refused(
        Age::Old,
        "DELETE FROM migrations WHERE dir = 'sysdb' AND version >= 5",
        "older than 0.5.0",
    );
    refused(
        Age::Old,
        "DELETE FROM migrations WHERE dir = 'metadb' AND version >= 3",
        "older than 0.5.0",
    );
    refused(Age::Old, "DELETE FROM migrations", "older than 0.5.0");
}

#[test]
fn tables_that_do_not_fit_the_migrations_are_refused() {
    refused(
        Age::New,
        "ALTER TABLE embeddings_queue RENAME COLUMN topic TO collection",
        "no column topic in embeddings_queue",
    );
    refused(
        Age::New,
        "DROP TABLE embeddings_queue_config",
        "embeddings_queue_config",
    );
    refused(Age::Old, "DROP TABLE tenants", "no column id in tenants");
    refused(
        Age::New,
        "CREATE TABLE other(x); CREATE TRIGGER t AFTER DELETE ON embeddings_queue BEGIN DELETE FROM other; END",
        "trigger",
    );
    refused(
        Age::New,
        "CREATE TABLE q AS SELECT * FROM embeddings_queue; DROP TABLE embeddings_queue; ALTER TABLE q RENAME TO embeddings_queue",
        "seq_id",
    );
}

#[test]
fn a_database_that_is_not_chromas() {
    for age in AGES {
        let made = Made::new(age);
        assert!(is_chroma(&made.ours(), made.dir.path()).expect("looked at"));
        made.sql("DROP TABLE embeddings_queue");
        assert!(!is_chroma(&made.ours(), made.dir.path()).expect("looked at"));
        let e = made
            .plan()
            .expect_err("the database does not have Chroma's tables");
        assert!(matches!(e, Error::NotChroma { .. }), "{e}");
        assert_eq!(
            (e.class(), e.kind()),
            (densite_tools::ErrorClass::Damaged, "not_chroma")
        );
    }
}

#[test]
fn the_releases_are_named() {
    for (age, name) in AGES
        .into_iter()
        .zip(["0.5.0 to 0.5.5", "0.5.6 to 0.6", "1.0 or newer"])
    {
        let plan = Made::new(age).plan().expect("a plan");
        assert_eq!(plan.schema.releases(), name);
        assert_eq!(
            (plan.queue_rows, plan.rows, plan.bytes),
            (0, 0, 0),
            "an empty queue"
        );
    }
}
