//! Who can join a stream, copies of members, and leaving.

use super::loss::wait_for_trouble;
use super::votes::SCHEMA;
use super::{Cluster, copy_dir, ingest, settle, wait_for};
use crate::common::{self, all, one, refusal};

/// A stream whose only member, with one row, is closed.
fn closed() -> Cluster {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    ingest(&a, "vote", "");
    a.execute_batch("INSERT INTO vote_in VALUES (1, 1)")
        .expect("a row");
    settle(&[&a]);
    a.close().expect("closes");
    cluster
}

#[test]
fn a_database_that_is_no_copy_of_a_member_is_refused() {
    let cluster = Cluster::new();
    let _a = cluster.founder("a", SCHEMA);
    let other = common::open(&cluster.path("other"));
    other.execute_batch(SCHEMA).expect("a table");
    let join = format!("SELECT densite_join('{}')", cluster.address());
    let said = refusal(&other, &join);
    assert!(said.contains("join a copy of a member"), "{said}");
    let empty = common::open(&cluster.path("empty"));
    let said = refusal(&empty, &join);
    assert!(
        said.contains("did not begin with an empty database"),
        "{said}"
    );
}

#[test]
fn a_stream_that_began_empty_makes_new_members() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", "");
    one::<i64>(
        &a,
        &format!("SELECT densite_wait(densite_schema('{SCHEMA}'))"),
    );
    ingest(&a, "vote", "");
    a.execute_batch("INSERT INTO vote_in VALUES (1, 1), (2, 2)")
        .expect("rows");
    settle(&[&a]);
    let b = cluster.founder("b", "");
    wait_for(
        &b,
        "SELECT count(*) FROM sqlite_schema WHERE name = 'vote'",
        &["1"],
    );
    wait_for(&b, "SELECT * FROM vote", &["1|1", "2|2"]);
    settle(&[&a, &b]);
}

#[test]
fn a_copy_of_a_member_waits_for_a_decision() {
    let cluster = closed();
    for name in ["b", "c"] {
        std::fs::copy(cluster.path("a"), cluster.path(name)).expect("copied");
        copy_dir(
            &cluster.path("a").with_extension("db-log"),
            &cluster.path(name).with_extension("db-log"),
        );
    }
    let b = common::open(&cluster.path("b"));
    ingest(&b, "vote", "");
    b.execute_batch("INSERT INTO vote_in VALUES (2, 2)")
        .expect("it waits in the log");
    let said = refusal(&b, "SELECT densite_wait()");
    assert!(said.contains("a copy of a, a member"), "{said}");
    let said = refusal(&b, &format!("SELECT densite_join('{}')", cluster.address()));
    assert!(
        said.contains("1 rows in its log") && said.contains("--discard"),
        "{said}"
    );
    // The copy that has sent nothing has nothing to give up.
    let c = common::open(&cluster.path("c"));
    cluster.join(&c, "c");
    drop(c);
    let c = common::open(&cluster.path("c"));
    ingest(&c, "vote", "");
    c.execute_batch("INSERT INTO vote_in VALUES (3, 3)")
        .expect("a row");
    let a = common::open(&cluster.path("a"));
    ingest(&a, "vote", "");
    settle(&[&a, &c]);
    for con in [&a, &c] {
        assert_eq!(all(con, "SELECT * FROM vote"), ["1|1", "3|3"]);
    }
    assert!(cluster.path("c").with_extension("db-log-of-a").exists());
}

/// As `densite restore` makes it, of a replica of a member.
#[test]
fn a_copy_with_a_log_works_in_the_connection_that_joined() {
    let cluster = closed();
    std::fs::copy(cluster.path("a"), cluster.path("b")).expect("copied");
    copy_dir(
        &cluster.path("a").with_extension("db-log"),
        &cluster.path("b").with_extension("db-log"),
    );
    let a = common::open(&cluster.path("a"));
    ingest(&a, "vote", "");
    a.execute_batch("INSERT INTO vote_in VALUES (2, 2)")
        .expect("a row");
    settle(&[&a]);
    let b = common::open(&cluster.path("b"));
    let origin = "SELECT origin FROM densite_stream_status()";
    assert_eq!(one::<String>(&b, origin), "a");
    cluster.join(&b, "b");
    wait_for(&b, "SELECT * FROM vote", &["1|1", "2|2"]);
    assert_eq!(one::<String>(&b, origin), "b");
    ingest(&b, "vote", "");
    b.execute_batch("INSERT INTO vote_in VALUES (3, 3)")
        .expect("a row");
    settle(&[&a, &b]);
    for con in [&a, &b] {
        assert_eq!(all(con, "SELECT * FROM vote"), ["1|1", "2|2", "3|3"]);
    }
}

#[test]
fn a_moved_member_goes_on() {
    let cluster = closed();
    let (from, to) = (cluster.path("a"), cluster.path("moved"));
    std::fs::copy(&from, &to).expect("copied");
    copy_dir(&from.with_extension("db-log"), &to.with_extension("db-log"));
    std::fs::remove_file(&from).expect("removed");
    std::fs::remove_dir_all(from.with_extension("db-log")).expect("removed");
    let moved = common::open(&to);
    let join = format!(
        "SELECT densite_join('{}', '{{\"moved\": true}}')",
        cluster.address()
    );
    assert_eq!(one::<String>(&moved, &join), "a");
    ingest(&moved, "vote", "");
    moved
        .execute_batch("INSERT INTO vote_in VALUES (2, 2)")
        .expect("a row");
    settle(&[&moved]);
    assert_eq!(all(&moved, "SELECT * FROM vote"), ["1|1", "2|2"]);
}

#[test]
fn a_member_that_left_is_an_ordinary_database() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    let b = cluster.copy(&a, "b");
    for con in [&a, &b] {
        ingest(con, "vote", "");
    }
    assert_eq!(one::<String>(&b, "SELECT densite_leave()"), "b");
    b.execute_batch("INSERT INTO vote_in VALUES (7, 7)")
        .expect("a row");
    common::wait(&b);
    assert_eq!(all(&b, "SELECT * FROM vote"), ["7|7"]);
    assert!(all(&b, "SELECT * FROM densite_stream_status()").is_empty());
    settle(&[&a]);
    assert_eq!(
        all(&a, "SELECT members FROM densite_stream_status()"),
        ["a"]
    );
    let said = refusal(&b, "SELECT densite_leave()");
    assert!(said.contains("no member"), "{said}");
}

/// A member is at work until the worker's next round. Here the database has left between the two,
/// as it does where the stream says so before the database is committed.
#[test]
fn a_wait_after_leaving_hears_nothing_of_the_member() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    let b = cluster.copy(&a, "b");
    ingest(&b, "vote", "");
    settle(&[&a, &b]);
    let leaving = rusqlite::Connection::open(cluster.path("b")).expect("opens");
    leaving
        .execute_batch("BEGIN IMMEDIATE; UPDATE densite_applied SET stream = NULL, stream_message = 0, stream_mark = 0, stream_row = 0; DROP TABLE densite_member")
        .expect("the worker has to wait");
    one::<String>(&a, r#"SELECT densite_leave('{"member": "b"}')"#);
    b.execute_batch("INSERT INTO vote_in VALUES (7, 7)")
        .expect("a row");
    wait_for_trouble(&b, "has left");
    leaving.execute_batch("COMMIT").expect("it has left");
    common::wait(&b);
    assert_eq!(all(&b, "SELECT * FROM vote"), ["7|7"]);
}

#[test]
fn what_stands_against_joining_is_listed() {
    let cluster = Cluster::new();
    let con = common::open(&cluster.path("a"));
    con.execute_batch(&format!(
        "{SCHEMA}; CREATE TRIGGER t AFTER INSERT ON vote BEGIN UPDATE vote SET n = random(); END"
    ))
    .expect("a trigger");
    for (sql, word) in [
        (
            format!("SELECT densite_join('{}')", cluster.address()),
            "the trigger t uses random",
        ),
        ("SELECT densite_join('localhost')".into(), "no scheme"),
        (
            "SELECT densite_join('nats://h/S', '{\"monitr\": 1}')".into(),
            "monitr",
        ),
        (
            "SELECT densite_join('file:///x')".into(),
            "file:///x: a directory cannot keep a stream: start a NATS server",
        ),
        ("SELECT densite_join()".into(), "wants the address"),
    ] {
        let said = refusal(&con, &sql);
        assert!(said.contains(word), "{sql}: {said}");
    }
}

/// Rejects are the same on all members, so a copy keeps them.
#[test]
fn a_member_with_rejects_is_copied_and_goes_on() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    ingest(&a, "vote", "");
    a.execute_batch("INSERT INTO vote_in VALUES (1, 1); INSERT INTO vote_in VALUES (1, 2)")
        .expect("rows");
    settle(&[&a]);
    let b = cluster.copy(&a, "b");
    ingest(&b, "vote", "");
    b.execute_batch("INSERT INTO vote_in VALUES (1, 3)")
        .expect("a row");
    settle(&[&a, &b]);
    let again = cluster.join_with(&a, r#""replicas": 1"#);
    assert_eq!(again.expect("other settings"), "a");
    a.execute_batch("INSERT INTO vote_in VALUES (2, 2)")
        .expect("a row");
    settle(&[&a, &b]);
    let rejects = "SELECT seq, \"table\", \"row\", error FROM densite_rejects";
    assert_eq!(all(&a, rejects).len(), 2);
    for sql in ["SELECT * FROM vote", rejects] {
        assert_eq!(all(&a, sql), all(&b, sql));
    }
}

#[test]
fn a_copy_whose_joining_failed_can_try_again() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    let copy = cluster.path("copy");
    a.execute("VACUUM INTO ?1", [copy.to_string_lossy()])
        .expect("a copy");
    let con = common::open(&copy);
    let join =
        |settings: &str| format!("SELECT densite_join('{}', '{settings}')", cluster.address());
    for (settings, word) in [
        (r#"{"origin": "a"}"#, "has a member with the name a"),
        (r#"{"origin": "a.b"}"#, "not a valid name"),
    ] {
        let said = refusal(&con, &join(settings));
        assert!(said.contains(word), "{said}");
    }
    // What an attempt leaves that failed later.
    let other = common::open(&cluster.path("other"));
    other.execute_batch(SCHEMA).expect("a table");
    ingest(&other, "vote", "");
    other.close().expect("closes");
    copy_dir(
        &cluster.path("other").with_extension("db-log"),
        &copy.with_extension("db-log"),
    );
    assert_eq!(one::<String>(&con, &join(r#"{"origin": "c"}"#)), "c");
    ingest(&con, "vote", "");
    con.execute_batch("INSERT INTO vote_in VALUES (1, 1)")
        .expect("a row");
    settle(&[&a, &con]);
    assert_eq!(all(&a, "SELECT * FROM vote"), ["1|1"]);
    let said = refusal(&con, &join(r#"{"origin": "d"}"#));
    assert!(said.contains("cannot become d"), "{said}");
}

/// A member that rejected its rows would differ from the others.
#[test]
fn a_database_that_lacks_a_table_of_the_members_is_refused() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    for sql in ["CREATE TABLE page(url TEXT PRIMARY KEY)", "DROP TABLE page"] {
        one::<i64>(&a, &format!("SELECT densite_wait(densite_schema('{sql}'))"));
    }
    ingest(&a, "vote", "");
    let b = cluster.copy(&a, "b");
    let copy = cluster.path("copy");
    a.execute("VACUUM INTO ?1", [copy.to_string_lossy()])
        .expect("a copy");
    let con = common::open(&copy);
    con.execute_batch("DROP TABLE vote").expect("dropped");
    let said = refusal(
        &con,
        &format!("SELECT densite_join('{}')", cluster.address()),
    );
    assert!(said.contains("lacks the table vote"), "{said}");
    // One that is a member already says so when rows need the table. They stay in the stream.
    b.execute_batch("DROP TABLE vote").expect("dropped");
    a.execute_batch("INSERT INTO vote_in VALUES (1, 1)")
        .expect("a row");
    settle(&[&a]);
    wait_for_trouble(&b, "lacks the table vote");
    b.execute_batch(SCHEMA).expect("made again");
    wait_for(&b, "SELECT * FROM vote", &["1|1"]);
    settle(&[&a, &b]);
    assert_eq!(one::<i64>(&b, "SELECT count(*) FROM densite_rejects"), 0);
}

/// The stream has the first message of a database that is no member, as after a kill.
#[test]
fn an_attempt_of_another_database_is_named() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    let other = common::open(&cluster.path("other"));
    other.execute_batch(SCHEMA).expect("a table");
    let said = cluster
        .join_with(&other, r#""origin": "b""#)
        .expect_err("refused");
    let said = said.to_string();
    assert!(
        said.contains("only the joining of a") && said.contains("remove the stream"),
        "{said}"
    );
    // A name that a dead attempt holds.
    let copy = cluster.path("copy");
    a.execute("VACUUM INTO ?1", [copy.to_string_lossy()])
        .expect("a copy");
    let con = common::open(&copy);
    let said = cluster
        .join_with(&con, r#""origin": "a""#)
        .expect_err("refused");
    assert!(said.to_string().contains("--member a"), "{said}");
}
