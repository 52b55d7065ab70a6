//! What a user sees when a stream or the database of a member is not as it was.

use super::loss::{assert_same, wait_for_trouble};
use super::votes::{SCHEMA, open, write};
use super::{Cluster, ingest, settle, wait_for};
use crate::common::{self, all, one, refusal};

fn founder(cluster: &Cluster) -> rusqlite::Connection {
    let a = cluster.founder("a", SCHEMA);
    ingest(&a, "vote", "");
    write(&a, 0..5);
    settle(&[&a]);
    a
}

/// A member that has sent rows, and a copy of it that has, too.
fn two(cluster: &Cluster, ids: std::ops::Range<i64>) -> [rusqlite::Connection; 2] {
    let a = founder(cluster);
    let b = cluster.copy(&a, "b");
    ingest(&b, "vote", "");
    write(&b, ids);
    settle(&[&a, &b]);
    [a, b]
}

#[test]
fn a_stream_that_was_removed_stops_its_members() {
    for cluster in Cluster::all() {
        let a = founder(&cluster);
        cluster.place().remove();
        write(&a, 5..6);
        wait_for_trouble(&a, "there is no stream");
        cluster.place().stream();
        wait_for_trouble(&a, "made again");
        a.close().expect("closes");
        let a = open(&cluster, "a");
        write(&a, 6..7);
        wait_for_trouble(&a, "made again");
        let said = refusal(&a, "SELECT densite_wait()");
        assert!(said.contains("made again"), "{said}");
        let said = cluster
            .join_with(&a, r#""origin": "a""#)
            .expect_err("another stream");
        assert!(
            said.to_string().contains("a member of another stream"),
            "{said}"
        );
        // The rows wait in the log; as an independent database it has them all.
        one::<String>(&a, "SELECT densite_leave('{\"force\": true}')");
        common::wait(&a);
        assert_eq!(one::<i64>(&a, "SELECT count(*) FROM vote"), 7);
        cluster.join(&a, "a");
        write(&a, 7..8);
        settle(&[&a]);
        assert_eq!(one::<i64>(&a, "SELECT count(*) FROM vote"), 8);
    }
}

#[test]
fn a_member_behind_the_first_message_is_told_to_restore() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster, 10..11);
        b.close().expect("closes");
        std::fs::copy(cluster.path("b"), cluster.path("kept")).expect("copied");
        let b = open(&cluster, "b");
        write(&a, 20..40);
        settle(&[&a, &b]);
        let stream = cluster.place().stream();
        let last_of = |name: &str| {
            let last = stream.last_of(&name.parse().expect("a name"));
            last.expect("read").expect("a message").sequence
        };
        let both = ["a", "b"].map(|name| name.parse().expect("a name"));
        let refused = stream.trim(last_of("b") + 1, &both);
        let refused = refused.expect_err("its last one");
        assert!(
            refused.to_string().contains("the last one of b"),
            "{refused}"
        );
        write(&b, 41..42);
        write(&a, 50..51);
        settle(&[&a, &b]);
        b.close().expect("closes");
        stream
            .trim(last_of("a").min(last_of("b")), &both)
            .expect("trimmed");
        // The older backup is put back, and its log is the newer one.
        let old = cluster.path("b");
        std::fs::copy(cluster.path("kept"), &old).expect("copied");
        for end in ["-wal", "-shm"] {
            std::fs::remove_file(format!("{}{end}", old.display())).ok();
        }
        let b = open(&cluster, "b");
        let said = wait_for_trouble(&b, "removed");
        assert!(said.contains("restore"), "{said}");
        let said = refusal(&b, "SELECT densite_wait()");
        assert!(said.contains("restore"), "{said}");
    }
}

#[test]
fn an_older_backup_of_the_database_beside_its_log_catches_up() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster, 10..20);
        b.execute("VACUUM INTO ?1", [cluster.path("kept").to_string_lossy()])
            .expect("a backup");
        write(&b, 20..30);
        write(&a, 30..40);
        settle(&[&a, &b]);
        b.close().expect("closes");
        for end in ["-wal", "-shm"] {
            std::fs::remove_file(format!("{}{end}", cluster.path("b").display())).ok();
        }
        std::fs::copy(cluster.path("kept"), cluster.path("b")).expect("put back");
        let b = open(&cluster, "b");
        b.execute_batch("PRAGMA journal_mode = WAL").expect("WAL");
        write(&b, 50..55);
        assert_same(&[&a, &b]);
        for con in [&a, &b] {
            assert_eq!(one::<i64>(con, "SELECT count(*) FROM vote"), 40);
        }
    }
}

#[test]
fn a_member_without_its_log_is_told_what_to_do() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster, 10..20);
        b.close().expect("closes");
        std::fs::remove_dir_all(cluster.path("b").with_extension("db-log")).expect("removed");
        let b = common::open(&cluster.path("b"));
        let said = common::create(&b, "vote", "")
            .expect_err("no log")
            .to_string();
        assert!(
            said.contains("the log that the database names is not there; put it back"),
            "{said}"
        );
        // It goes on as another member: the stream has all its rows.
        let joined = cluster.join_with(&b, r#""origin": "b2""#);
        assert_eq!(joined.expect("it joins"), "b2");
        ingest(&b, "vote", "");
        write(&b, 30..31);
        settle(&[&a, &b]);
        assert_eq!(one::<i64>(&a, "SELECT count(*) FROM vote"), 16);
        assert_eq!(one::<i64>(&b, "SELECT count(*) FROM vote"), 16);
    }
}

#[test]
fn a_transaction_larger_than_a_new_max_payload_waits() {
    let Some(cluster) = Cluster::on_nats("") else {
        return;
    };
    let a = cluster.founder("a", "CREATE TABLE doc(id INTEGER PRIMARY KEY, body BLOB)");
    ingest(&a, "doc", "");
    settle(&[&a]);
    cluster.place().set_away(true);
    a.execute_batch(
        "INSERT INTO doc_in VALUES (1, randomblob(300000)); INSERT INTO doc_in VALUES (2, x'00')",
    )
    .expect("rows");
    cluster
        .place()
        .configure(|text| format!("max_payload: 100000\n{text}"));
    cluster.place().set_away(false);
    let said = wait_for_trouble(&a, "too large");
    assert!(said.contains("max_payload"), "{said}");
    cluster
        .place()
        .configure(|text| text.replace("max_payload: 100000\n", ""));
    wait_for(&a, "SELECT count(*) FROM doc", &["2"]);
    wait_for(&a, "SELECT trouble FROM densite_stream_status()", &["NULL"]);
}

#[test]
fn a_server_without_jetstream_and_a_wrong_password_are_named() {
    let Some(cluster) = Cluster::on_nats("") else {
        return;
    };
    let a = founder(&cluster);
    let with_jetstream = std::cell::Cell::new(String::new());
    cluster.place().configure(|text| {
        let (before, after) = text.split_once("jetstream").expect("its settings");
        with_jetstream.set(format!("jetstream{after}"));
        before.to_owned()
    });
    write(&a, 5..6);
    wait_for_trouble(&a, "-js");
    a.close().expect("closes");
    let a = open(&cluster, "a");
    wait_for_trouble(&a, "-js");
    a.close().expect("closes");
    cluster.place().configure(|text| {
        format!(
            "{text}{}authorization {{ user: u, password: secret }}\n",
            with_jetstream.take()
        )
    });
    let a = open(&cluster, "a");
    let said = wait_for_trouble(&a, "uthorization");
    assert!(!said.contains("secret"), "{said}");
    // Another address of the same stream.
    let address = cluster.address();
    let wrong = address.replace("nats://", "nats://u:wrong@");
    let join = |address: &str| {
        a.query_row(
            "SELECT densite_join(?1, '{\"trust_server\": true}')",
            [address],
            |row| row.get::<_, String>(0),
        )
    };
    let said = join(&wrong).expect_err("refused").to_string();
    assert!(
        !said.contains("wrong@") && !said.contains(":wrong"),
        "{said}"
    );
    let right = address.replace("nats://", "nats://u:secret@");
    assert_eq!(join(&right).expect("it goes on"), "a");
    settle(&[&a]);
    assert_eq!(one::<i64>(&a, "SELECT count(*) FROM vote"), 6);
    let shown = all(&a, "SELECT address, trouble FROM densite_stream_status()");
    assert!(!shown[0].contains("secret"), "{shown:?}");
}
