//! Rule L5 where sorting or cutting a batch would show: the table is as if rows had been applied
//! one by one.

use crate::common::{Db, Held, all, create, wait};

/// A row without an id gets it when it is applied, and not before rows that bring their ids.
#[test]
fn rows_without_an_id_keep_the_order_of_the_log() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    con.execute_batch(
        "INSERT INTO t_in VALUES (1, 'a'); INSERT INTO t_in(v) VALUES ('b'); INSERT INTO t_in VALUES (7, 'c'); INSERT INTO t_in(v) VALUES ('d')",
    )
    .expect("inserts");
    drop(held);
    wait(&con);
    assert_eq!(all(&con, "SELECT error FROM densite_rejects"), [""; 0]);
    assert_eq!(all(&con, "SELECT * FROM t"), ["1|a", "2|b", "7|c", "8|d"]);
}

/// Tables that depend on each other, by a trigger of one or a foreign key of the other.
#[test]
fn tables_that_depend_on_each_other_keep_their_order() {
    for schema in [
        "CREATE TABLE customers(id INTEGER PRIMARY KEY); CREATE TABLE orders(id INTEGER PRIMARY KEY, customer);
         CREATE TRIGGER known BEFORE INSERT ON orders WHEN NOT EXISTS (SELECT 1 FROM customers WHERE id = new.customer) BEGIN SELECT RAISE(ABORT, 'who?'); END",
        "CREATE TABLE customers(id INTEGER PRIMARY KEY); CREATE TABLE orders(id INTEGER PRIMARY KEY, customer);
         CREATE TRIGGER used BEFORE DELETE ON customers WHEN EXISTS (SELECT 1 FROM orders WHERE customer = old.id) BEGIN SELECT RAISE(ABORT, 'in use'); END",
        "CREATE TABLE customers(id INTEGER PRIMARY KEY); CREATE TABLE orders(id INTEGER PRIMARY KEY, customer REFERENCES customers)",
    ] {
        let db = Db::new(schema);
        let con = db.ingest("customers", "");
        create(&con, "orders", "").expect("orders_in");
        let held = Held::new(&db);
        for id in [9, 5] {
            con.execute_batch(&format!(
                "INSERT INTO customers_in VALUES ({id}); INSERT INTO orders_in VALUES ({id}, {id}); DELETE FROM orders_in WHERE id = {id}; DELETE FROM customers_in WHERE id = {id};
                 INSERT INTO customers_in VALUES ({id}); INSERT INTO orders_in VALUES ({id}, {id})"
            ))
            .expect("writes");
        }
        drop(held);
        wait(&con);
        assert_eq!(
            all(&con, "SELECT seq, error FROM densite_rejects"),
            [""; 0],
            "{schema}"
        );
        assert_eq!(all(&con, "SELECT * FROM orders"), ["5|5", "9|9"], "{schema}");
    }
}

/// A table that was renamed while rows wait has two names in the log, and is one table.
#[test]
fn another_spelling_of_a_table_is_the_same_table() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let con = db.ingest("t", ", on_conflict=replace");
    wait(&con);
    let plain = rusqlite::Connection::open(db.path()).expect("opens");
    plain
        .execute_batch("ALTER TABLE t RENAME TO x; ALTER TABLE x RENAME TO T")
        .expect("renames");
    let other = db.ingest("T", ", on_conflict=replace");
    let held = Held::new(&db);
    other
        .execute_batch("INSERT INTO T_in VALUES (1, 'first')")
        .expect("inserts");
    con.execute_batch("INSERT INTO t_in VALUES (1, 'second'), (2, 'x')")
        .expect("inserts");
    other
        .execute_batch("INSERT INTO T_in VALUES (1, 'third')")
        .expect("inserts");
    for sql in ["SELECT * FROM t_in", "SELECT * FROM T_in"] {
        let con = if sql.contains("T_in") { &other } else { &con };
        assert_eq!(all(con, sql), ["1|third", "2|x"], "{sql}");
    }
    drop(held);
    wait(&con);
    assert_eq!(all(&con, "SELECT * FROM t"), ["1|third", "2|x"]);
}

/// If a deferred key refuses a transaction, none of it is applied, whatever else is in the batch.
#[test]
fn a_transaction_that_is_refused_at_its_end_is_rejected_as_a_whole() {
    for (before, after) in [(1, 1), (1, 10), (5000, 3), (0, 9000)] {
        let db = Db::new(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, up REFERENCES t(id) DEFERRABLE INITIALLY DEFERRED)",
        );
        let con = db.ingest("t", "");
        let held = Held::new(&db);
        let some = |from: i64, rows: i64| {
            format!(
                "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {rows} - 1) INSERT INTO t_in SELECT {from} + i, NULL FROM n WHERE {rows};"
            )
        };
        con.execute_batch(&some(1, before)).expect("inserts");
        con.execute_batch(&format!(
            "BEGIN; {} INSERT INTO t_in VALUES (20000, 99999); {} COMMIT",
            some(10_000, after),
            some(20_001, 3)
        ))
        .expect("inserts");
        con.execute_batch("INSERT INTO t_in VALUES (50000, 50000)")
            .expect("inserts");
        drop(held);
        wait(&con);
        assert_eq!(
            all(
                &con,
                "SELECT count(*) FILTER (WHERE id < 10000), count(*) FILTER (WHERE id BETWEEN 10000 AND 30000), max(id) FROM t"
            ),
            [format!("{before}|0|50000")]
        );
        assert_eq!(
            all(&con, "SELECT count(*), min(error) FROM densite_rejects"),
            [format!("{}|FOREIGN KEY constraint failed", after + 4)]
        );
    }
}

/// A row can run triggers of tables that a foreign key changes with it.
#[test]
fn changes_of_a_cascaded_trigger_are_undone() {
    let db = Db::new(
        "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE c(id, p REFERENCES p ON DELETE CASCADE); CREATE TABLE seen(id); INSERT INTO p VALUES (1); INSERT INTO c VALUES (1, 1), (2, 1);
         CREATE TRIGGER a AFTER DELETE ON c BEGIN INSERT INTO seen VALUES (old.id); SELECT CASE old.id WHEN 2 THEN RAISE(FAIL, 'half done') END; END",
    );
    let con = db.ingest("p", "");
    con.execute_batch("DELETE FROM p_in WHERE id = 1")
        .expect("logged");
    wait(&con);
    assert_eq!(
        all(&con, "SELECT error FROM densite_rejects"),
        ["half done"]
    );
    assert_eq!(
        all(
            &con,
            "SELECT id FROM p UNION ALL SELECT id FROM c UNION ALL SELECT id FROM seen"
        ),
        ["1", "1", "2"]
    );
}
