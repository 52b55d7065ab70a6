//! Functions of a member in another process than the one that applies.

use super::loss::assert_same;
use super::{Cluster, ingest, wait_for};
use crate::common::{self, one};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The variable of the child: its database.
const PATH: &str = "DENSITE_APPLYING_CHILD";

/// Not a test by itself: a process that applies, until its input ends.
#[test]
fn child() {
    let Ok(path) = std::env::var(PATH) else {
        return;
    };
    let con = common::open(Path::new(&path));
    ingest(&con, "vote", "");
    con.execute_batch("INSERT INTO vote_in VALUES (7, 7)")
        .expect("a row");
    common::wait(&con);
    println!("applies");
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn members_compare_when_another_process_asks() {
    for cluster in Cluster::all() {
        let a = cluster.founder("a", "CREATE TABLE vote(id INTEGER PRIMARY KEY, n INT)");
        cluster.copy(&a, "b").close().expect("closes");
        ingest(&a, "vote", "");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "members::elsewhere::child", "--nocapture"])
            .env(PATH, cluster.path("b"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let out = child.stdout.take().expect("its output");
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("applies")), "it applies");
        let b = common::open(&cluster.path("b"));
        assert_eq!(one::<i64>(&b, "SELECT densite_compare()"), 1);
        let digests = "SELECT count(DISTINCT tables), count(*) FROM densite_digests";
        for con in [&a, &b] {
            wait_for(con, digests, &["1|2"]);
        }
        // The forwarder of the child goes on behind that message.
        ingest(&b, "vote", "");
        b.execute_batch("INSERT INTO vote_in VALUES (8, 8)")
            .expect("a row");
        common::wait(&b);
        assert!(one::<i64>(&b, "SELECT densite_trim_stream()") > 0);
        drop(child.stdin.take());
        assert!(child.wait().expect("it ends").success());
        assert_same(&[&a, &b]);
        assert_eq!(one::<i64>(&a, "SELECT count(*) FROM vote"), 2);
    }
}
