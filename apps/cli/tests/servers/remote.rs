//! `densite sql` on databases of a web server and of object storage.

use crate::common::{DENSITE, Ran, run};
use densite_testing::{Fault, FaultProxy, Nginx};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A database of nginx, as `app.db` and as the object `app.db` of a bucket `bucket`.
struct Site {
    nginx: Nginx,
    root: TempDir,
    own: TempDir,
}

impl Site {
    /// `None` if there is no nginx.
    fn new() -> Option<Site> {
        let [root, own] = [0, 1].map(|_| tempfile::tempdir().expect("a directory"));
        let nginx = Nginx::start(root.path(), own.path())?;
        let bucket = root.path().join("bucket");
        std::fs::create_dir(&bucket).expect("made");
        let sql = "CREATE TABLE t(a); INSERT INTO t VALUES ('far')";
        let path = bucket.join("a b.db").display().to_string();
        command(&["sql", "--create", &path, sql], &[]).expect(0);
        std::fs::copy(&path, root.path().join("app.db")).expect("copied");
        Some(Site { nginx, root, own })
    }
}

/// Runs the command without proxies and credentials of this machine.
pub(crate) fn command(args: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(DENSITE);
    for (name, _) in std::env::vars() {
        let upper = name.to_ascii_uppercase();
        if upper.starts_with("AWS_") || upper.starts_with("SSL_CERT") || upper.ends_with("_PROXY") {
            command.env_remove(name);
        }
    }
    run(command.args(args).envs(env.iter().copied()))
}

fn select(url: &str, env: &[(&str, &str)]) -> Ran {
    command(&["sql", url, "SELECT a FROM t", "--format", "csv"], env)
}

#[test]
fn sql_reads_a_url_and_writes_nothing() {
    let Some(site) = Site::new() else {
        return;
    };
    let url = site.nginx.http("app.db");
    assert_eq!(select(&url, &[]).expect(0).out, "a\nfar\n");
    let uri = format!("file:{url}?mode=ro");
    assert_eq!(select(&uri, &[]).expect(0).out, "a\nfar\n");
    command(&["sql", &url, "DELETE FROM t"], &[])
        .expect(1)
        .says("a remote database can only be read: change the original");
    command(
        &["sql", "--create", &site.nginx.http("new.db"), "SELECT 1"],
        &[],
    )
    .expect(1)
    .says("404");
    let names = std::fs::read_dir(site.root.path()).expect("a list").count();
    assert_eq!(names, 2, "nothing was created");
}

#[test]
fn tls_is_checked_against_the_certificates_of_the_environment() {
    let Some(site) = Site::new() else {
        return;
    };
    let url = site.nginx.https("app.db");
    let ca = site.nginx.ca_file().display().to_string();
    for variable in ["SSL_CERT_FILE", "AWS_CA_BUNDLE"] {
        let ran = select(&url, &[(variable, &ca)]).expect(0);
        assert_eq!(ran.out, "a\nfar\n", "{variable}");
    }
    select(&url, &[]).expect(1).says("certificate");
    let none = site.root.path().join("none.pem").display().to_string();
    std::fs::write(&none, "").expect("written");
    let dir = site.root.path().join("empty");
    std::fs::create_dir(&dir).expect("made");
    let dir = dir.display().to_string();
    select(&url, &[("SSL_CERT_FILE", &none), ("SSL_CERT_DIR", &dir)])
        .expect(1)
        .says("no certificates to trust");
    select(&url, &[("AWS_CA_BUNDLE", &none)])
        .expect(1)
        .says("none.pem");
}

/// The bucket is nginx's folder. So this shows where a key is looked for and that a signature is
/// sent, but not that it is right.
#[test]
fn an_s3_url_is_read_from_the_endpoint_of_the_environment() {
    let Some(site) = Site::new() else {
        return;
    };
    let endpoint = site.nginx.http("");
    let public = [
        ("AWS_ENDPOINT_URL", endpoint.trim_end_matches('/')),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_SKIP_SIGNATURE", "true"),
    ];
    let signed = [
        public[0],
        public[1],
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    for env in [&public[..], &signed] {
        assert_eq!(select("s3://bucket/a b.db", env).expect(0).out, "a\nfar\n");
    }
    let missing = select("s3://bucket/other.db", &signed).expect(1);
    assert!(missing.err.contains("s3://bucket/other.db"), "{missing:?}");
    assert!(!missing.err.contains("secret"), "{missing:?}");
    let bare = [("AWS_ENDPOINT_URL", "127.0.0.1:1"), public[1], public[2]];
    select("s3://bucket/a b.db", &bare)
        .expect(1)
        .says("AWS_ENDPOINT_URL is no address");
    // Nothing listens at the place where a machine would find its credentials.
    let without = [
        public[0],
        public[1],
        ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1"),
    ];
    select("s3://bucket/a b.db", &without)
        .expect(1)
        .says("no credentials were found");
    select("s3://bucket", &signed)
        .expect(1)
        .says("s3://BUCKET/KEY");
}

#[test]
fn a_proxy_of_the_environment_is_used_and_a_wrong_one_is_named() {
    let Some(site) = Site::new() else {
        return;
    };
    // Not the address that is asked for, so only the proxy can answer.
    let far = "http://database.invalid/app.db";
    let proxy = site.nginx.http("");
    let ran = select(far, &[("HTTP_PROXY", &proxy)]).expect(0);
    assert_eq!(ran.out, "a\nfar\n");
    let url = site.nginx.http("app.db");
    for wrong in ["http://127.0.0.1:1", "http://proxy.invalid:8080"] {
        select(&url, &[("HTTP_PROXY", wrong)])
            .expect(1)
            .says("HTTP_PROXY")
            .says(&url);
    }
    let env = [
        ("HTTP_PROXY", "http://127.0.0.1:1"),
        ("NO_PROXY", "127.0.0.1"),
    ];
    assert_eq!(select(&url, &env).expect(0).out, "a\nfar\n");
}

#[test]
fn secrets_of_a_url_are_not_shown() {
    let Some(site) = Site::new() else {
        return;
    };
    for name in ["app.db", "missing.db"] {
        let url = format!("{}?X-Amz-Signature=5ec7e7", site.nginx.http(name));
        let uri = format!("file:{}%3Ftoken=5ec7e7?mode=ro", site.nginx.http(name));
        let misspelt = format!("{uri}&vfs=densite&timout=1");
        let long = format!("{url}{}", "x".repeat(9000));
        let with_user = url.replace("http://", "http://me:5ec7e7@");
        for args in [
            vec!["sql", &url, "SELECT a FROM t"],
            vec!["sql", &url, "SELECT a FROM other", "--json"],
            vec!["sql", &url, "DELETE FROM t"],
            vec!["info", &url],
            vec!["check", &url],
            vec!["vacuum", &url, "--yes"],
            vec!["sql", &uri, "SELECT a FROM other", "--json"],
            vec!["sql", &misspelt, "SELECT a FROM t"],
            vec!["sql", &long, "SELECT a FROM t"],
            vec!["sql", &with_user, "SELECT a FROM t"],
            vec!["sql", "http://me:5ec7e7@127.0.0.1:99999/a.db", "SELECT 1"],
            vec!["sql", "s3://id:5ec7e7@bucket/a.db", "SELECT 1"],
        ] {
            let ran = command(&args, &[]);
            assert!(!format!("{ran:?}").contains("5ec7e7"), "{args:?}: {ran:?}");
        }
    }
}

#[test]
fn verbs_that_only_read_take_a_url() {
    let Some(site) = Site::new() else {
        return;
    };
    let url = site.nginx.http("app.db");
    let secret = format!("{url}?token=5ec7e7");
    let brief = command(&["info", &url], &[]).expect(0).out;
    assert!(brief.contains("densite info --columns"), "{brief}");
    let info = command(&["info", &secret, "--columns", "--json"], &[]).expect(0);
    assert!(!info.out.contains("5ec7e7"), "{info:?}");
    let info = info.json();
    assert_eq!(
        (&info["path"], &info["form"]),
        (&url.clone().into(), &"compressed".into())
    );
    assert!(
        info["remote"]["remote_requests"].as_u64() >= Some(1),
        "{info}"
    );
    assert!(info["log"].is_null() && info["vacuum"].is_null(), "{info}");
    assert!(
        info["objects"].as_array().is_some_and(|o| !o.is_empty()),
        "{info}"
    );
    let text = command(&["info", &url], &[]).expect(0).out;
    assert!(text.contains("remote requests"), "{text}");
    let checked = command(&["check", &url], &[]).expect(0).out;
    assert!(checked.contains(": ok ("), "{checked}");
    let at = |name: &str| site.own.path().join(name).display().to_string();
    let asks = command(&["advise", &url], &[]).expect(6);
    asks.says("advise reads all tables and indexes")
        .says("--yes");
    let advice = command(&["advise", &url, "--yes"], &[]).expect(0).out;
    assert!(advice.contains("publish it again"), "{advice}");
    assert!(
        !advice.contains("PRAGMA"),
        "nothing can be written: {advice}"
    );
    let report = at("report.html");
    command(&["report", &url, "-o", &report], &[]).expect(0);
    let plain = at("plain.db");
    command(&["decompress", &url, &plain], &[]).expect(0);
    let file = std::fs::read(&plain).expect("a file");
    assert!(file.starts_with(b"SQLite format 3\0"));
    std::fs::write(site.root.path().join("plain.db"), file).expect("written");
    let url = site.nginx.http("plain.db");
    assert_eq!(
        command(&["info", &url, "--json"], &[]).expect(0).json()["form"],
        "plain"
    );
    command(&["check", &url], &[]).expect(0);
    for verb in ["compress", "publish"] {
        let copy = at(verb);
        command(&[verb, &url, &copy], &[]).expect(0);
        assert_eq!(select(&copy, &[]).expect(0).out, "a\nfar\n", "{verb}");
    }
    command(&["decompress", &url, &at("other.db")], &[])
        .expect(1)
        .says("plain SQLite database already");
}

/// Whatever the size of a file is, and whether or not it is compressed.
#[test]
fn figures_of_a_remote_file_take_at_most_three_requests() {
    let Some(site) = Site::new() else {
        return;
    };
    let path = |name: &str| site.root.path().join(name);
    let (small, plain) = (path("small.db"), path("plain.db"));
    let [small_text, plain_text] = [&small, &plain].map(|path| path.display().to_string());
    let sql = "CREATE TABLE t(a, b); CREATE INDEX i ON t(b); CREATE INDEX j ON t(a, b);
        WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 30000)
        INSERT INTO t SELECT i, hex(randomblob(60)) FROM n; DELETE FROM t WHERE a % 7 = 0;";
    command(&["sql", "--create", &small_text, sql], &[]).expect(0);
    command(&["decompress", &small_text, &plain_text], &[]).expect(0);
    let proxy = FaultProxy::start(site.nginx.port());
    for (name, path, form) in [
        ("small.db", small, "compressed"),
        ("plain.db", plain, "plain"),
    ] {
        super::common::age(&path);
        let _ = proxy.take_counts();
        let info = command(&["info", &proxy.http(name), "--json"], &[]);
        let info = info.expect(0).json();
        let (requests, bytes) = proxy.take_counts();
        assert!(
            requests <= 3 && bytes < 1 << 20,
            "{name}: {requests}, {bytes}"
        );
        assert_eq!(info["form"], form);
        assert_eq!(info["journal_mode"], "rollback");
        let len = std::fs::metadata(&path).expect("a file").len();
        assert_eq!(info["stored_bytes"].as_u64(), Some(len), "{info}");
        assert!(info["pages"].as_u64() > Some(1000), "{info}");
    }
}

/// A name that was meant to be a URL is not called a missing file.
#[test]
fn a_mistyped_url_is_told_from_a_path() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = dir.path().join("a.db").display().to_string();
    command(&["sql", "--create", &db, "CREATE TABLE t(a)"], &[]).expect(0);
    let unknown = "is not known; use https://, http:// or s3://";
    for (args, says) in [
        (&["info", "htps://h/a.db"][..], unknown),
        (&["check", "ftp://h/a.db"], unknown),
        (&["sql", "gs://b/a.db", "SELECT 1"], unknown),
        (
            &["publish", &db, "gs://b/c/a.db"],
            "gs://b/c/a.db: gs:// is not known",
        ),
        (&["info", "https:/h/a.db"], "write https:// for a URL"),
        (
            &["replicate", &db, "s3//my-bucket/live", "--once"],
            "write s3:// for a URL",
        ),
        (
            &["replicate", &db, "s3/my-bucket", "--once"],
            "or ./s3/my-bucket for a path",
        ),
        (
            &["restore", "https//h/live", "b.db"],
            "write https:// for a URL",
        ),
        (&["replicas", "gs://b/live"], unknown),
    ] {
        command(args, &[]).expect(1).says(says);
    }
}

#[test]
fn verbs_say_what_is_wrong_with_a_remote_file() {
    let Some(site) = Site::new() else {
        return;
    };
    let put = |name: &str, bytes: &[u8]| {
        std::fs::write(site.root.path().join(name), bytes).expect("written");
        site.nginx.http(name)
    };
    let text = put("a.txt", &[b'a'; 5000]);
    let empty = put("empty", b"");
    let mut damaged = std::fs::read(site.root.path().join("app.db")).expect("a file");
    if let Some(byte) = damaged.get_mut(25) {
        *byte ^= 1;
    }
    let damaged = put("damaged.db", &damaged);
    let missing = site.nginx.http("missing.db");
    let out = site.own.path().join("out").display().to_string();
    for verb in [&["info"][..], &["check"], &["decompress"], &["publish"]] {
        for (url, code, says) in [
            (&text, 5, "is not a SQLite database"),
            (&empty, 1, "empty"),
            (&missing, 1, "404"),
            (&damaged, 5, ""),
        ] {
            let mut args = [verb, &[url.as_str()]].concat();
            if ["decompress", "publish"].contains(&verb[0]) {
                args.push(&out);
            }
            let ran = command(&args, &[]);
            assert_eq!(ran.code, code, "{args:?}: {ran:?}");
            let all = format!("{}{}", ran.out, ran.err);
            assert!(all.contains(says) && all.contains(url), "{args:?}: {ran:?}");
        }
    }
    assert!(!std::path::Path::new(&out).exists());
}

#[test]
fn verbs_that_write_say_that_a_remote_file_can_only_be_read() {
    for args in [
        &["compress"][..],
        &["decompress"],
        &["vacuum", "--yes"],
        &["log", "status"],
    ] {
        let args = [args, &["https://localhost:1/a.db"]].concat();
        command(&args, &[])
            .expect(1)
            .says("a remote database can only be read");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let db = dir.path().join("a.db").display().to_string();
    command(&["sql", "--create", &db, "CREATE TABLE t(a)"], &[]).expect(0);
    command(&["publish", &db, "https://localhost:1/a.db"], &[])
        .expect(1)
        .says("uploaded to s3://BUCKET/KEY");
}

/// On a terminal, a statement that fetches for long says how much. The terminal is a real one.
#[test]
fn a_long_scan_shows_its_progress_on_a_terminal() {
    use std::io::Read as _;
    let Some(site) = Site::new() else {
        return;
    };
    let db = site.root.path().join("large.db");
    let path = db.display().to_string();
    let sql = "CREATE TABLE t AS WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300)
        SELECT randomblob(4000) AS x FROM n";
    command(&["sql", "--create", &path, sql], &[]).expect(0);
    super::common::age(&db);
    let proxy = FaultProxy::start(site.nginx.port());
    proxy.always(Some(Fault::Line {
        delay: Duration::from_millis(100),
        rate: 1 << 20,
    }));
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    unlockpt(&terminal).expect("unlocked");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let slave = std::fs::File::options()
        .read(true)
        .write(true)
        .open(std::ffi::OsStr::from_bytes(name.as_bytes()))
        .expect("open");
    let url = proxy.http("large.db");
    let mut command = Command::new(DENSITE);
    command
        .args(["sql", &url, "SELECT sum(length(hex(x))) FROM t"])
        .env("TERM", "xterm")
        .stderr(slave)
        .stdout(std::process::Stdio::piped());
    let child = command.spawn().expect("runs");
    // The terminal's last writer is the child.
    drop(command);
    let mut shown = Vec::new();
    let mut part = [0; 4096];
    let mut screen = std::fs::File::from(terminal);
    // Reading fails when the child has ended.
    while let Ok(n) = screen.read(&mut part) {
        shown.extend_from_slice(&part[..n]);
    }
    let done = child.wait_with_output().expect("ends");
    assert!(String::from_utf8_lossy(&done.stdout).contains("2400000"));
    let shown = String::from_utf8_lossy(&shown);
    assert!(
        shown.contains("fetching") && shown.contains(" requests, "),
        "{shown:?}"
    );
}

/// How many requests, and how many KiB, a run of the command takes.
fn cost(proxy: &FaultProxy, sql: &str, expected: &str) -> (u64, u64) {
    let url = proxy.http("published.db");
    let _ = proxy.take_counts();
    let ran = command(&["sql", &url, sql, "--format", "csv"], &[]).expect(0);
    assert_eq!(ran.out.lines().nth(1), Some(expected), "{sql}");
    let (requests, bytes) = proxy.take_counts();
    (requests, bytes.div_ceil(1024))
}

#[test]
fn a_published_database_takes_few_requests() {
    let Some(site) = Site::new() else {
        return;
    };
    let db = site.own.path().join("large.db").display().to_string();
    // Rows of about 100 bytes in two trees, in an order that looks random. They are always the same,
    // because a scan takes 9 or 10 requests by where its tree begins.
    let sql = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c TEXT);
        WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 59999),
        h(i, x, y, z) AS (SELECT i, (i * 2654435761 + 11) % 4294967291,
            ((i + 12345) * 2246822519) % 4294967279, ((i + 9) * 3266489917) % 4294967231 FROM n)
        INSERT INTO t SELECT (i * 31337) % 60000,
            printf('%08X%08X%08X%08X%08X', x*x % 4294967291, x*y % 4294967197, y*y % 4294967189, y*z % 4294967161, z*z % 4294967143),
            printf('%08X%08X%08X%08X%08X', x*z % 4294967087, (x+1)*y % 4294967291, (y+1)*z % 4294967279, (z+1)*x % 4294967231, (x+2)*z % 4294967197) FROM h;
        CREATE INDEX by_b ON t(b);
        CREATE TABLE small(a INTEGER PRIMARY KEY, b TEXT);
        INSERT INTO small SELECT a, b FROM t LIMIT 100;
        CREATE TABLE medium(a INTEGER PRIMARY KEY, b TEXT);
        INSERT INTO medium SELECT a, b FROM t LIMIT 10000;";
    command(&["sql", "--create", &db, sql], &[]).expect(0);
    let published = site.root.path().join("published.db");
    let path = published.display().to_string();
    command(&["publish", &db, &path], &[]).expect(0);
    command(&["check", &path], &[]).expect(0);
    super::common::age(&published);
    let proxy = FaultProxy::start(site.nginx.port());
    let (requests, kib) = cost(&proxy, "SELECT count(*) FROM sqlite_schema", "4");
    assert!(requests <= 2 && kib <= 256, "schema: {requests}, {kib} KiB");
    let (requests, kib) = cost(&proxy, "SELECT a FROM t WHERE a = 31234", "31234");
    assert!(requests <= 3 && kib <= 330, "lookup: {requests}, {kib} KiB");
    let (requests, kib) = cost(&proxy, "SELECT count(b) FROM small", "100");
    assert!(requests <= 2, "a small table: {requests}, {kib} KiB");
    let some = "SELECT count(b) FROM medium WHERE a IN (SELECT a FROM small ORDER BY a LIMIT 40)";
    let (requests, kib) = cost(&proxy, some, "40");
    assert!(requests <= 7, "40 rows of a table: {requests}, {kib} KiB");
    let size = published.metadata().expect("a file").len() / 1024;
    let (requests, kib) = cost(&proxy, "SELECT count(c > '') FROM t", "60000");
    assert!(
        requests <= 9 && kib <= size + 16,
        "scan: {requests}, {kib} of {size} KiB"
    );
}
