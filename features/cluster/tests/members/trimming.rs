//! Removing messages of the stream, and members that are gone.

use super::loss::{assert_same, wait_for_trouble};
use super::votes::{SCHEMA, open, write};
use super::{Cluster, ingest, settle, wait_for};
use crate::common::{self, all, one, refusal};
use rusqlite::Connection;

fn two(cluster: &Cluster) -> [Connection; 2] {
    let a = cluster.founder("a", SCHEMA);
    ingest(&a, "vote", "");
    let b = cluster.copy(&a, "b");
    ingest(&b, "vote", "");
    for i in 0..10 {
        write(&a, i..i + 1);
        write(&b, 100 + i..101 + i);
        settle(&[&a, &b]);
    }
    [a, b]
}

fn trim(con: &Connection) -> i64 {
    one(con, "SELECT densite_trim_stream()")
}

fn applied(con: &Connection, origin: &str) -> i64 {
    one(
        con,
        &format!("SELECT applied FROM densite_origins WHERE origin = '{origin}'"),
    )
}

#[test]
fn messages_that_all_have_applied_are_removed() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster);
        // b has said only where it joined.
        let first = trim(&a);
        assert!(first <= applied(&a, "b").max(1), "{first}");
        assert_same(&[&a, &b]);
        let said = applied(&a, "b");
        assert!(said > 10, "{said}");
        let kept: i64 = one(&a, "SELECT densite_trim_stream(1000000)");
        assert_eq!(kept, first);
        assert_eq!(trim(&a), said);
        let extent = cluster.place().stream().extent().expect("an extent");
        assert_eq!(extent.first, said as u64);
        assert_eq!(trim(&b), said, "again, and from another member");
        // A member that is away keeps what it has not applied.
        b.close().expect("closes");
        write(&a, 20..40);
        one::<i64>(&a, "SELECT densite_compare()");
        settle(&[&a]);
        assert_eq!(trim(&a), said);
        let b = open(&cluster, "b");
        write(&b, 200..201);
        let c = cluster.copy(&a, "c");
        ingest(&c, "vote", "");
        write(&c, 300..301);
        assert_same(&[&a, &b, &c]);
        assert!(trim(&c) > said);
        a.close().expect("closes");
        let a = open(&cluster, "a");
        write(&a, 40..41);
        assert_same(&[&a, &b, &c]);
        assert_eq!(one::<i64>(&c, "SELECT count(*) FROM vote"), 43);
    }
}

/// It needs messages that all others have applied.
#[test]
fn a_member_that_has_just_joined_from_an_older_copy_holds_what_it_needs() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster);
        b.execute("VACUUM INTO ?1", [cluster.path("c").to_string_lossy()])
            .expect("a copy");
        let copied: i64 = one(&b, "SELECT stream_message FROM densite_applied");
        write(&a, 20..40);
        assert_same(&[&a, &b]);
        assert!(applied(&a, "b") > copied);
        a.close().expect("closes");
        let c = common::open(&cluster.path("c"));
        c.execute_batch("PRAGMA journal_mode = WAL").expect("WAL");
        cluster.join(&c, "c");
        // It has not applied the message with which c joined.
        let a = common::open(&cluster.path("a"));
        let first = trim(&a);
        // On a busy machine, c can have applied some and said so.
        let has: i64 = one(&c, "SELECT stream_message FROM densite_applied");
        assert!(first <= has, "{first}, and c needs those after {has}");
        assert!(has >= copied, "{has}, and the copy had {copied}");
        ingest(&a, "vote", "");
        ingest(&c, "vote", "");
        write(&c, 300..301);
        assert_same(&[&a, &b, &c]);
    }
}

#[test]
fn a_stream_that_lost_messages_is_not_trimmed() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster);
        cluster.place().copy();
        assert_same(&[&a, &b]);
        cluster.place().put_back();
        wait_for_trouble(&a, "lost acknowledged messages");
        let said = refusal(&a, "SELECT densite_trim_stream()");
        assert!(said.contains("lost acknowledged messages"), "{said}");
    }
}

#[test]
fn a_member_that_is_gone_holds_nothing() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster);
        b.close().expect("closes");
        for (name, word) in [
            ("nobody", "its members are a, b"),
            ("a", "this member itself"),
        ] {
            let leave = format!("SELECT densite_leave('{{\"member\": \"{name}\"}}')");
            let said = refusal(&a, &leave);
            assert!(said.contains(word), "{said}");
        }
        let leave = r#"SELECT densite_leave('{"member": "b"}')"#;
        assert_eq!(one::<String>(&a, leave), "b");
        wait_for(&a, "SELECT members FROM densite_stream_status()", &["a"]);
        // It is alive: its rows stay in its log, until it is a member again.
        let b = open(&cluster, "b");
        write(&b, 200..205);
        let said = wait_for_trouble(&b, "has left");
        assert!(said.contains("densite join"), "{said}");
        for wait in [
            "SELECT densite_wait()",
            "SELECT densite_wait(densite_log_last(), 'stream')",
        ] {
            let said = refusal(&b, wait);
            assert!(said.contains("has left"), "{wait}: {said}");
        }
        settle(&[&a]);
        assert_eq!(one::<i64>(&a, "SELECT count(*) FROM vote"), 20);
        assert_eq!(
            cluster.join_with(&b, r#""replicas": 1"#).expect("joins"),
            "b"
        );
        assert_same(&[&a, &b]);
        assert_eq!(one::<i64>(&a, "SELECT count(*) FROM vote"), 25);
        // Now it is gone for good.
        b.close().expect("closes");
        assert_eq!(one::<String>(&a, leave), "b");
        write(&a, 30..31);
        settle(&[&a]);
        let last = cluster.place().stream().extent().expect("an extent").last;
        assert_eq!(trim(&a), last as i64, "everything below its own place");
        let b = open(&cluster, "b");
        wait_for_trouble(&b, "was removed");
        drop(b);
        // The name is free again, for a copy of another member.
        for end in ["", "-wal", "-shm"] {
            let path = format!("{}{end}", cluster.path("b").display());
            std::fs::remove_file(path).ok();
        }
        std::fs::remove_dir_all(cluster.path("b").with_extension("db-log")).expect("removed");
        let b = cluster.copy(&a, "b");
        ingest(&b, "vote", "");
        write(&b, 400..401);
        assert_same(&[&a, &b]);
        assert_eq!(all(&b, "SELECT count(*) FROM vote"), ["27"]);
    }
}

/// It could never apply anything, and its own rows would be acknowledged.
#[test]
fn a_copy_that_is_older_than_the_stream_is_refused() {
    for cluster in Cluster::all() {
        let [a, b] = two(&cluster);
        let kept = cluster.path("kept");
        b.execute("VACUUM INTO ?1", [kept.to_string_lossy()])
            .expect("a copy");
        write(&a, 20..40);
        write(&b, 220..221);
        assert_same(&[&a, &b]);
        assert!(trim(&a) > 20);
        let con = common::open(&kept);
        let said = cluster
            .join_with(&con, r#""origin": "c""#)
            .expect_err("refused");
        let said = said.to_string();
        assert!(
            said.contains("older than the beginning of the stream"),
            "{said}"
        );
        let named = cluster.place().stream();
        let named = named.last_of(&"c".parse().expect("a name")).expect("read");
        assert!(named.is_none(), "the stream has heard of it");
        // A newer copy can.
        let c = cluster.copy(&a, "c");
        ingest(&c, "vote", "");
        assert_same(&[&a, &b, &c]);
    }
}
