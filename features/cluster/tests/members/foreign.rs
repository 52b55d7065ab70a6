//! Messages of the stream that no member wrote, and those of a newer Densite.

use super::loss::{assert_same, wait_for_trouble};
use super::votes::{SCHEMA, open, write};
use super::{Cluster, ingest, settle, wait_for};
use crate::common::{self, all, one, refusal};
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};
use rusqlite::Connection;
use std::io::{Read, Write};

const SKIPPED: &str = "SELECT message, origin, reason FROM densite_skipped";

/// Two members.
fn two(cluster: &Cluster) -> [Connection; 2] {
    let a = cluster.founder("a", SCHEMA);
    ingest(&a, "vote", "");
    let b = cluster.copy(&a, "b");
    ingest(&b, "vote", "");
    [a, b]
}

/// Publishes without Densite.
fn publish(cluster: &Cluster, origin: &str, bytes: &[u8]) {
    let address = cluster.address();
    let host = address.strip_prefix("nats://");
    let Some(host) = host.and_then(|rest| rest.split('/').next()) else {
        let stream = cluster.place().stream();
        let name = origin.parse().expect("a name");
        let last = stream.last_of(&name).expect("read");
        let last = last.map_or(0, |message| message.sequence);
        stream.append(&name, last, bytes).expect("appended");
        return;
    };
    let mut client = std::net::TcpStream::connect(host).expect("connects");
    let mut said = [0; 4096];
    let _ = client.read(&mut said).expect("INFO");
    let head = format!(
        "CONNECT {{\"verbose\":false}}\r\nPUB densite.APP.{origin} {}\r\n",
        bytes.len()
    );
    let all = [head.as_bytes(), bytes, b"\r\nPING\r\n"].concat();
    client.write_all(&all).expect("sent");
    let _ = client.read(&mut said).expect("PONG");
}

/// The last message of a member, as it is in the stream.
fn last_of(cluster: &Cluster, origin: &str) -> Vec<u8> {
    let last = cluster.place().stream();
    let last = last.last_of(&origin.parse().expect("a name"));
    last.expect("read").expect("a message").bytes
}

#[test]
fn messages_that_no_member_wrote_are_skipped_by_all() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster);
        write(&a, 0..5);
        write(&b, 10..15);
        settle(&[&a, &b]);
        let mut damaged = last_of(&cluster, "b");
        *damaged.last_mut().expect("a byte") ^= 1;
        let foreign = [
            ("x", b"hello".to_vec()),
            ("a", b"DMSG\x01\x01\x00\x00".to_vec()),
            ("a", b"".to_vec()),
            ("b", damaged),
        ];
        for (i, (origin, bytes)) in (0..).zip(&foreign) {
            publish(&cluster, origin, bytes);
            write(&a, 20 + i..21 + i);
            write(&b, 30 + i..31 + i);
            settle(&[&a, &b]);
        }
        publish(&cluster, "a", b"the last message");
        // They are no losses, and no member is behind.
        assert_same(&[&a, &b]);
        let skipped = all(&a, SKIPPED);
        assert_eq!(skipped.len(), 5, "{skipped:?}");
        assert_eq!(all(&b, SKIPPED), skipped);
        assert!(
            skipped[0].contains("|x|it is no message of Densite"),
            "{skipped:?}"
        );
        assert!(
            skipped[3].contains("|b|its checksum is wrong"),
            "{skipped:?}"
        );
        let status = "SELECT skipped_messages FROM densite_stream_status()";
        assert_eq!(all(&a, status), ["5"]);
        // A process that begins finds the last message of its origin behind the foreign one.
        a.close().expect("closes");
        let a = open(&cluster, "a");
        write(&a, 50..55);
        let c = cluster.copy(&b, "c");
        ingest(&c, "vote", "");
        write(&c, 60..61);
        assert_same(&[&a, &b, &c]);
        for con in [&a, &b, &c] {
            assert_eq!(one::<i64>(con, "SELECT count(*) FROM vote"), 24);
        }
        assert_eq!(one::<String>(&c, "SELECT densite_leave()"), "c");
        wait_for(&a, "SELECT members FROM densite_stream_status()", &["a b"]);
    }
}

#[test]
fn a_stream_with_foreign_messages_alone_can_be_founded() {
    for cluster in Cluster::all() {
        drop(cluster.place().stream());
        publish(&cluster, "x", b"hello");
        publish(&cluster, "a", b"hello");
        let a = cluster.founder_named("a", "one", SCHEMA);
        ingest(&a, "vote", "");
        write(&a, 0..5);
        let b = cluster.copy(&a, "b");
        ingest(&b, "vote", "");
        write(&b, 5..6);
        assert_same(&[&a, &b]);
        let c = common::open(&cluster.path("c"));
        c.execute_batch(SCHEMA).expect("a table");
        let said = cluster
            .join_with(&c, r#""origin": "c""#)
            .expect_err("refused");
        assert!(
            said.to_string().contains("join a copy of a member"),
            "{said}"
        );
    }
}

#[test]
fn a_subject_that_no_member_can_have_is_skipped() {
    let Some(cluster) = Cluster::on_nats("") else {
        return;
    };
    let [a, b] = two(&cluster);
    let bytes = last_of(&cluster, "a");
    publish(&cluster, "a$b", &bytes);
    write(&a, 0..5);
    assert_same(&[&a, &b]);
    assert_eq!(all(&a, "SELECT count(*) FROM densite_skipped"), ["1"]);
}

#[test]
fn a_message_of_a_newer_densite_stops_the_members() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster);
        settle(&[&a, &b]);
        let mut newer = last_of(&cluster, "a");
        newer[4] = 2;
        let check = xxh3_64_with_seed(&newer[72..], xxh3_64(&newer[..64]));
        newer[64..72].copy_from_slice(&check.to_le_bytes());
        publish(&cluster, "x", &newer);
        for con in [&a, &b] {
            let said = wait_for_trouble(con, "a newer Densite wrote it");
            assert!(said.contains("of x"), "{said}");
        }
        write(&a, 6..7);
        let said = refusal(&a, "SELECT densite_wait()");
        assert!(said.contains("a newer Densite wrote it"), "{said}");
        a.close().expect("closes");
        let a = open(&cluster, "a");
        wait_for_trouble(&a, "a newer Densite wrote it");
    }
}
