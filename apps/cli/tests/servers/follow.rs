//! Following replicas: in a directory, and behind a web server.

use crate::common::{Other, Ran, at, densite, names, temp};
use crate::remote::command;
use densite_testing::{FaultProxy, Nginx};
use std::path::Path;
use std::time::{Duration, Instant};

const COUNT: &str = "SELECT count(*) FROM t";

fn create(db: &str, more: &str) {
    let sql = format!("PRAGMA journal_mode=WAL; CREATE TABLE t(a); {more}");
    densite(&["sql", "--create", db, &sql]).expect(0);
}

/// Adds a row and ships it.
fn ship(db: &str, replica: &str) {
    densite(&["sql", db, "INSERT INTO t VALUES (randomblob(100))"]).expect(0);
    densite(&["replicate", db, replica, "--once"]).expect(0);
}

fn count(name: &str, env: &[(&str, &str)]) -> Ran {
    command(&["sql", name, COUNT, "--format", "csv"], env)
}

fn counted(n: u32) -> String {
    format!("count(*)\n{n}\n")
}

/// Removes a delta of a directory. Returns its name.
fn lose(replica: &str, n: u32) -> String {
    let end = format!("-delta-{n:012}");
    let mut all = names(Path::new(replica)).into_iter();
    let name = all.find(|name| name.ends_with(&end)).expect("a delta");
    std::fs::remove_file(Path::new(replica).join(&name)).expect("removed");
    name
}

/// Asks until the answer is this one.
#[track_caller]
fn sees(follower: &mut Other, n: u32) {
    let until = Instant::now() + Duration::from_secs(10);
    while follower.ask(COUNT) != counted(n) {
        assert!(Instant::now() < until, "row {n} does not come");
    }
}

#[test]
fn a_directory_is_followed_by_its_name_with_a_slash() {
    let dir = temp();
    let (db, replica) = (at(&dir, "a.db"), at(&dir, "replica"));
    create(&db, "");
    let name = format!("{replica}/");
    count(&name, &[]).expect(1).says("there is no replica here");
    std::fs::create_dir(&replica).expect("made");
    count(&name, &[]).expect(1).says("there is no replica here");
    ship(&db, &replica);
    for name in [
        &name,
        &format!("file://{name}"),
        &format!("file://{name}?mode=ro"),
    ] {
        assert_eq!(count(name, &[]).expect(0).out, counted(1), "{name}");
    }
    count(&replica, &[]).expect(5).says("is a directory");
    let mut follower = Other::on(&name);
    assert_eq!(follower.ask(COUNT), counted(1));
    for n in 2..5 {
        ship(&db, &replica);
        sees(&mut follower, n);
    }
    follower.run("BEGIN; SELECT count(*) FROM t");
    ship(&db, &replica);
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(
        follower.ask(COUNT),
        counted(4),
        "a transaction sees one state"
    );
    follower.run("COMMIT");
    sees(&mut follower, 5);
    densite(&["sql", &name, "DELETE FROM t"])
        .expect(1)
        .says("readonly");
    densite(&["check", &name]).expect(0);
    let info = densite(&["info", &name, "--json"]).expect(0).json();
    assert_eq!(info["remote"]["replica_restore_point"], 4, "{info}");
    let copy = at(&dir, "copy.db");
    densite(&["decompress", &name, &copy]).expect(0);
    assert_eq!(count(&copy, &[]).expect(0).out, counted(5));
    // A file keeps its name with a slash, which SQLite ignores.
    assert_eq!(count(&format!("{copy}/"), &[]).expect(0).out, counted(5));
}

#[test]
fn a_missing_delta_in_a_directory_is_an_error_that_names_it() {
    let dir = temp();
    let (db, replica) = (at(&dir, "a.db"), at(&dir, "replica"));
    create(&db, "");
    for _ in 0..4 {
        ship(&db, &replica);
    }
    let name = lose(&replica, 2);
    let follower = count(&format!("{replica}/"), &[]);
    assert!(
        follower.code != 0 && follower.err.contains(&name),
        "{follower:?}"
    );
    let copy = at(&dir, "copy.db");
    densite(&["restore", &replica, &copy]).expect(5).says(&name);
    assert!(!Path::new(&copy).exists());
    densite(&["restore", &replica, &copy, "--number", "1"]).expect(0);
    let listed = densite(&["replicas", &replica, "--json"]).expect(5).json();
    assert_eq!(listed["generations"][0]["missing"], *name, "{listed}");
    let shipper = densite(&["replicate", &db, &replica, "--once"]).expect(5);
    assert!(shipper.err.contains(&name), "{shipper:?}");
    densite(&["replicate", &db, &replica, "--once", "--takeover"]).expect(0);
    assert_eq!(count(&format!("{replica}/"), &[]).expect(0).out, counted(4));
}

#[test]
fn a_replica_behind_a_web_server_is_followed() {
    let (dir, own) = (temp(), temp());
    let Some(nginx) = Nginx::start(dir.path(), own.path()) else {
        return;
    };
    let proxy = FaultProxy::start(nginx.port());
    // The root of the server, and a directory of it. The second base is read by ranges.
    let large = "CREATE TABLE large(a); WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
        INSERT INTO large SELECT randomblob(1000) FROM n";
    for (path, more) in [("", ""), ("some dir", large)] {
        let db = at(&own, &format!("{path}.db"));
        let replica = at(&dir, path);
        create(&db, more);
        ship(&db, &replica);
        let url = match path {
            "" => proxy.http(""),
            path => proxy.http(&format!("{}/", path.replace(' ', "%20"))),
        };
        // nginx names versions by the second, so a new base is waited for.
        std::thread::sleep(Duration::from_secs(2));
        let _ = proxy.take_counts();
        assert_eq!(count(&url, &[]).expect(0).out, counted(1), "{url}");
        // The head, which says that no delta follows, and the base.
        assert_eq!(proxy.requests(), 2, "{url}");
        let mut follower = Other::on(&url);
        for n in 2..4 {
            ship(&db, &replica);
            sees(&mut follower, n);
        }
        // Without changes it asks once a second.
        let _ = proxy.take_counts();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            follower.run(COUNT);
        }
        assert!(proxy.requests() <= 6, "{} requests", proxy.requests());
        let uri = format!("file:{}?mode=ro", url.replace('%', "%25"));
        assert_eq!(count(&uri, &[]).expect(0).out, counted(3));
        for _ in 0..2 {
            ship(&db, &replica);
        }
        // The follower has not seen it.
        let name = lose(&replica, 3);
        let opened = count(&url, &[]);
        assert!(opened.code != 0 && opened.err.contains(&name), "{opened:?}");
    }
    let url = nginx.https("some%20dir/");
    let ca = nginx.ca_file().display().to_string();
    count(&url, &[]).expect(1).says("certificate");
    let over_tls = count(&url, &[("SSL_CERT_FILE", &ca)]);
    assert!(
        over_tls.err.contains("-delta-000000000003 is missing"),
        "{over_tls:?}"
    );
    count(&proxy.http("none/"), &[])
        .expect(1)
        .says("there is no replica here");
}
