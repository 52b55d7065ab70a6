//! The setting `automatically_purge`, transactions and locks.

use crate::made::{AGES, Age, Made, OFF};
use densite_tools::Error;
use densite_tools::chroma::{AutoPurge, PurgeChange, prune};

const ON: &str = r#"{"automatically_purge":true,"_type":"EmbeddingsQueueConfigurationInternal"}"#;

#[test]
fn the_setting_becomes_true_and_its_other_fields_stay() {
    for age in [Age::Middle, Age::New] {
        let mut made = Made::new(age);
        let small = made.collection("small");
        made.add(&small, "id", 0..10);
        let pruned = made.prune().expect("pruned");
        assert_eq!(pruned.plan.automatically_purge, AutoPurge::Off);
        assert_eq!(pruned.plan.change, PurgeChange::TurnOn);
        assert_eq!(
            made.config_now().as_deref(),
            Some(ON),
            "a collection without a position is a normal state"
        );
        let pruned = made.prune().expect("pruned");
        assert_eq!(
            (pruned.plan.automatically_purge, pruned.plan.change),
            (AutoPurge::On, PurgeChange::None)
        );

        made.config(r#"{"more": [1], "_type": "X"}"#);
        made.prune().expect("pruned");
        assert_eq!(
            made.config_now().as_deref(),
            Some(r#"{"more":[1],"_type":"X","automatically_purge":true}"#)
        );

        made.sql("DELETE FROM embeddings_queue_config");
        let pruned = made.prune().expect("pruned");
        assert_eq!(pruned.plan.automatically_purge, AutoPurge::Unset);
        let now = made.config_now().expect("a row");
        assert!(now.contains(r#""automatically_purge": true"#), "{now}");
        assert_eq!(made.prune().expect("pruned").plan.change, PurgeChange::None);
    }
}

#[test]
fn an_old_schema_does_not_get_the_setting() {
    let mut made = Made::new(Age::Old);
    let a = made.collection("a");
    made.add(&a, "id", 0..10);
    made.persist(&a, 10);
    let pruned = made.prune().expect("pruned");
    assert_eq!(
        (pruned.plan.automatically_purge, pruned.plan.change),
        (AutoPurge::NoPlace, PurgeChange::None)
    );
    // Chroma's migration creates the table, and would fail if it existed.
    let tables: i64 = made
        .db
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%config%' OR name LIKE 'densite%'",
            [],
            |r| r.get(0),
        )
        .expect("a count");
    assert_eq!(tables, 0);
}

#[test]
fn an_invalid_setting_is_an_error_and_changes_nothing() {
    for json in [
        "",
        "{",
        "[]",
        "true",
        r#"{"automatically_purge": 1}"#,
        r#"{"automatically_purge": "yes"}"#,
    ] {
        let mut made = Made::new(Age::New);
        let a = made.collection("a");
        made.add(&a, "id", 0..10);
        made.persist(&a, 10);
        made.config(json);
        let e = made.prune().expect_err("no known setting");
        assert!(
            matches!(&e, Error::Unsupported(m) if m.contains("embeddings_queue_config") && m.contains("nothing was changed")),
            "{e}"
        );
        assert_eq!(
            (made.rows().len(), made.config_now().as_deref()),
            (10, Some(json))
        );
    }
}

#[test]
fn a_failure_in_the_middle_changes_nothing() {
    let mut made = Made::new(Age::New);
    let a = made.collection("a");
    made.add(&a, "id", 0..10);
    made.persist(&a, 10);
    // Writing the setting fails after the rows are deleted.
    made.sql("DROP TABLE embeddings_queue_config; CREATE TABLE embeddings_queue_config(id INTEGER PRIMARY KEY, config_json_str TEXT CHECK(config_json_str NOT LIKE '%true%'))");
    made.config(OFF);
    let e = made.prune().expect_err("it cannot be written");
    assert!(matches!(e, Error::Sqlite { .. }), "{e}");
    assert_eq!(
        (made.rows().len(), made.config_now().as_deref()),
        (10, Some(OFF))
    );
    // The same in a transaction of the caller, which continues after the failure.
    let ours = made.ours();
    ours.exec("BEGIN; INSERT INTO tenants VALUES('acme')")
        .expect("begun");
    prune(&ours, &made.found()).expect_err("it cannot be written");
    assert!(!ours.is_autocommit());
    ours.exec("COMMIT").expect("committed");
    assert_eq!(made.rows().len(), 10);
}

#[test]
fn a_prune_takes_part_in_the_callers_transaction() {
    for age in AGES {
        let mut made = Made::new(age);
        let a = made.collection("a");
        made.add(&a, "id", 0..10);
        made.persist(&a, 10);
        let ours = made.ours();
        ours.exec("BEGIN").expect("begun");
        assert_eq!(prune(&ours, &made.found()).expect("pruned").rows, 9);
        assert_eq!(made.rows().len(), 10, "others see nothing yet");
        ours.exec("ROLLBACK").expect("rolled back");
        assert_eq!(made.rows().len(), 10);
        ours.exec("BEGIN IMMEDIATE").expect("begun");
        prune(&ours, &made.found()).expect("pruned");
        ours.exec("COMMIT").expect("committed");
        assert_eq!(made.rows(), [10]);
    }
}

#[test]
fn the_rows_to_delete_are_determined_under_the_lock() {
    let mut made = Made::new(Age::New);
    let a = made.collection("a");
    made.add(&a, "id", 0..10);
    made.persist(&a, 5);
    let shown = made.plan().expect("a plan");
    made.persist(&a, 8);
    let pruned = made.prune().expect("pruned");
    assert_eq!((shown.rows, pruned.rows), (4, 7));

    made.sql("BEGIN IMMEDIATE");
    let e = made.prune().expect_err("locked");
    assert!(matches!(e, Error::Locked { .. }), "{e}");
    made.sql("ROLLBACK");
}
