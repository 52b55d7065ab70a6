//! Declarations of tables: defaults, types, names.

use crate::common::{Db, Held, all, create, one, open, refusal, wait};

/// A row that names only the key has the same values as without ingest.
#[test]
fn defaults_equal_those_of_the_table() {
    for default in [
        "7",
        "- 1",
        "+1.5e3",
        "0x1F",
        ".5",
        "9223372036854775808",
        "'it''s'",
        "-'5'",
        "x'00ff'",
        "true",
        "CURRENT_DATE",
        // A word is text, and so is anything in quotes.
        "word",
        "abort",
        "\"d\"\"q\"",
        "[b r]",
        "`it``s`",
        // Expressions, including those that begin like a literal.
        "(1 + 1)",
        "('x' || 'y')",
        "(-1 - 2)",
        "(x'41' || 'b')",
        "(1e1+2)",
        "('a' /* ' */ || 'b')",
        "(NULL)",
        "(length('four'))",
    ] {
        let db = Db::new(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a DEFAULT {default}, b TEXT DEFAULT {default}, c INT DEFAULT {default})"
        ));
        let con = db.ingest("t", "");
        con.execute_batch("INSERT INTO t(id) VALUES (1)")
            .expect("a plain row");
        con.execute_batch("INSERT INTO t_in(id) VALUES (2)")
            .unwrap_or_else(|e| panic!("{default}: {e}"));
        let row = |table: &str, id: i64| {
            all(
                &con,
                &format!(
                    "SELECT typeof(a), a, typeof(b), b, typeof(c), c FROM {table} WHERE id = {id}"
                ),
            )
        };
        assert_eq!(row("t_in", 2), row("t", 1), "{default}");
        wait(&con);
        assert_eq!(row("t", 2), row("t", 1), "{default}");
    }
}

#[test]
fn an_expression_is_evaluated_for_each_row() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a DEFAULT (1 + abs(random() / 2)), b DEFAULT ('k' || hex(randomblob(8))), c DEFAULT (hex(randomblob(8))))",
    );
    let con = db.ingest("t", "");
    con.execute_batch("INSERT INTO t_in(id) VALUES (1), (2), (3)")
        .expect("inserts");
    wait(&con);
    for column in ["a", "b", "c"] {
        let different: i64 = one(&con, &format!("SELECT count(DISTINCT {column}) FROM t"));
        assert_eq!(different, 3, "{column}");
    }
}

/// Conditions compare through the ingest table as they do in the table.
#[test]
fn columns_compare_as_the_table_declares_them() {
    let db = Db::new(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a ANY, b TEXT) STRICT; INSERT INTO t VALUES (1, '1', '1'), (2, 1, '2')",
    );
    let con = db.ingest("t", "");
    let held = Held::new(&db);
    con.execute_batch("INSERT INTO t_in VALUES (3, '1', '3'), (4, 1, '4')")
        .expect("inserts");
    let found = |what: &str| {
        let sql = format!("SELECT id FROM t_in WHERE {what} ORDER BY id");
        all(&con, &sql).join(" ")
    };
    assert_eq!(found("a = '1'"), "1 3");
    assert_eq!(found("a = 1"), "2 4");
    drop(held);
    wait(&con);
    assert_eq!(found("a = '1'"), "1 3");
}

/// A type can be any words. Some of them have a meaning in a virtual table.
#[test]
fn declared_types_can_have_any_words() {
    for declared in [
        "HIDDEN",
        "INT HIDDEN",
        "\"my type;x\"",
        "\"x)y\"",
        "[a \"b]",
        "[a (b)]",
        "\"PRIMARY KEY\"",
        "\"INT NOT NULL\"",
        "\"9\"",
        "VARCHAR(10, 2)",
        "'--'",
    ] {
        let db = Db::new(&format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a {declared}, b)"
        ));
        let con = db.ingest("t", "");
        con.execute_batch("INSERT INTO t_in VALUES (1, 2, 3)")
            .unwrap_or_else(|e| panic!("{declared}: {e}"));
        let plain = open(&db.path());
        wait(&con);
        assert_eq!(
            all(&con, "SELECT * FROM t_in"),
            all(&plain, "SELECT * FROM t"),
            "{declared}"
        );
    }
    // Types that a program may interpret are kept.
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY, at timestamp, n DECIMAL(10, 2))");
    let con = db.ingest("t", "");
    let types = "SELECT group_concat(type) FROM pragma_table_info('t_in')";
    assert_eq!(
        one::<String>(&con, types),
        "INTEGER,timestamp,DECIMAL(10, 2)"
    );
}

#[test]
fn names_can_have_any_characters() {
    let table = "my \"ta''ble\" é=, ;--";
    let sql = table.replace('"', "\"\"");
    let db = Db::new(&format!(
        "CREATE TABLE \"{sql}\"(\"a b\" INTEGER PRIMARY KEY, \"c, d\", \"e)f\", \"g=\"\"h\", [i], \"select\", \"it's\" INT DEFAULT 4)"
    ));
    for (name, set) in [
        (
            format!("\"{sql}\""),
            r#"'update("c, d", "e)f", "g=""h", [i], `select`, "it''s")'"#,
        ),
        (
            format!("\"{sql}\""),
            r#"update("c, d", "e)f", "g=""h", [i], `select`, "it's")"#,
        ),
        (format!("`{table}`"), "replace"),
        (format!("'{}'", table.replace('\'', "''")), "\"replace\""),
    ] {
        let con = db.open();
        con.execute_batch(&format!(
            "CREATE VIRTUAL TABLE temp.x USING densite_ingest({name}, on_conflict={set});
             INSERT INTO x VALUES (1, 2, 3, 4, 5, 6, 7), (1, 8, 9, 10, 11, 12, 13)"
        ))
        .unwrap_or_else(|e| panic!("{name}, {set}: {e}"));
        let there = ["1|8|9|10|11|12|13"];
        assert_eq!(all(&con, "SELECT * FROM x"), there, "{name}, {set}");
        wait(&con);
        assert_eq!(all(&con, "SELECT * FROM x"), there, "{name}, {set}");
        con.execute_batch("UPDATE x SET \"select\" = 1; DELETE FROM x")
            .expect("changes");
        wait(&con);
    }
    assert_eq!(all(&db.open(), "SELECT * FROM densite_rejects"), [""; 0]);
}

#[test]
fn only_ordinary_tables_of_the_main_database_are_accepted() {
    let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT)");
    let con = db.ingest("t", "");
    con.execute_batch("CREATE TEMP TABLE aside(id INTEGER PRIMARY KEY)")
        .expect("a table");
    for (name, part) in [
        ("densite_applied", "densite_applied is Densite's own"),
        ("Densite_Rejects", "densite_rejects is Densite's own"),
        ("densite_clustered", "densite_clustered is Densite's own"),
        ("sqlite_sequence", "sqlite_sequence is SQLite's own"),
        ("main.t", "there is no table main.t in the main database"),
        ("aside", "there is no table aside in the main database"),
    ] {
        let said = refusal(
            &con,
            &format!("CREATE VIRTUAL TABLE temp.x USING densite_ingest({name})"),
        );
        assert!(said.contains(part), "{name}: {said}");
    }
    assert!(create(&con, "densite_applied", "").is_err());
}
