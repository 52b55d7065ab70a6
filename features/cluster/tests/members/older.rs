//! A member that is set back to an older state, as by a backup or a snapshot.

use super::loss::wait_for_trouble;
use super::{Cluster, ingest, settle, wait_for};
use crate::common::{self, all, one, refusal};
use rusqlite::Connection;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "CREATE TABLE vote(id INTEGER PRIMARY KEY, n INT)";

fn log_of(path: &Path) -> PathBuf {
    let mut log = path.to_owned().into_os_string();
    log.push("-log");
    log.into()
}

/// Copies a closed database with its log over another one, whose files and directory stay, so that
/// it still seems to be at home.
fn copy_over(from: &Path, to: &Path) {
    std::fs::write(to, std::fs::read(from).expect("the database")).expect("a copy");
    for end in ["-wal", "-shm"] {
        let mut other = to.to_owned().into_os_string();
        other.push(end);
        let _ = std::fs::remove_file(other);
    }
    let (from, to) = (log_of(from), log_of(to));
    std::fs::create_dir_all(&to).expect("the directory");
    for entry in std::fs::read_dir(&to).expect("the log") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("an old file");
    }
    for entry in std::fs::read_dir(&from).expect("the log") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

/// With the log that it has since it joined under another name.
fn reopened(cluster: &Cluster, a: Connection) -> Connection {
    a.close().expect("it closes");
    let a = common::open(&cluster.path("a"));
    ingest(&a, "vote", "");
    a
}

/// The member a has sent two rows that a backup of it does not have, and is set back to that.
fn set_back(cluster: &Cluster) -> (Connection, Connection) {
    let a = cluster.founder("a", SCHEMA);
    let b = cluster.copy(&a, "b");
    ingest(&a, "vote", "");
    a.execute_batch("INSERT INTO vote_in VALUES (1, 1)")
        .expect("a row");
    settle(&[&a, &b]);
    a.close().expect("it closes");
    let (path, backup) = (cluster.path("a"), cluster.path("backup"));
    copy_over(&path, &backup);
    let a = common::open(&path);
    ingest(&a, "vote", "");
    a.execute_batch("INSERT INTO vote_in VALUES (2, 2); INSERT INTO vote_in VALUES (3, 3)")
        .expect("rows");
    settle(&[&a, &b]);
    a.close().expect("it closes");
    copy_over(&backup, &path);
    let a = common::open(&path);
    ingest(&a, "vote", "");
    (a, b)
}

/// Its new rows have the numbers of others, which the stream has. They are not taken for those.
#[test]
fn new_rows_of_an_older_state_are_not_taken_for_sent_ones() {
    for rows in [
        "INSERT INTO vote_in VALUES (4, 4); INSERT INTO vote_in VALUES (5, 5); INSERT INTO vote_in VALUES (6, 6)",
        "INSERT INTO vote_in VALUES (4, 4), (5, 5), (6, 6)",
        "INSERT INTO vote_in VALUES (2, 2); INSERT INTO vote_in VALUES (3, 3); INSERT INTO vote_in VALUES (6, 6)",
    ] {
        for cluster in Cluster::all() {
            let (a, b) = set_back(&cluster);
            a.execute_batch(rows).expect("they are kept");
            wait_for_trouble(&a, "an older state");
            assert_eq!(
                one::<i64>(&a, "SELECT densite_last_seq()"),
                4,
                "they are in the log"
            );
            let waited =
                "SELECT densite_wait(densite_last_seq(), 'stream', 0.2) < densite_last_seq()";
            assert_eq!(one::<i64>(&a, waited), 1);
            // The others go on.
            ingest(&b, "vote", "");
            b.execute_batch("INSERT INTO vote_in VALUES (7, 7)")
                .expect("a row");
            settle(&[&b]);
            assert_eq!(all(&b, "SELECT id FROM vote"), ["1", "2", "3", "7"]);
            let said = cluster
                .join_with(&a, r#""moved": true"#)
                .expect_err("refused");
            assert!(said.to_string().contains("an older state"), "{said}");
            let said = cluster
                .join_with(&a, r#""origin": "new""#)
                .expect_err("refused");
            assert!(said.to_string().contains("3 rows"), "{said}");
            // The user decides.
            let joined = cluster.join_with(&a, r#""origin": "new", "discard": true"#);
            assert_eq!(joined.expect("it joins"), "new");
            let a = reopened(&cluster, a);
            wait_for(&a, "SELECT count(*) FROM vote", &["4"]);
            a.execute_batch("INSERT INTO vote_in VALUES (8, 8)")
                .expect("a row");
            wait_for(&b, "SELECT count(*) FROM vote", &["5"]);
        }
    }
}

/// Without new rows it does not take rows of its own for applied that its log does not have.
#[test]
fn an_older_state_without_new_rows_joins_under_another_name() {
    for cluster in Cluster::all() {
        let (a, b) = set_back(&cluster);
        wait_for_trouble(&a, "an older state");
        let joined = cluster.join_with(&a, r#""origin": "new""#);
        assert_eq!(joined.expect("it joins"), "new");
        let a = reopened(&cluster, a);
        wait_for(&a, "SELECT count(*) FROM vote", &["3"]);
        a.execute_batch("INSERT INTO vote_in VALUES (4, 4)")
            .expect("a row");
        wait_for(&b, "SELECT count(*) FROM vote", &["4"]);
    }
}

/// Rows that were committed come to the others, although the member leaves at once.
#[test]
fn a_member_that_leaves_sends_its_rows_before() {
    let cluster = Cluster::new();
    let a = cluster.founder("a", SCHEMA);
    let b = cluster.copy(&a, "b");
    ingest(&a, "vote", "");
    for n in 0..20 {
        a.execute("INSERT INTO vote_in VALUES (?1, 1)", [n])
            .expect("a row");
    }
    // The connection that leaves has just begun to apply, so the last rows are not sent yet.
    a.close().expect("it closes");
    let a = common::open(&cluster.path("a"));
    assert_eq!(one::<String>(&a, "SELECT densite_leave()"), "a");
    wait_for(&b, "SELECT count(*) FROM vote", &["20"]);
}

#[test]
fn a_member_whose_rows_cannot_be_sent_leaves_only_by_force() {
    let cluster = Cluster::new();
    let (a, _b) = set_back(&cluster);
    a.execute_batch("INSERT INTO vote_in VALUES (4, 4)")
        .expect("a row");
    wait_for_trouble(&a, "an older state");
    let said = refusal(&a, "SELECT densite_leave()");
    assert!(said.contains("--force"), "{said}");
    one::<String>(&a, r#"SELECT densite_leave('{"force": true}')"#);
}
