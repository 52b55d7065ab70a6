//! Three servers with the settings of the guide, and members on them.

use super::loss::assert_same;
use super::{ingest, settle};
use crate::common::{self, one};
use densite_testing::Nats;
use rusqlite::Connection;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a cluster takes at most to have a leader.
const PATIENCE: Duration = Duration::from_secs(60);

/// The configuration in the guide that has a cluster.
fn configuration() -> &'static str {
    let guide = include_str!("../../../../docs/guides/cluster.md");
    let blocks = guide.split("```text\n").skip(1);
    let mut blocks = blocks.filter_map(|rest| rest.split("```").next());
    let found = blocks.find(|block| block.contains("cluster {"));
    found.expect("the configuration of three servers")
}

/// One of the guide's servers, at free loopback ports.
fn server(own: &Path, number: usize, routes: &[u16; 3]) -> Option<Nats> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nats-server");
    std::fs::create_dir_all(own).expect("a folder");
    let name = format!("n{}", number + 1);
    let environment = [("NAME", name.as_str()), ("PASSWORD", "secret")];
    Nats::configured(&dir, own, &environment, |port, monitor| {
        let mut text = configuration().to_owned();
        let mut replace = |from: String, to: String| {
            assert!(text.contains(&from), "{from} in {text}");
            text = text.replace(&from, &to);
        };
        replace("0.0.0.0:4222".into(), format!("127.0.0.1:{port}"));
        replace("0.0.0.0:8222".into(), format!("127.0.0.1:{monitor}"));
        replace(
            "0.0.0.0:6222".into(),
            format!("127.0.0.1:{}", routes[number]),
        );
        for (n, route) in (1..).zip(routes) {
            replace(format!("n{n}:6222"), format!("127.0.0.1:{route}"));
        }
        let store = own.join("store");
        replace("store_dir: /data".into(), format!("store_dir: {store:?}"));
        replace("max_file_store: 100GB".into(), "max_file_store: 1GB".into());
        text
    })
}

fn join(con: &Connection, servers: &[Nats], name: &str) {
    let hosts: Vec<String> = servers
        .iter()
        .map(|server| format!("app:secret@127.0.0.1:{}", server.port()))
        .collect();
    let address = format!("nats://{}/APP", hosts.join(","));
    let monitors: Vec<String> = servers.iter().map(Nats::monitor).collect();
    let settings = format!(r#"{{"origin": "{name}", "replicas": 3, "monitor": {monitors:?}}}"#);
    let begun = Instant::now();
    loop {
        let joined = con.query_row(
            "SELECT densite_join(?1, ?2)",
            [&address, &settings],
            |row| row.get::<_, String>(0),
        );
        match joined {
            Ok(joined) => return assert_eq!(joined, name),
            Err(e) => assert!(begun.elapsed() < PATIENCE, "{e}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn members_go_on_when_one_server_of_three_is_killed() {
    if !densite_testing::Effort::wanted().is_full() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let listeners = [0; 3].map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let routes = listeners
        .each_ref()
        .map(|listener| listener.local_addr().expect("an address").port());
    drop(listeners);
    let servers: Option<Vec<Nats>> = (0..3)
        .map(|number| server(&dir.path().join(format!("n{number}")), number, &routes))
        .collect();
    let Some(mut servers) = servers else { return };
    let a = common::open(&dir.path().join("a.db"));
    a.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE vote(id INTEGER PRIMARY KEY, n INT)")
        .expect("the schema");
    join(&a, &servers, "a");
    let copy = dir.path().join("b.db");
    a.execute("VACUUM INTO ?1", [copy.to_string_lossy()])
        .expect("a copy");
    let b = common::open(&copy);
    b.execute_batch("PRAGMA journal_mode = WAL").expect("WAL");
    join(&b, &servers, "b");
    for con in [&a, &b] {
        ingest(con, "vote", "");
    }
    for (number, server) in (0..).zip(&mut servers) {
        server.kill();
        for (con, first) in [(&a, 100 * number), (&b, 100 * number + 50)] {
            for id in first..first + 20 {
                con.execute("INSERT INTO vote_in VALUES (?1, ?1)", [id])
                    .expect("a row");
            }
        }
        // Two servers acknowledge and send them.
        settle(&[&a, &b]);
        let rows = one::<i64>(&a, "SELECT count(*) FROM vote");
        assert_eq!(rows, 40 * (number + 1));
        server.restart();
    }
    assert_same(&[&a, &b]);
}
