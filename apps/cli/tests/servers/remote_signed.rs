//! Publishing to versitygw and reading there. Unlike moto, it judges signatures, and it is a server
//! of another family. `make remote-demo` installs it, and `make test` does not: the build takes
//! minutes. Without it, this test ends at once.

use crate::common::{at, densite, temp};
use crate::remote::command;
use densite_testing::{FaultProxy, Versitygw};
use std::path::Path;

/// Beside the build output, wherever that is.
const SERVER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../versitygw");
const URL: &str = "s3://bucket/folder/app.db";

#[test]
fn a_published_object_is_read_with_few_signed_requests() {
    let own = temp();
    let Some(store) = Versitygw::start(Path::new(SERVER), own.path()) else {
        eprintln!("versitygw is not installed: lab/testing/versitygw/setup.sh installs it");
        return;
    };
    let proxy = FaultProxy::start(store.port());
    let variables = Versitygw::environment(proxy.port());
    let variables: Vec<_> = variables.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let dir = temp();
    let db = at(&dir, "a.db");
    // Three parts of an upload, and more than the first and the last request bring.
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, a);
        WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
        INSERT INTO t SELECT i, randomblob(4000) FROM n";
    densite(&["sql", "--create", &db, sql]).expect(0);
    command(&["publish", &db, URL], &variables).expect(0);
    command(&["check", URL], &variables).expect(0);
    let _ = proxy.take_counts();
    let sql = "SELECT length(a) FROM t WHERE id = 2500";
    let read = command(&["sql", URL, sql, "--format", "csv"], &variables).expect(0);
    assert_eq!(read.out, "length(a)\n4000\n");
    let (requests, bytes) = proxy.take_counts();
    assert!((2..=3).contains(&requests), "{requests} requests");
    assert!(bytes < 1 << 20, "{bytes} bytes");

    let mut wrong = variables.clone();
    wrong.retain(|(name, _)| *name != "AWS_SECRET_ACCESS_KEY");
    wrong.push(("AWS_SECRET_ACCESS_KEY", "another"));
    command(&["sql", URL, sql], &wrong)
        .expect(1)
        .says("the server does not allow it (403)");
    command(&["publish", &db, URL], &wrong)
        .expect(1)
        .says("403");
}
