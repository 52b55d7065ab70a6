//! A stream that loses messages which it had acknowledged: an older copy of it is put back.

use super::{Cluster, ingest, settle, wait_for};
use crate::common::{self, all, one};
use rusqlite::Connection;
use std::time::{Duration, Instant};

const SCHEMA: &str = "CREATE TABLE vote(id INTEGER PRIMARY KEY, n INT); CREATE TABLE hits(page TEXT PRIMARY KEY, n INT)";
const HITS: &str = ", on_conflict='update(n = n + excluded.n)'";

fn open(cluster: &Cluster, name: &str) -> Connection {
    let con = common::open(&cluster.path(name));
    tables(&con);
    con
}

fn tables(con: &Connection) {
    ingest(con, "vote", "");
    ingest(con, "hits", HITS);
}

fn members<const N: usize>(cluster: &Cluster, names: [&str; N]) -> [Connection; N] {
    let first = cluster.founder(names[0], SCHEMA);
    let mut first = Some(first);
    let mut copies: Vec<Connection> = Vec::new();
    for name in &names[1..] {
        let of = first.as_ref().expect("the first one");
        copies.push(cluster.copy(of, name));
    }
    let mut copies = copies.into_iter();
    let all = names.map(|_| match first.take() {
        Some(first) => first,
        None => copies.next().expect("a copy"),
    });
    all.iter().for_each(tables);
    all
}

/// Rows with these numbers, and an increment for each.
fn write(con: &Connection, ids: std::ops::Range<i64>) {
    for id in ids {
        con.execute_batch(&format!(
            "BEGIN; INSERT INTO vote_in VALUES ({id}, {id}); INSERT INTO hits_in VALUES ('home', 1); COMMIT"
        ))
        .expect("rows");
    }
}

fn trouble(con: &Connection) -> String {
    one::<Option<String>>(con, "SELECT trouble FROM densite_stream_status()").unwrap_or_default()
}

/// Waits until the status of a member says this.
pub(crate) fn wait_for_trouble(con: &Connection, word: &str) -> String {
    let since = Instant::now();
    loop {
        let said = trouble(con);
        if said.contains(word) {
            return said;
        }
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "{said:?}, not {word}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All members have the same tables, and none has stopped.
pub(crate) fn assert_same(members: &[&Connection]) {
    settle(members);
    one::<i64>(members[0], "SELECT densite_compare()");
    settle(members);
    let count = members.len();
    let digests = "SELECT count(DISTINCT tables), count(*) FROM densite_digests WHERE message = (SELECT max(message) FROM densite_digests)";
    for member in members {
        wait_for(member, digests, &[&format!("1|{count}")]);
        wait_for(
            member,
            "SELECT stopped, trouble FROM densite_stream_status()",
            &["NULL|NULL"],
        );
    }
}

fn after_loss(cluster: &Cluster, con: &Connection) {
    cluster
        .join_with(con, r#""after_loss": true"#)
        .expect("it goes on");
}

#[test]
fn an_origin_sends_again_what_the_stream_lost() {
    for cluster in Cluster::all() {
        let [a, b, c] = members(&cluster, ["a", "b", "c"]);
        write(&a, 0..10);
        settle(&[&a, &b, &c]);
        c.close().expect("closes");
        cluster.place().copy();
        write(&a, 10..20);
        settle(&[&a, &b]);
        cluster.place().put_back();
        // Nothing is written: the origin notices the loss nevertheless.
        for con in [&a, &b] {
            let said = wait_for_trouble(con, "lost acknowledged messages");
            assert!(
                said.contains("after_loss") || said.contains("after-loss"),
                "{said}"
            );
        }
        let c = open(&cluster, "c");
        wait_for(&c, "SELECT count(*), sum(n) FROM vote", &["20|190"]);
        after_loss(&cluster, &a);
        after_loss(&cluster, &b);
        write(&b, 20..25);
        assert_same(&[&a, &b, &c]);
        for con in [&a, &b, &c] {
            assert_eq!(all(con, "SELECT count(*), sum(n) FROM vote"), ["25|300"]);
            assert_eq!(all(con, "SELECT * FROM hits"), ["home|25"]);
            assert_eq!(one::<i64>(con, "SELECT count(*) FROM densite_rejects"), 0);
        }
    }
}

#[test]
fn messages_that_are_read_again_change_nothing() {
    for cluster in Cluster::all() {
        let [a, b] = members(&cluster, ["a", "b"]);
        write(&a, 0..5);
        write(&b, 5..10);
        b.execute_batch("INSERT INTO vote_in VALUES (5, 0)")
            .expect("a row that is rejected");
        settle(&[&a, &b]);
        let rejects = "SELECT seq, \"row\", error FROM densite_rejects";
        let rejected = all(&a, rejects);
        assert_eq!(rejected.len(), 1);
        // A table that was dropped and made again, and a question about digests.
        for sql in [
            "CREATE TABLE page(url TEXT PRIMARY KEY)",
            "DROP TABLE page",
            "CREATE TABLE page(url TEXT PRIMARY KEY)",
            "ALTER TABLE vote ADD COLUMN at TEXT",
        ] {
            let sent = format!("SELECT densite_wait(densite_schema('{sql}'))");
            one::<i64>(&a, &sent);
        }
        settle(&[&a, &b]);
        ingest(&a, "page", "");
        a.execute_batch("INSERT INTO page_in VALUES ('/')")
            .expect("a row");
        one::<i64>(&b, "SELECT densite_compare()");
        settle(&[&a, &b]);
        cluster.place().copy();
        write_three(&a, 10..15);
        settle(&[&a, &b]);
        cluster.place().put_back();
        for con in [&a, &b] {
            wait_for_trouble(con, "lost acknowledged messages");
            after_loss(&cluster, con);
        }
        assert_same(&[&a, &b]);
        for con in [&a, &b] {
            assert_eq!(all(con, "SELECT count(*), sum(n) FROM vote"), ["15|105"]);
            assert_eq!(all(con, "SELECT * FROM hits"), ["home|10"]);
            assert_eq!(all(con, "SELECT * FROM page"), ["/"]);
            assert_eq!(all(con, rejects), rejected);
        }
    }
}

/// As [`write`], in a table with three columns, without increments.
fn write_three(con: &Connection, ids: std::ops::Range<i64>) {
    con.execute_batch("DROP TABLE temp.vote_in")
        .expect("dropped");
    ingest(con, "vote", "");
    for id in ids {
        con.execute(&format!("INSERT INTO vote_in VALUES ({id}, {id}, 'x')"), [])
            .expect("a row");
    }
}

#[test]
fn several_origins_send_again_what_the_stream_lost() {
    for cluster in Cluster::all() {
        let [a, b, c] = members(&cluster, ["a", "b", "c"]);
        write(&a, 0..5);
        settle(&[&a, &b, &c]);
        c.close().expect("closes");
        cluster.place().copy();
        // The copy lacks the first rows of b.
        for i in 0..10 {
            write(&a, 10 + i..11 + i);
            write(&b, 30 + i..31 + i);
        }
        settle(&[&a, &b]);
        cluster.place().put_back();
        let c = open(&cluster, "c");
        for con in [&a, &b] {
            wait_for_trouble(con, "lost acknowledged messages");
            after_loss(&cluster, con);
        }
        write(&c, 50..60);
        assert_same(&[&a, &b, &c]);
        for con in [&a, &b, &c] {
            assert_eq!(one::<i64>(con, "SELECT count(*) FROM vote"), 35);
            assert_eq!(all(con, "SELECT * FROM hits"), ["home|35"]);
        }
    }
}

/// The order of rows that come again is not the one in which members had applied them.
#[test]
fn rows_that_conflict_after_a_loss_are_noticed_by_the_digests() {
    for cluster in Cluster::all() {
        let [a, b, c] = members(&cluster, ["a", "b", "c"]);
        write(&a, 0..1);
        settle(&[&a, &b, &c]);
        c.close().expect("closes");
        cluster.place().copy();
        for (con, n) in [(&a, 1), (&b, 2)] {
            con.execute("INSERT INTO vote_in VALUES (7, ?1)", [n])
                .expect("a row");
            settle(&[&a, &b]);
        }
        a.close().expect("closes");
        cluster.place().put_back();
        // The row that was second comes first.
        wait_for_trouble(&b, "lost acknowledged messages");
        after_loss(&cluster, &b);
        settle(&[&b]);
        let c = open(&cluster, "c");
        wait_for(&c, "SELECT n FROM vote WHERE id = 7", &["2"]);
        let a = open(&cluster, "a");
        wait_for_trouble(&a, "lost acknowledged messages");
        after_loss(&cluster, &a);
        settle(&[&a, &b, &c]);
        assert_eq!(all(&a, "SELECT n FROM vote WHERE id = 7"), ["1"]);
        one::<i64>(&a, "SELECT densite_compare()");
        wait_for(
            &c,
            "SELECT stopped LIKE '%its table vote differs%' FROM densite_stream_status()",
            &["1"],
        );
        for con in [&a, &b] {
            wait_for(
                con,
                "SELECT stopped FROM densite_stream_status()",
                &["NULL"],
            );
        }
    }
}

/// A member whose announcement was lost is known again.
#[test]
fn a_member_whose_joining_was_lost_is_one_again() {
    for cluster in Cluster::all() {
        let a = cluster.founder("a", SCHEMA);
        tables(&a);
        write(&a, 0..5);
        settle(&[&a]);
        cluster.place().copy();
        let b = cluster.copy(&a, "b");
        tables(&b);
        write(&b, 5..10);
        settle(&[&a, &b]);
        cluster.place().put_back();
        for con in [&a, &b] {
            wait_for_trouble(con, "lost acknowledged messages");
            after_loss(&cluster, con);
        }
        write(&b, 10..15);
        settle(&[&a, &b]);
        let c = cluster.copy(&a, "c");
        tables(&c);
        write(&c, 15..20);
        assert_same(&[&a, &b, &c]);
        for con in [&a, &b, &c] {
            assert_eq!(all(con, "SELECT * FROM hits"), ["home|20"]);
            let members = all(con, "SELECT members FROM densite_stream_status()");
            assert_eq!(members, ["a b c"]);
        }
        // One that begins before b was known, and is read again twice.
        after_loss(&cluster, &c);
        assert_same(&[&a, &b, &c]);
        assert_eq!(all(&c, "SELECT * FROM hits"), ["home|20"]);
    }
}
