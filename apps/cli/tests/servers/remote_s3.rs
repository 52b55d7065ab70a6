//! `densite publish` to an object store, and reading from there.

use crate::common::{DENSITE, Ran, at, densite, names, run, temp};
use crate::remote::command;
use densite_testing::{Fault, FaultProxy, S3};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Beside the build output, wherever that is.
const SERVER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../s3-server");
const URL: &str = "s3://bucket/folder/app.db";

/// An object store behind a proxy.
pub(crate) struct Store {
    s3: S3,
    pub(crate) proxy: FaultProxy,
    endpoint: String,
}

impl Store {
    /// `None` if there is no server.
    pub(crate) fn new() -> Option<Store> {
        let s3 = S3::start(Path::new(SERVER))?;
        let proxy = FaultProxy::start(s3.port());
        let endpoint = proxy.http("").trim_end_matches('/').to_owned();
        Some(Store {
            s3,
            proxy,
            endpoint,
        })
    }

    pub(crate) fn env(&self) -> [(&'static str, &str); 4] {
        [
            ("AWS_ENDPOINT_URL", &self.endpoint),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "5ec7e7"),
        ]
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let ran = command(args, &self.env());
        assert!(!format!("{ran:?}").contains("5ec7e7"), "{ran:?}");
        ran
    }

    /// Removes the object of the bucket whose name ends so. Returns its name.
    pub(crate) fn lose(&self, end: &str) -> String {
        let listed = self.s3.request("GET", "/bucket?list-type=2");
        let keys = listed.split("<Key>").skip(1);
        let mut keys = keys.filter_map(|rest| rest.split("</Key>").next());
        let key = keys.find(|key| key.ends_with(end));
        let key = key.expect("an object").to_owned();
        self.s3.remove(&key);
        key.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// The number of blobs in the published database.
    fn count(&self) -> String {
        let sql = "SELECT count(*), sum(length(a)) FROM t";
        self.run(&["sql", URL, sql, "--format", "csv"])
            .expect(0)
            .out
    }
}

/// A database with this many MiB that do not compress.
fn database(path: &str, mib: u32) {
    let sql = format!(
        "CREATE TABLE t(a); WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {mib})
         INSERT INTO t SELECT randomblob(1048576) FROM n"
    );
    densite(&["sql", "--create", path, &sql]).expect(0);
}

/// What `count` prints for such a database.
fn counted(mib: u32) -> String {
    format!("count(*),sum(length(a))\n{mib},{}\n", mib << 20)
}

#[test]
fn a_database_is_uploaded_in_parts_and_replaced_at_once() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let db = at(&dir, "a.db");
    // One part, then three.
    for mib in [1, 20] {
        let path = format!("{db}{mib}");
        database(&path, mib);
        let told = store
            .run(&["publish", &path, URL, "--json"])
            .expect(0)
            .json();
        assert_eq!(told["destination"], URL);
        assert!(told["destination_bytes"].as_u64() > Some(u64::from(mib) << 20));
        assert_eq!(store.count(), counted(mib));
        store.run(&["check", URL]).expect(0);
        let info = store.run(&["info", URL, "--json"]).expect(0).json();
        assert_eq!(info["stored_bytes"], told["destination_bytes"]);
    }
    // From there to another object, and back to a file.
    store
        .run(&["publish", URL, "s3://bucket/copy.db"])
        .expect(0);
    store.run(&["check", "s3://bucket/copy.db"]).expect(0);
    let back = at(&dir, "back.db");
    store.run(&["decompress", URL, &back]).expect(0);
    assert!(Path::new(&back).metadata().expect("a file").len() > 20 << 20);
}

#[test]
fn a_failed_upload_leaves_the_old_object() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (old, new) = (at(&dir, "old.db"), at(&dir, "new.db"));
    database(&old, 1);
    database(&new, 20);
    store.run(&["publish", &old, URL]).expect(0);
    // What passes is tried again.
    store.proxy.next([Fault::Status(503), Fault::Reset]);
    store.run(&["publish", &old, URL]).expect(0);
    for (faults, says) in [
        // At the beginning, at a part, at the end.
        (
            vec![Fault::Status(403)],
            "the server does not allow it (403)",
        ),
        (vec![Fault::Status(404)], "404"),
        (
            vec![Fault::Late(Duration::ZERO), Fault::Status(403)],
            "(403)",
        ),
        (
            vec![Fault::Late(Duration::ZERO); 4]
                .into_iter()
                .chain([Fault::Status(400)])
                .collect(),
            "400",
        ),
    ] {
        store.proxy.next(faults.clone());
        let ran = store.run(&["publish", &new, URL]).expect(1).says(says);
        assert!(ran.err.contains(URL), "{ran:?}");
        store.proxy.next([]);
        assert_eq!(store.count(), counted(1), "{faults:?}");
    }
    let uploads = store.s3.request("GET", "/bucket?uploads");
    assert!(!uploads.contains("<Key>"), "an upload was left: {uploads}");
    store
        .run(&["publish", &old, "s3://none/a.db"])
        .expect(1)
        .says("404");
    let nowhere = [("AWS_ENDPOINT_URL", "http://127.0.0.1:1")];
    command(
        &["publish", &old, URL],
        &[&store.env()[1..], &nowhere].concat(),
    )
    .expect(1)
    .says("no connection");
}

#[test]
fn an_interrupted_upload_leaves_the_old_object_and_no_file() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (old, new) = (at(&dir, "old.db"), at(&dir, "new.db"));
    database(&old, 1);
    database(&new, 30);
    store.run(&["publish", &old, URL]).expect(0);
    let folder = at(&dir, "tmp");
    std::fs::create_dir(&folder).expect("made");
    // The parts wait until the signal has come.
    store
        .proxy
        .always(Some(Fault::Late(Duration::from_secs(3))));
    let mut command = Command::new(DENSITE);
    command
        .args(["publish", &new, URL])
        .envs(store.env())
        .env("TMPDIR", &folder);
    let _ = store.proxy.take_counts();
    let child = command.spawn().expect("runs");
    while store.proxy.requests() < 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    run(Command::new("kill").args(["-INT", &child.id().to_string()])).expect(0);
    store.proxy.always(None);
    let done = child.wait_with_output().expect("ends");
    assert_eq!(done.status.code(), Some(130));
    assert_eq!(store.count(), counted(1));
    assert_eq!(names(Path::new(&folder)), [""; 0]);
}
