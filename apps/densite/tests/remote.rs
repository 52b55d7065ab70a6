//! Databases that a web server has.

use densite::rusqlite::Connection;
use densite::{Error, OpenOptions};
use densite_testing::{Fault, FaultProxy, Nginx};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Databases of nginx, behind a proxy.
struct Site {
    proxy: FaultProxy,
    nginx: Nginx,
    root: TempDir,
    _own: TempDir,
}

impl Site {
    /// `None` if there is no nginx.
    fn new() -> Option<Site> {
        let [root, own] = [0, 1].map(|_| tempfile::tempdir().expect("a directory"));
        let nginx = Nginx::start(root.path(), own.path())?;
        Some(Site {
            proxy: FaultProxy::start(nginx.port()),
            nginx,
            root,
            _own: own,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn open(&self, name: &str) -> Connection {
        densite::open(self.proxy.http(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

/// Makes a file some seconds older. nginx names versions by the second, so a new file is waited for.
fn age(path: &Path, seconds: u64) {
    let file = std::fs::File::options().write(true).open(path);
    let then = SystemTime::now() - Duration::from_secs(seconds);
    file.and_then(|file| file.set_modified(then))
        .expect("older");
}

/// Makes a database with 20,000 rows; `kind` is `densite`, `wal` or `plain`.
fn fill(path: &Path, kind: &str) {
    let con = match kind {
        "plain" => Connection::open(path).expect("opens"),
        _ => densite::open(path).expect("opens"),
    };
    let mode = if kind == "wal" { "WAL" } else { "DELETE" };
    con.pragma_update(None, "journal_mode", mode).expect("set");
    con.execute_batch(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, word TEXT, n INTEGER);
         CREATE INDEX by_n ON t(n);
         WITH i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i LIMIT 20000)
         INSERT INTO t SELECT i, 'word ' || (i * 7919 % 10007), i * 48271 % 20011 FROM i",
    )
    .expect("filled");
    drop(con);
    age(path, 60);
}

const QUERIES: [&str; 4] = [
    "SELECT count(*), sum(n), sum(length(word)) FROM t",
    "SELECT word FROM t WHERE id = 12345",
    "SELECT group_concat(id) FROM (SELECT id FROM t WHERE n BETWEEN 500 AND 540 ORDER BY n DESC)",
    "SELECT group_concat(word) FROM (SELECT word FROM t ORDER BY id DESC LIMIT 50)",
];

fn text(con: &Connection, sql: &str) -> String {
    let answer = con.query_row(sql, [], |row| {
        let value = row.get_ref(0)?;
        Ok(format!("{value:?}"))
    });
    answer.unwrap_or_else(|e| panic!("{sql}: {e}"))
}

fn figure(con: &Connection, name: &str) -> i64 {
    let sql = "SELECT value FROM densite_info WHERE name = ?1";
    con.query_row(sql, [name], |row| row.get(0))
        .unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Runs a statement that fails, and returns what the VFS says of it.
fn take_reason(con: &Connection, sql: &str) -> String {
    let _ = densite_vfs::take_last_error();
    con.query_row(sql, [], |_| Ok(())).expect_err("fails");
    densite_vfs::take_last_error().unwrap_or_default()
}

#[test]
fn a_database_is_read_as_the_local_file_is() {
    let Some(site) = Site::new() else {
        return;
    };
    for kind in ["densite", "wal", "plain"] {
        let path = site.path(kind);
        fill(&path, kind);
        let local = densite::open(&path).expect("opens");
        let expected = QUERIES.map(|sql| text(&local, sql));
        drop(local);
        let con = site.open(kind);
        assert_eq!(QUERIES.map(|sql| text(&con, sql)), expected, "{kind}");
        let check: String = con
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .expect("checks");
        assert_eq!(check, "ok", "{kind}");
        let mode = text(&con, "PRAGMA journal_mode");
        assert!(!mode.contains("wal"), "{kind}: {mode}");
        assert!(figure(&con, "remote_requests") > 1, "{kind}");
        assert!(figure(&con, "remote_bytes") >= 64 << 10, "{kind}");
        // Temporary tables are of this machine.
        con.execute_batch("CREATE TEMP TABLE own AS SELECT * FROM t LIMIT 10")
            .expect("a temporary table");
    }
}

#[test]
fn a_remote_database_is_joined_with_a_local_one() {
    let Some(site) = Site::new() else {
        return;
    };
    fill(&site.path("far"), "densite");
    let dir = tempfile::tempdir().expect("a directory");
    let con = densite::open(dir.path().join("near.db")).expect("opens");
    con.execute_batch("CREATE TABLE wanted(id INTEGER); INSERT INTO wanted VALUES (3), (77)")
        .expect("filled");
    let url = site.proxy.http("far");
    con.execute(&format!("ATTACH 'file:{url}?vfs=densite' AS far"), [])
        .expect("attached");
    let sql = "SELECT count(*) FROM wanted JOIN far.t USING (id)";
    assert_eq!(text(&con, sql), "Integer(2)");
    let sql = "SELECT value > 0 FROM densite_info('far') WHERE name = 'remote_requests'";
    assert_eq!(text(&con, sql), "Integer(1)");
    con.execute("CREATE TABLE copy AS SELECT * FROM far.t", [])
        .expect("copied");
    assert_eq!(text(&con, "SELECT count(*) FROM copy"), "Integer(20000)");
}

#[test]
fn several_connections_read_one_database_and_each_opens_the_newest() {
    let Some(site) = Site::new() else {
        return;
    };
    for kind in ["densite", "plain"] {
        let path = site.path("app.db");
        fill(&path, kind);
        let con = densite::open(&path).expect("opens");
        con.execute_batch("CREATE TABLE pad AS SELECT randomblob(1000) AS b FROM t LIMIT 3000")
            .expect("filled");
        drop(con);
        age(&path, 60);
        let whole = "SELECT sum(length(hex(b)) + unicode(hex(b))) FROM pad";
        let expected = text(&densite::open(&path).expect("opens"), whole);
        let old = [0, 1].map(|_| site.open("app.db"));
        let count = "SELECT count(*) FROM t";
        assert_eq!(text(&old[0], count), "Integer(20000)");
        let next = site.path("next.db");
        fill(&next, kind);
        let con = densite::open(&next).expect("opens");
        con.execute_batch(
            "DELETE FROM t WHERE id > 500; CREATE TABLE pad AS SELECT zeroblob(9) AS b; VACUUM",
        )
        .expect("deleted");
        drop(con);
        age(&next, 30);
        std::fs::rename(&next, &path).expect("replaced");
        let new = site.open("app.db");
        assert_eq!(text(&new, count), "Integer(500)", "{kind}");
        let mut failed = 0;
        // The old version is gone, and none of its rows may be mixed with new ones.
        for con in &old {
            let sum = con.query_row(whole, [], |row| row.get::<_, i64>(0));
            let is_whole = |sum: &i64| format!("Integer({sum})") == expected;
            assert!(sum.as_ref().map_or(true, is_whole), "{kind}: {sum:?}");
            if sum.is_err() {
                failed += 1;
                let why = take_reason(con, whole);
                assert!(why.contains("was replaced"), "{kind}: {why}");
            }
        }
        assert!(failed > 0, "{kind}: all was in memory");
        drop(new);
        std::fs::remove_file(&path).expect("removed");
    }
}

/// Where an application leaves its pages in a Densite file differs from run to run, and with it the
/// number of requests.
#[test]
fn a_query_takes_few_requests() {
    let Some(site) = Site::new() else {
        return;
    };
    for (kind, open, lookup, scan) in [("densite", 6, 4, 30), ("plain", 1, 2, 12)] {
        let path = site.path(kind);
        fill(&path, kind);
        let con = densite::open(&path).expect("opens");
        con.execute_batch(
            "WITH i(i) AS (SELECT 20001 UNION ALL SELECT i + 1 FROM i LIMIT 200000)
             INSERT INTO t SELECT i, 'word ' || (i * 7919 % 100007), i * 48271 % 200011 FROM i",
        )
        .expect("filled");
        drop(con);
        age(&path, 60);
        let con = site.open(kind);
        text(&con, "SELECT count(*) FROM sqlite_schema");
        let counts = [
            site.proxy.take_counts().0,
            {
                text(&con, "SELECT word FROM t WHERE id = 54321");
                site.proxy.take_counts().0
            },
            {
                text(&con, "SELECT sum(length(word)) FROM t");
                site.proxy.take_counts().0
            },
        ];
        let size = std::fs::metadata(&path).expect("a size").len();
        assert!(
            counts[0] <= open && counts[1] <= lookup && counts[2] <= scan,
            "{kind}, {size} bytes: {counts:?}"
        );
    }
}

#[test]
fn writing_is_refused_and_changes_nothing() {
    let Some(site) = Site::new() else {
        return;
    };
    for kind in ["densite", "plain"] {
        fill(&site.path(kind), kind);
        let before = std::fs::read(site.path(kind)).expect("read");
        let con = site.open(kind);
        for sql in [
            "DELETE FROM t",
            "CREATE TABLE other(a)",
            "PRAGMA user_version = 7",
            "VACUUM",
        ] {
            let said = con.execute_batch(sql).expect_err(sql).to_string();
            assert!(said.contains("readonly"), "{sql}: {said}");
        }
        let _ = con.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()));
        assert!(text(&con, QUERIES[0]).contains("20000"), "{kind}");
        drop(con);
        assert!(before == std::fs::read(site.path(kind)).expect("read"));
    }
}

#[test]
fn errors_are_reported_when_the_database_is_opened() {
    let Some(site) = Site::new() else {
        return;
    };
    std::fs::write(site.path("text"), "no database".repeat(1000)).expect("written");
    fill(&site.path("app.db"), "densite");
    let said = |name: &str| -> String {
        let error = densite::open(site.proxy.http(name)).expect_err(name);
        assert!(matches!(error, Error::Open { .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.contains(&site.proxy.http(name)), "{said}");
        said
    };
    assert!(said("missing.db").contains("404"));
    site.proxy.next([Fault::NoRange]);
    assert!(said("app.db").contains("ignores ranges"));
    site.proxy.next([Fault::Status(403)]);
    assert!(said("app.db").contains("does not allow"));
    // SQLite judges the contents at the first statement.
    let con = site.open("text");
    let error = con
        .execute_batch("SELECT * FROM sqlite_schema")
        .expect_err("no database");
    assert!(error.to_string().contains("not a database"), "{error}");
}

#[test]
fn a_failure_in_the_middle_is_an_error_of_the_statement() {
    let Some(site) = Site::new() else {
        return;
    };
    fill(&site.path("app.db"), "densite");
    // More than the first requests bring.
    let blobs = "CREATE TABLE b AS WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20)
                 SELECT randomblob(100000) AS x FROM n";
    let local = densite::open(site.path("app.db")).expect("opens");
    local.execute_batch(blobs).expect("written");
    local.close().expect("closes");
    let con = site.open("app.db");
    text(&con, "SELECT count(*) FROM sqlite_schema");
    site.proxy.always(Some(Fault::Status(404)));
    let query = "SELECT sum(length(hex(x))) FROM b";
    let failed = con.query_row(query, [], |_| Ok(()));
    assert!(failed.is_err(), "the file is gone");
    let reason: String = con
        .query_row("SELECT densite_last_error()", [], |row| row.get(0))
        .expect("a reason");
    assert!(
        reason.contains("404") && reason.contains("/app.db"),
        "{reason}"
    );
    site.proxy.always(None);
    assert!(text(&con, query).contains("4000000"), "it is back");
}

/// A file on a server can be damaged as any other: its checksums tell.
#[test]
fn a_flipped_bit_gives_an_error_or_the_right_rows() {
    let Some(site) = Site::new() else {
        return;
    };
    fill(&site.path("app.db"), "densite");
    let good = std::fs::read(site.path("app.db")).expect("a file");
    let con = site.open("app.db");
    let expected = QUERIES.map(|sql| text(&con, sql));
    drop(con);
    let mut errors = 0;
    let step = good.len() / 40;
    for (n, at) in (0..good.len()).step_by(step.max(1)).enumerate() {
        let mut bad = good.clone();
        if let Some(byte) = bad.get_mut(at) {
            *byte ^= 1 << (n % 8);
        }
        let path = site.path(&format!("flipped{n}.db"));
        std::fs::write(&path, bad).expect("written");
        age(&path, 60);
        let url = site.proxy.http(&format!("flipped{n}.db"));
        let Ok(con) = densite::open(&url) else {
            errors += 1;
            continue;
        };
        for (sql, expected) in QUERIES.iter().zip(&expected) {
            let answer = con.query_row(sql, [], |row| Ok(format!("{:?}", row.get_ref(0)?)));
            match answer {
                Ok(answer) => assert_eq!(answer, *expected, "byte {at}: {sql}"),
                Err(_) => errors += 1,
            }
        }
    }
    assert!(errors > 20, "{errors} errors: most bytes are in use");
}

/// Many small commits, as an application that never checkpoints at once leaves them.
#[test]
fn a_file_with_many_commits_takes_few_requests() {
    let Some(site) = Site::new() else {
        return;
    };
    let path = site.path("app.db");
    fill(&path, "densite");
    let con = densite::open(&path).expect("opens");
    con.pragma_update(None, "synchronous", "OFF").expect("set");
    for n in 0..1000 {
        con.execute("UPDATE t SET n = n + 1 WHERE id = ?1", [n * 7 % 20_000])
            .expect("updated");
    }
    drop(con);
    age(&path, 60);
    let local = densite::open(&path).expect("opens");
    let expected = text(&local, QUERIES[0]);
    drop(local);
    let _ = site.proxy.take_counts();
    let con = site.open("app.db");
    text(&con, "SELECT count(*) FROM sqlite_schema");
    let (requests, bytes) = site.proxy.take_counts();
    assert!(requests <= 6, "{requests} requests, {bytes} bytes");
    assert_eq!(text(&con, QUERIES[0]), expected);
}

#[test]
fn a_presigned_url_is_read_and_never_shown() {
    let Some(site) = Site::new() else {
        return;
    };
    fill(&site.path("app.db"), "densite");
    let url = format!(
        "{}?X-Amz-Credential=a%2Fb&X-Amz-Signature={}",
        site.proxy.http("app.db"),
        "5ec7e7".repeat(200)
    );
    let con = densite::open(&url).expect("opens");
    assert!(text(&con, QUERIES[0]).contains("20000"));
    site.proxy.always(Some(Fault::Status(403)));
    let said = densite::open(&url).expect_err("expired").to_string();
    assert!(!said.contains("5ec7e7"), "{said}");
    assert!(said.contains("presigned"), "{said}");
}

#[test]
fn tls_is_read_with_an_authority_of_ones_own() {
    let Some(site) = Site::new() else {
        return;
    };
    fill(&site.path("app.db"), "densite");
    let url = site.nginx.https("app.db");
    let said = densite::open(&url).expect_err("not trusted").to_string();
    assert!(said.contains("certificate"), "{said}");
    densite::register().expect("registered");
    let uri = format!(
        "file:{url}?vfs=densite&ca_file={}",
        site.nginx.ca_file().display()
    );
    let con = Connection::open(uri).expect("opens");
    assert!(text(&con, QUERIES[0]).contains("20000"));
}

#[test]
fn options_hold_for_remote_databases_too() {
    let Some(site) = Site::new() else {
        return;
    };
    fill(&site.path("app.db"), "densite");
    let con = OpenOptions::new()
        .read_only(true)
        .decoded_cache_mib(8)
        .open(site.proxy.http("app.db"))
        .expect("opens");
    assert!(text(&con, QUERIES[0]).contains("20000"));
}
