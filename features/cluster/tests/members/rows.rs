//! Rows of all members, in one order on each.

use super::votes::SCHEMA;
use super::{Cluster, ingest, settle, wait_for};
use crate::common::{all, one, refusal};
use std::time::Instant;

#[test]
fn rows_of_each_member_come_to_all_of_them() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", &format!("{SCHEMA}; INSERT INTO vote VALUES (1, 1)"));
    let b = cluster.copy(&a, "b");
    let c = cluster.copy(&b, "c");
    for con in [&a, &b, &c] {
        ingest(con, "vote", "");
    }
    a.execute_batch("INSERT INTO vote_in VALUES (2, 2)")
        .expect("a row");
    // Shown at once here.
    assert_eq!(one::<i64>(&a, "SELECT count(*) FROM vote_in"), 2);
    b.execute_batch("INSERT INTO vote_in VALUES (3, 3)")
        .expect("a row");
    c.execute_batch("INSERT INTO vote_in VALUES (4, 4), (5, 5)")
        .expect("rows");
    for con in [&a, &b, &c] {
        wait_for(
            con,
            "SELECT * FROM vote",
            &["1|1", "2|2", "3|3", "4|4", "5|5"],
        );
        assert_eq!(one::<i64>(con, "SELECT count(*) FROM densite_rejects"), 0);
    }
    settle(&[&a, &b, &c]);
    let status = all(
        &a,
        "SELECT origin, rows_to_send, members, stopped, trouble FROM densite_stream_status()",
    );
    assert_eq!(status, ["a|0|a b c|NULL|NULL"]);
}

#[test]
fn conflicts_end_the_same_on_all_members() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    let b = cluster.copy(&a, "b");
    for con in [&a, &b] {
        ingest(con, "vote", "");
    }
    for i in 0..50 {
        for (con, n) in [(&a, 1), (&b, 2)] {
            con.execute(&format!("INSERT INTO vote_in VALUES ({i}, {n})"), [])
                .expect("a row");
        }
    }
    settle(&[&a, &b]);
    let votes = "SELECT * FROM vote";
    assert_eq!(all(&a, votes), all(&b, votes));
    let rejects = "SELECT seq, \"table\", \"row\", error FROM densite_rejects";
    assert_eq!(all(&a, rejects), all(&b, rejects));
    assert_eq!(all(&a, rejects).len(), 50);
    let said = refusal(&a, "SELECT densite_replay_rejects()");
    assert!(said.contains("the others would not have the row"), "{said}");
    let said = refusal(&a, "SELECT densite_leave()");
    assert!(said.contains("densite_rejects has 50 rows"), "{said}");
}

#[test]
fn increments_of_all_members_count() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", "CREATE TABLE hits(page TEXT PRIMARY KEY, n INT)");
    let b = cluster.copy(&a, "b");
    for con in [&a, &b] {
        ingest(con, "hits", ", on_conflict='update(n = n + excluded.n)'");
        for _ in 0..100 {
            con.execute_batch("INSERT INTO hits_in VALUES ('home', 1)")
                .expect("a row");
        }
    }
    settle(&[&a, &b]);
    for con in [&a, &b] {
        assert_eq!(all(con, "SELECT * FROM hits"), ["home|200"]);
    }
}

#[test]
fn a_member_that_was_closed_catches_up() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    let b = cluster.copy(&a, "b");
    ingest(&a, "vote", "");
    b.close().expect("closes");
    for i in 0..200 {
        a.execute(&format!("INSERT INTO vote_in VALUES ({i}, {i})"), [])
            .expect("a row");
    }
    settle(&[&a]);
    let b = crate::common::open(&cluster.path("b"));
    ingest(&b, "vote", "");
    wait_for(&b, "SELECT count(*), sum(n) FROM vote", &["200|19900"]);
}

#[test]
fn tables_of_a_member_are_written_through_ingest_alone() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", &format!("{SCHEMA}; INSERT INTO vote VALUES (1, 1)"));
    for sql in [
        "INSERT INTO vote VALUES (2, 2)",
        "UPDATE vote SET n = 2",
        "DELETE FROM vote",
    ] {
        let said = refusal(&a, sql);
        assert!(said.contains("through its ingest table"), "{said}");
    }
    let plain = rusqlite::Connection::open(cluster.path("a")).expect("opens");
    let said = plain
        .execute("DELETE FROM vote", [])
        .expect_err("refused")
        .to_string();
    assert!(said.contains("densite_applies"), "{said}");
    a.query_row("SELECT densite_leave()", [], |row| row.get::<_, String>(0))
        .expect("it leaves");
    a.execute("DELETE FROM vote", [])
        .expect("an ordinary database");
}

#[test]
fn the_schema_changes_in_the_order_of_the_stream() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    let b = cluster.copy(&a, "b");
    ingest(&a, "vote", "");
    a.execute_batch("INSERT INTO vote_in VALUES (1, 1)")
        .expect("a row");
    for sql in [
        "ALTER TABLE vote ADD COLUMN at TEXT",
        "CREATE TABLE page(url TEXT PRIMARY KEY, n INT)",
        "ALTER TABLE nothing ADD COLUMN x",
    ] {
        let sent = a.query_row("SELECT densite_schema(?1)", [sql], |row| {
            row.get::<_, i64>(0)
        });
        assert_eq!(sent.is_ok(), !sql.contains("nothing"), "{sql}: {sent:?}");
    }
    settle(&[&a, &b]);
    ingest(&b, "page", "");
    b.execute_batch("INSERT INTO page_in VALUES ('/', 1)")
        .expect("a row");
    settle(&[&a, &b]);
    for con in [&a, &b] {
        assert_eq!(all(con, "SELECT * FROM vote"), ["1|1|NULL"]);
        assert_eq!(all(con, "SELECT * FROM page"), ["/|1"]);
        let said = refusal(con, "DELETE FROM page");
        assert!(said.contains("through its ingest table"), "{said}");
    }
    for (sql, word) in [
        ("DELETE FROM vote", "does not change the schema"),
        ("CREATE TABLE x(a); DROP TABLE vote", "one statement"),
        (
            "CREATE TRIGGER t AFTER INSERT ON vote BEGIN SELECT random(); END",
            "random",
        ),
        ("CREATE TABLE vote(a)", "already exists"),
        ("BEGIN", ""),
        ("DROP TABLE page", "has a transaction open"),
    ] {
        if word.is_empty() {
            a.execute_batch(sql).expect("a transaction");
            continue;
        }
        let said = a
            .query_row("SELECT densite_schema(?1)", [sql], |_| Ok(()))
            .expect_err(sql)
            .to_string();
        assert!(said.contains(word), "{sql}: {said}");
    }
}

#[test]
fn a_transaction_that_is_larger_than_a_message_is_refused() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", "CREATE TABLE doc(id INTEGER PRIMARY KEY, body BLOB)");
    ingest(&a, "doc", "");
    let said = a
        .execute(
            "INSERT INTO doc_in VALUES (1, zeroblob(17 * 1024 * 1024))",
            [],
        )
        .expect_err("it is too large")
        .to_string();
    assert!(said.contains("max_payload"), "{said}");
    a.execute(
        "INSERT INTO doc_in VALUES (1, zeroblob(3 * 1024 * 1024))",
        [],
    )
    .expect("it fits");
    settle(&[&a]);
    assert_eq!(one::<i64>(&a, "SELECT count(*) FROM doc"), 1);
}

#[test]
fn members_that_differ_stop() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    let b = cluster.copy(&a, "b");
    let c = cluster.copy(&a, "c");
    for con in [&a, &b, &c] {
        ingest(con, "vote", "");
    }
    a.execute_batch("INSERT INTO vote_in VALUES (1, 1)")
        .expect("a row");
    settle(&[&a, &b, &c]);
    one::<i64>(&a, "SELECT densite_compare()");
    let same = "SELECT count(DISTINCT tables), count(*) FROM densite_digests";
    for con in [&a, &b, &c] {
        wait_for(con, same, &["1|3"]);
    }
    // A row changes behind Densite's back.
    c.execute_batch("DROP TRIGGER densite_member_update_vote; UPDATE vote SET n = 7")
        .expect("damage");
    one::<i64>(&b, "SELECT densite_compare()");
    let stopped =
        "SELECT stopped LIKE 'its table vote differs from that of%' FROM densite_stream_status()";
    wait_for(&c, stopped, &["1"]);
    c.execute_batch("INSERT INTO vote_in VALUES (100, 1)")
        .expect("it waits in the log");
    let said = refusal(&c, "SELECT densite_wait()");
    assert!(said.contains("member of the stream has stopped"), "{said}");
    for con in [&a, &b] {
        con.execute_batch("INSERT INTO vote_in VALUES (NULL, 9)")
            .expect("a row");
    }
    settle(&[&a, &b]);
    assert_eq!(one::<i64>(&a, "SELECT count(*) FROM vote"), 3);
    assert_eq!(one::<i64>(&c, "SELECT count(*) FROM vote"), 1);
    // Joining again does not hide it, unless the user knows better.
    let said = refusal(&c, &format!("SELECT densite_join('{}')", cluster.address()));
    assert!(
        said.contains("its table vote differs") && said.contains("--right"),
        "{said}"
    );
    let right = format!(
        "SELECT densite_join('{}', '{{\"right\": true}}')",
        cluster.address()
    );
    assert_eq!(one::<String>(&c, &right), "c");
    settle(&[&c]);
    // The row that waited comes to all.
    for con in [&a, &b, &c] {
        wait_for(con, "SELECT count(*) FROM vote", &["4"]);
    }
}

#[test]
fn no_two_members_give_out_the_same_id() {
    let cluster = Cluster::new();
    let a = cluster.founder(
        "a",
        "CREATE TABLE note(id INTEGER PRIMARY KEY AUTOINCREMENT, by TEXT)",
    );
    let b = cluster.copy(&a, "b");
    // At once: an insert waits until the member knows its ids.
    for con in [&a, &b] {
        ingest(con, "note", "");
    }
    for i in 0..300 {
        for (con, n, by) in [(&a, 1i64, "a"), (&b, 2, "b")] {
            con.execute("INSERT INTO note_in(by) VALUES (?1)", [by])
                .expect("a row");
            assert_eq!(con.last_insert_rowid(), (n << 40) + 1 + i);
        }
    }
    settle(&[&a, &b]);
    let notes = "SELECT by, count(*), min(id) >> 40 FROM note GROUP BY by";
    for con in [&a, &b] {
        assert_eq!(all(con, notes), ["a|300|1", "b|300|2"]);
        assert_eq!(one::<i64>(con, "SELECT count(*) FROM densite_rejects"), 0);
    }
    b.close().expect("closes");
    let b = crate::common::open(&cluster.path("b"));
    ingest(&b, "note", "");
    b.execute("INSERT INTO note_in(by) VALUES ('again')", [])
        .expect("a row");
    assert!(b.last_insert_rowid() > (2 << 40) + 300, "never twice");
}

#[test]
fn a_wait_for_the_stream_ends_when_the_stream_has_the_row() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    ingest(&a, "vote", "");
    a.execute_batch("INSERT INTO vote_in VALUES (1, 1)")
        .expect("a row");
    let last = one::<i64>(&a, "SELECT densite_last_seq()");
    let wait = format!("SELECT densite_wait({last}, 'stream', 20)");
    assert_eq!(one::<i64>(&a, &wait), last);
    settle(&[&a]);
    assert_eq!(one::<i64>(&a, "SELECT densite_wait(NULL, 'stream')"), last);
    let said = refusal(&a, "SELECT densite_unsubscribe('densite_stream')");
    assert!(said.contains("Densite's own"), "{said}");
    one::<String>(&a, "SELECT densite_leave()");
    let said = refusal(&a, "SELECT densite_wait(1, 'stream')");
    assert!(said.contains("no member"), "{said}");
}

/// Each message costs a sync of the server and work of all members.
#[test]
fn small_transactions_share_messages() {
    for cluster in Cluster::all() {
        let a = cluster.founder("a", SCHEMA);
        ingest(&a, "vote", "");
        let last = || one::<i64>(&a, "SELECT last_message FROM densite_stream_status()");
        let (before, begun) = (last(), Instant::now());
        for n in 0..300 {
            a.execute("INSERT INTO vote_in VALUES (?1, 1)", [n])
                .expect("a row");
        }
        settle(&[&a]);
        let most = i64::try_from(begun.elapsed().as_millis() / 5).expect("few") + 5;
        let messages = last() - before;
        assert!(
            (1..=most).contains(&messages),
            "{messages} of at most {most}"
        );
    }
}

/// The rows of a COMMIT that failed have numbers in the log, and no member gets them.
#[test]
fn a_commit_that_fails_stops_no_member() {
    let cluster = Cluster::new();
    let mut a = cluster.founder("a", SCHEMA);
    let b = cluster.copy(&a, "b");
    ingest(&a, "vote", "");
    a.commit_hook(Some(|| true)).expect("a hook");
    a.execute_batch("INSERT INTO vote_in VALUES (1, 1), (2, 2)")
        .expect_err("refused");
    a.commit_hook(None::<fn() -> bool>).expect("no hook");
    settle(&[&a, &b]);
    a.execute_batch("INSERT INTO vote_in VALUES (3, 3)")
        .expect("a row");
    settle(&[&a, &b]);
    for con in [&a, &b] {
        assert_eq!(all(con, "SELECT * FROM vote"), ["3|3"]);
    }
}
