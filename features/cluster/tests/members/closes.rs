//! Members whose connections are closed while they send: their next connection goes on.

use super::loss::{assert_same, wait_for_trouble};
use super::votes::{SCHEMA, open, write};
use super::{Cluster, ingest, settle, wait_for};
use crate::common::{self, all, one};
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};
use rusqlite::Connection;
use std::time::Duration;

/// A message that names no log, as earlier versions sent it while the log was being closed.
fn unnamed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[16..32].fill(0);
    let check = xxh3_64_with_seed(&bytes[72..], xxh3_64(&bytes[..64]));
    bytes[64..72].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// A question for digests behind a message, under its name.
fn question_behind(bytes: &[u8]) -> Vec<u8> {
    let mut head = bytes[..72].to_vec();
    head[5] = 4;
    head[6] = 0;
    head[8..12].fill(0);
    let to: [u8; 8] = head[40..48].try_into().expect("a number");
    head[32..40].copy_from_slice(&to);
    unnamed(head)
}

/// The last message of a member, and its sequence.
fn last_of(cluster: &Cluster, origin: &str) -> (u64, Vec<u8>) {
    let last = cluster.place().stream();
    let last = last.last_of(&origin.parse().expect("a name"));
    let last = last.expect("read").expect("a message");
    (last.sequence, last.bytes)
}

fn append(cluster: &Cluster, origin: &str, expected: u64, bytes: &[u8]) {
    let stream = cluster.place().stream();
    let origin = origin.parse().expect("a name");
    stream.append(&origin, expected, bytes).expect("appended");
}

/// Two members with increments that must not come twice.
fn two(cluster: &Cluster) -> [Connection; 2] {
    let a = cluster.founder(
        "a",
        &format!("{SCHEMA}; CREATE TABLE hits(page TEXT PRIMARY KEY, n INT)"),
    );
    let b = cluster.copy(&a, "b");
    [a, b].map(|con| {
        tables(&con);
        con
    })
}

fn tables(con: &Connection) {
    ingest(con, "vote", "");
    ingest(con, "hits", ", on_conflict='update(n = n + excluded.n)'");
}

fn hit(con: &Connection) {
    con.execute_batch("INSERT INTO hits_in VALUES ('home', 1)")
        .expect("a row");
}

/// The last message of the member is one without rows. It goes on, and leaves.
#[test]
fn a_member_whose_last_message_names_no_log_goes_on() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster);
        hit(&a);
        settle(&[&a, &b]);
        a.close().expect("closes");
        let (sequence, bytes) = last_of(&cluster, "a");
        let question = question_behind(&bytes);
        append(&cluster, "a", sequence, &question);
        append(&cluster, "a", sequence + 1, &question);
        let a = common::open(&cluster.path("a"));
        tables(&a);
        hit(&a);
        assert_same(&[&a, &b]);
        for con in [&a, &b] {
            assert_eq!(all(con, "SELECT * FROM hits"), ["home|2"]);
            let unnamed = "SELECT count(*) FROM densite_origins WHERE log = zeroblob(16)";
            assert_eq!(one::<i64>(con, unnamed), 0);
        }
        assert_eq!(one::<String>(&a, "SELECT densite_leave()"), "a");
        wait_for(&b, "SELECT members FROM densite_stream_status()", &["b"]);
    }
}

/// Its last message has rows that it has not applied. They are applied once, also when the stream
/// is read again.
#[test]
fn rows_of_a_message_that_names_no_log_are_applied_once() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster);
        hit(&a);
        settle(&[&a, &b]);
        a.execute("VACUUM INTO ?1", [cluster.path("kept").to_string_lossy()])
            .expect("a backup");
        let copy = cluster.path("copy");
        b.execute("VACUUM INTO ?1", [copy.to_string_lossy()])
            .expect("a copy");
        b.close().expect("closes");
        cluster.place().copy();
        hit(&a);
        settle(&[&a]);
        a.close().expect("closes");
        // The state in which the member was: the stream has the message, the database not its rows.
        let (_, bytes) = last_of(&cluster, "a");
        cluster.place().put_back();
        for name in ["a", "b"] {
            for end in ["-wal", "-shm"] {
                std::fs::remove_file(format!("{}{end}", cluster.path(name).display())).ok();
            }
        }
        std::fs::copy(cluster.path("kept"), cluster.path("a")).expect("put back");
        let (sequence, _) = last_of(&cluster, "a");
        append(&cluster, "a", sequence, &unnamed(bytes));
        let [a, b] = ["a", "b"].map(|name| {
            let con = common::open(&cluster.path(name));
            con.execute_batch("PRAGMA journal_mode = WAL").expect("WAL");
            tables(&con);
            con
        });
        hit(&a);
        assert_same(&[&a, &b]);
        for con in [&a, &b] {
            cluster
                .join_with(con, r#""after_loss": true"#)
                .expect("it reads the stream again");
        }
        hit(&a);
        assert_same(&[&a, &b]);
        for con in [&a, &b] {
            assert_eq!(all(con, "SELECT * FROM hits"), ["home|4"]);
        }
    }
}

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Opens a member, writes a row and closes it, so many times. Nothing waits for the stream.
fn close_often(cluster: &Cluster, seed: u64, times: u64) -> u64 {
    println!("seed {seed}");
    let mut random = Random(seed);
    let a = cluster.founder("a", SCHEMA);
    let b = cluster.copy(&a, "b");
    drop(a);
    for i in 0..times {
        let a = open(cluster, "a");
        write(&a, i as i64..i as i64 + 1);
        if random.below(8) == 0 {
            one::<i64>(&a, "SELECT densite_compare()");
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        a.close().expect("closes");
    }
    let a = open(cluster, "a");
    ingest(&b, "vote", "");
    assert_same(&[&a, &b]);
    for con in [&a, &b] {
        assert_eq!(
            one::<i64>(con, "SELECT count(*) FROM vote"),
            times as i64,
            "seed {seed}"
        );
    }
    times
}

#[test]
fn a_member_that_is_closed_often_sends_all_rows() {
    for cluster in Cluster::all() {
        close_often(&cluster, densite_testing::fresh_seed(), 200);
    }
}

/// A member that is set back is still noticed when its last message names no log.
#[test]
fn a_message_that_names_no_log_hides_no_older_state() {
    let cluster = Cluster::new();
    let [a, b] = two(&cluster);
    drop(b);
    hit(&a);
    settle(&[&a]);
    a.close().expect("closes");
    // Another last transaction than that of the log.
    let (sequence, bytes) = last_of(&cluster, "a");
    let mut other = question_behind(&bytes);
    other[56] ^= 1;
    append(&cluster, "a", sequence, &unnamed(other));
    let a = common::open(&cluster.path("a"));
    tables(&a);
    hit(&a);
    wait_for_trouble(&a, "an older state");
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_closed_members() {
    densite_testing::long_run("closes", |seed| {
        Cluster::all()
            .iter()
            .map(|cluster| close_often(cluster, seed, 500))
            .sum()
    });
}
