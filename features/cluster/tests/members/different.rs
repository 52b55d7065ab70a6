//! Schemas with which members would become different: joining and `densite_schema` refuse them.

use super::{Cluster, settle};
use crate::common::{self, all, one, refusal};

const TABLES: &str = "CREATE TABLE e(k INTEGER PRIMARY KEY, v); CREATE TABLE aud(k INT, n);";

#[test]
fn what_an_insert_reaches_is_the_same_on_all_members() {
    let refused = [
        (
            "a trigger",
            "CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud VALUES (new.k, random()); END",
            "the trigger t uses random",
        ),
        (
            "a quoted function",
            "CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud VALUES (new.k, \"random\"()); END",
            "the trigger t uses random",
        ),
        (
            "a trigger of a trigger",
            "CREATE TABLE third(n); CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud VALUES (new.k, 1); END; CREATE TRIGGER u AFTER INSERT ON aud BEGIN INSERT INTO third VALUES (changes()); END",
            "the trigger u uses changes",
        ),
        (
            "an update",
            "CREATE TRIGGER t AFTER UPDATE OF v ON e BEGIN UPDATE aud SET n = CURRENT_TIMESTAMP; END",
            "uses current_timestamp",
        ),
        (
            "a delete",
            "CREATE TRIGGER t AFTER DELETE ON e WHEN old.k > 7 BEGIN DELETE FROM aud WHERE n < last_insert_rowid(); END",
            "uses last_insert_rowid",
        ),
        (
            "a default",
            "CREATE TABLE d(k, at DEFAULT CURRENT_TIMESTAMP); CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO d(k) VALUES (new.k); END",
            "the table d uses current_timestamp",
        ),
        (
            "a default of an action",
            "CREATE TABLE d(k REFERENCES e(k) ON DELETE SET DEFAULT DEFAULT (random()))",
            "the table d uses random",
        ),
        (
            "a CHECK",
            "CREATE TABLE d(k, CHECK (random() % 2))",
            "the table d uses random",
        ),
        (
            "a view",
            "CREATE VIEW w AS SELECT random() AS r; CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud SELECT new.k, r FROM w; END",
            "the view w uses random",
        ),
        (
            "a view of a view",
            "CREATE VIEW w AS SELECT julianday('now') AS r; CREATE VIEW x AS SELECT * FROM w; CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud SELECT new.k, r FROM x; END",
            "the view w uses julianday",
        ),
        (
            "a trigger of a view",
            "CREATE VIEW w AS SELECT * FROM aud; CREATE TRIGGER i INSTEAD OF INSERT ON w BEGIN INSERT INTO aud VALUES (new.k, strftime('%f')); END; CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO w VALUES (new.k, 1); END",
            "the trigger i uses strftime",
        ),
        (
            "the version",
            "CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud VALUES (new.k, sqlite_version()); END",
            "uses sqlite_version",
        ),
        (
            "a function of the application in a trigger",
            "CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud VALUES (new.k, app(new.v)); END",
            "no such function: app",
        ),
        (
            "a function of the application in an index",
            "CREATE INDEX i ON e(app(v))",
            "app",
        ),
        (
            "a function of the application in a partial index",
            "CREATE INDEX i ON e(v) WHERE app(v)",
            "app",
        ),
        (
            "a function of the application in a CHECK",
            "CREATE TABLE d(k, CHECK (app(k)))",
            "app",
        ),
        (
            "a function of the application in a generated column",
            "CREATE TABLE d(k, g AS (app(k)) STORED)",
            "app",
        ),
        (
            "a collation of the application",
            "CREATE TABLE d(k COLLATE app)",
            "app",
        ),
        (
            "some rows of many",
            "CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud SELECT k, v FROM e WHERE v > 1 LIMIT 1; END",
            "the trigger t has a LIMIT without ORDER BY",
        ),
        (
            "some rows of many, in a view of a view",
            "CREATE VIEW w AS SELECT * FROM (SELECT k FROM aud LIMIT 2) ORDER BY k; CREATE VIEW x AS SELECT * FROM w; CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud SELECT k, 1 FROM [X]; END",
            "the view w has a LIMIT without ORDER BY",
        ),
        (
            "the journal mode",
            "CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud SELECT new.k, journal_mode FROM [pragma_journal_mode]; END",
            "the trigger t reads pragma_journal_mode",
        ),
        (
            "a root page, in a view",
            "CREATE VIEW w AS SELECT rootpage FROM sqlite_master; CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud SELECT new.k, max(rootpage) FROM w; END",
            "the view w reads sqlite_master",
        ),
        (
            "a row id that VACUUM changes",
            "CREATE TABLE d(v); CREATE TRIGGER t AFTER INSERT ON d BEGIN INSERT INTO aud VALUES (NEW.\"RowId\", 1); END",
            "the trigger t takes row ids of d",
        ),
        (
            "a collation of the application in an index",
            "CREATE INDEX i ON e(v COLLATE app)",
            "app",
        ),
    ];
    for (name, sql, said) in refused {
        let cluster = Cluster::new();
        let con = common::open(&cluster.path("a"));
        let flags = rusqlite::functions::FunctionFlags::SQLITE_UTF8
            | rusqlite::functions::FunctionFlags::SQLITE_DETERMINISTIC;
        con.create_scalar_function("app", 1, flags, |_| Ok(1))
            .expect("a function");
        con.create_collation("app", |a: &str, b: &str| a.cmp(b))
            .expect("a collation");
        con.execute_batch(&format!("{TABLES} {sql}"))
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        // Defaults that the writer computes.
        let refused = cluster.join_with(&con, r#""origin": "a""#).expect_err(name);
        let refused = refused.to_string();
        assert!(refused.contains(said), "{name}: {refused}");
    }
}

#[test]
fn what_no_insert_reaches_is_allowed() {
    let cluster = Cluster::new();
    let a = cluster.founder(
        "a",
        &format!(
            "{TABLES}
             CREATE TABLE d(k INTEGER PRIMARY KEY, at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, day AS (date(at)) STORED, r DEFAULT (random()), CHECK (julianday(at) > 0));
             CREATE INDEX i ON d(strftime('%Y', at)) WHERE at IS NOT NULL;
             CREATE TABLE log(k, at DEFAULT CURRENT_TIMESTAMP);
             CREATE TABLE varchar(random VARCHAR(20), \"date\" DECIMAL(1));
             CREATE VIEW recent AS SELECT * FROM d WHERE at > datetime('now') LIMIT 10;
             CREATE VIEW first AS SELECT k FROM aud WHERE n IS NOT 'sqlite_x' ORDER BY k LIMIT 1;
             CREATE TRIGGER w AFTER UPDATE ON e WHEN EXISTS (SELECT 1 FROM aud LIMIT 1) BEGIN
               INSERT INTO log(k, at) SELECT new.rowid, k FROM first; -- LIMIT 1
             END;
             CREATE TRIGGER t AFTER INSERT ON e BEGIN
               INSERT INTO log(k, at) VALUES (new.k, upper(new.v)); UPDATE log SET k = abs(k) + (SELECT count(*) FROM aud);
             END;
             CREATE VIRTUAL TABLE f USING fts5(v, content='e', content_rowid='k');
             CREATE TRIGGER u AFTER INSERT ON e BEGIN INSERT INTO f(rowid, v) VALUES (new.k, new.v); END"
        ),
    );
    let again = cluster.join_with(&a, r#""replicas": 1"#);
    assert_eq!(again.expect("as a member"), "a");
    let b = cluster.copy(&a, "b");
    for sql in [
        "CREATE TRIGGER v AFTER DELETE ON e BEGIN INSERT INTO log(k, at) VALUES (old.k, ''1''); END",
        "CREATE INDEX j ON log(k, length(at))",
        "CREATE TABLE temp(a)",
        "DROP TABLE varchar -- for good",
    ] {
        one::<i64>(&a, &format!("SELECT densite_wait(densite_schema('{sql}'))"));
    }
    settle(&[&a, &b]);
    assert!(all(&b, "SELECT * FROM densite_rejects").is_empty());
}

#[test]
fn a_change_of_the_schema_reaches_the_same_on_all_members() {
    let cluster = Cluster::new();
    let a = cluster.founder(
        "a",
        &format!(
            "{TABLES}
             CREATE TABLE log(k, at DEFAULT CURRENT_TIMESTAMP);
             CREATE VIEW w AS SELECT random() AS r;"
        ),
    );
    let b = cluster.copy(&a, "b");
    for (sql, said) in [
        (
            "CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO log(k) VALUES (new.k); END",
            "the table log uses current_timestamp",
        ),
        (
            "CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud SELECT new.k, r FROM w; END",
            "the view w uses random",
        ),
        (
            "CREATE TABLE d(k, CHECK (random()))",
            "random gives another value",
        ),
        ("CREATE TABLE d(k COLLATE app)", "app"),
        ("DROP TABLE densite_applied", "belong to Densite"),
        ("DROP TRIGGER densite_member_insert_e", "belong to Densite"),
        ("CREATE TABLE \"densite_x\"(a)", "belong to Densite"),
        ("CREATE TEMP TABLE x(a)", "one connection"),
        (
            "CREATE TABLE x AS SELECT * FROM e LIMIT 1",
            "LIMIT without ORDER BY",
        ),
        (
            "CREATE TABLE x AS SELECT data_version FROM pragma_data_version",
            "the statement reads pragma_data_version",
        ),
        (
            "CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO aud SELECT k, v FROM e LIMIT 1; END",
            "the trigger t has a LIMIT without ORDER BY",
        ),
    ] {
        let said_now = refusal(&a, &format!("SELECT densite_schema('{sql}')"));
        assert!(said_now.contains(said), "{sql}: {said_now}");
    }
    settle(&[&a, &b]);
}
