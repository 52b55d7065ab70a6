//! A replica whose head is lost, URLs, and what lies beside the objects of a replica.

use crate::common::{Ran, at, densite, names, temp};
use crate::remote_s3::Store;
use std::path::Path;
use tempfile::TempDir;

const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT)";
const ADD: &str = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
    INSERT INTO t(x) SELECT hex(randomblob(100)) FROM n";

fn made(dir: &TempDir) -> (String, String) {
    let db = at(dir, "a.db");
    densite(&["sql", "--create", &db, &format!("{TABLE}; {ADD}")]).expect(0);
    (db, at(dir, "bucket"))
}

fn counted(rows: u32) -> String {
    format!("count(*)\n{rows}\n")
}

/// How many rows a copy has, which is removed.
fn rows(copy: &str) -> String {
    let sql = ["sql", copy, "SELECT count(*) FROM t", "--format", "csv"];
    let out = densite(&sql).expect(0).out;
    std::fs::remove_file(copy).expect("removed");
    out
}

/// Without a head, `restore` works with a note, `replicas` says so, and `replicate` refuses until it
/// takes over. Restore points stay.
fn head_is_lost(db: &str, copy: &str, url: &str, run: &dyn Fn(&[&str]) -> Ran, what: &str) {
    let says = |ran: Ran| {
        ran.says(&format!("the object head is {what}"))
            .says("g0001-")
            .says("--takeover")
    };
    densite(&["sql", db, ADD]).expect(0);
    says(run(&["replicate", db, url, "--once"]).expect(5));
    says(run(&["sql", &format!("{url}/"), "SELECT 1"]).expect(1));
    let restored = run(&["restore", url, copy]).expect(0);
    let note = "was found without it; densite replicate --takeover makes a new one";
    restored.says("the object head is ").says(note);
    assert_eq!(rows(copy), counted(1000));
    // A nightly proof is not silent.
    let proof = run(&["restore", url, "--verify-only", "--quiet"]).expect(0);
    proof.says("the object head is ");
    let info = run(&["replicas", url]).expect(5);
    assert!(info.out.contains("g0001-"), "{info:?}");
    assert!(info.out.contains(&format!("the object head is {what}")));
    let info = run(&["replicas", url, "--json"]).expect(5).json();
    let problem = info["head_problem"].as_str().expect("a problem");
    assert!(problem.starts_with(&format!("is {what}")), "{info}");
    let moment = info["generations"][0]["last"]["time"].clone();
    let moment = moment.as_str().expect("a time");

    run(&["replicate", db, url, "--once", "--takeover"]).expect(0);
    run(&["restore", url, copy, "--quiet"]).expect(0);
    assert_eq!(rows(copy), counted(2000));
    run(&["restore", url, copy, "--at", moment]).expect(0);
    assert_eq!(rows(copy), counted(1000));
    let info = run(&["replicas", url, "--json"]).expect(0).json();
    assert_eq!(info["head_problem"], serde_json::Value::Null);
    assert_eq!(info["generations"][1]["epoch"], 2, "{info}");
    run(&["replicate", db, url, "--once"]).expect(0);
}

#[test]
fn a_directory_without_a_head_is_restored_and_taken_over() {
    for what in ["missing", "damaged"] {
        let dir = temp();
        let (db, url) = made(&dir);
        densite(&["replicate", &db, &url, "--once"]).expect(0);
        let head = format!("{url}/head");
        match what {
            "missing" => std::fs::remove_file(&head).expect("removed"),
            _ => std::fs::write(&head, "{").expect("written"),
        }
        head_is_lost(&db, &at(&dir, "copy.db"), &url, &|args| densite(args), what);
    }
}

#[test]
fn a_prefix_without_a_head_is_restored_and_taken_over() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (db, _) = made(&dir);
    let url = "s3://bucket/folder/app";
    store.run(&["replicate", &db, url, "--once"]).expect(0);
    store.lose("folder/app/head");
    let run = |args: &[&str]| store.run(args);
    head_is_lost(&db, &at(&dir, "copy.db"), url, &run, "missing");
}

/// One of them has lost its head: it is restored with the others.
#[test]
fn all_replicas_are_restored_also_one_without_a_head() {
    let dir = temp();
    let (all, url, to) = (at(&dir, "all"), at(&dir, "bucket"), at(&dir, "to"));
    std::fs::create_dir(&all).expect("made");
    for name in ["a.db", "b.db"] {
        let sql = format!("{TABLE}; {ADD}");
        densite(&["sql", "--create", &format!("{all}/{name}"), &sql]).expect(0);
    }
    densite(&["replicate", &all, &url, "--once"]).expect(0);
    std::fs::remove_file(format!("{url}/a.db/head")).expect("removed");
    std::fs::create_dir(format!("{url}/empty")).expect("made");
    let ran = densite(&["restore", &url, &format!("{to}/")]).expect(0);
    ran.says("the object head is missing");
    assert_eq!(names(Path::new(&to)), ["a.db", "b.db"]);
    // The replica of one database is still told from a place for several.
    std::fs::remove_file(format!("{url}/b.db/head")).expect("removed");
    densite(&["restore", &format!("{url}/b.db"), &format!("{to}/")])
        .expect(1)
        .says("this is the replica of one database");
    let Some(store) = Store::new() else {
        return;
    };
    store
        .run(&["replicate", &all, "s3://bucket/all", "--once"])
        .expect(0);
    store.lose("all/a.db/head");
    std::fs::remove_dir_all(&to).expect("removed");
    let restore = ["restore", "s3://bucket/all", &format!("{to}/")];
    store
        .run(&restore)
        .expect(0)
        .says("the object head is missing");
    assert_eq!(names(Path::new(&to)), ["a.db", "b.db"]);
}

#[test]
fn a_url_that_is_not_understood_is_named_as_it_was_given() {
    let dir = temp();
    let (db, _) = made(&dir);
    let copy = at(&dir, "copy.db");
    for url in [
        "s3://",
        "s3:///app",
        "S3://",
        "s3:bucket/app",
        "s3:/bucket/app",
        "file:/x",
    ] {
        for args in [
            &["replicate", &db, url, "--once"][..],
            &["restore", url, &copy],
            &["restore", url, &format!("{}/", dir.path().display())],
            &["replicas", url],
        ] {
            let ran = densite(args).expect(1);
            ran.says(&format!("densite: {url}: "))
                .says("use s3://BUCKET/PREFIX");
        }
    }
    let followed = densite(&["sql", "s3:///app/", "SELECT 1"]).expect(1);
    followed.says("s3:///app/: ").says("use s3://BUCKET/PREFIX");
    assert_eq!(names(dir.path()), ["a.db"]);
}

/// As for the tools of S3: a bucket alone is a place, too. Folders of others do not matter.
#[test]
fn a_bucket_without_a_prefix_is_a_place_for_a_replica() {
    let Some(store) = Store::new() else {
        return;
    };
    let dir = temp();
    let (db, _) = made(&dir);
    let copy = at(&dir, "copy.db");
    store
        .run(&["replicate", &db, "s3://bucket/zz/app", "--once"])
        .expect(0);
    store
        .run(&["replicate", &db, "s3://bucket/f", "--once"])
        .expect(0);
    for url in ["s3://bucket", "s3://bucket/"] {
        store.run(&["replicate", &db, url, "--once"]).expect(0);
        let info = store.run(&["replicas", url, "--json"]).expect(0).json();
        assert_eq!(
            (&info["objects"], &info["other_objects"]),
            (&2.into(), &0.into()),
            "{info}"
        );
        store.run(&["restore", url, &copy]).expect(0);
        assert_eq!(rows(&copy), counted(1000));
    }
    for n in 1..4 {
        densite(&["sql", &db, ADD]).expect(0);
        store
            .run(&["replicate", &db, "s3://bucket", "--once"])
            .expect(0);
        let sql = [
            "sql",
            "s3://bucket/",
            "SELECT count(*) FROM t",
            "--format",
            "csv",
        ];
        assert_eq!(store.run(&sql).expect(0).out, counted(1000 + n * 1000));
    }
    store.run(&["restore", "s3://bucket", &copy]).expect(0);
    assert_eq!(rows(&copy), counted(4000));
    // Each database of a directory gets a folder of its own.
    let (all, to) = (at(&dir, "all"), at(&dir, "to"));
    std::fs::create_dir(&all).expect("made");
    std::fs::copy(&db, format!("{all}/x.db")).expect("copied");
    store
        .run(&["replicate", &all, "s3://bucket", "--once"])
        .expect(0);
    store.run(&["restore", "s3://bucket/x.db", &copy]).expect(0);
    assert_eq!(rows(&copy), counted(4000));
    store
        .run(&["restore", "s3://bucket", &format!("{to}/")])
        .expect(0);
    assert_eq!(names(Path::new(&to)), ["f", "x.db"]);
    store
        .run(&["sql", "s3://bucket", "SELECT 1"])
        .expect(1)
        .says("use s3://BUCKET/KEY");
}

/// It begins with an image of the file, so it looks like a database.
#[test]
fn objects_of_a_replica_are_not_shipped() {
    let dir = temp();
    let (db, url) = made(&dir);
    densite(&["replicate", &db, &url, "--once"]).expect(0);
    let base = names(Path::new(&url))
        .into_iter()
        .find(|name| name.contains("-base-"));
    let base = format!("{url}/{}", base.expect("a base"));
    let before = names(Path::new(&url));
    let other = at(&dir, "other");
    let ran = densite(&["replicate", &base, &other, "--once"]).expect(1);
    ran.says("-base-")
        .says("is an object of a replica, not a database")
        .says("densite restore");
    let ran = densite(&["replicate", &url, &other, "--once"]).expect(0);
    ran.says("there is no compressed database here");
    // With a database beside them, that one is shipped.
    std::fs::copy(&db, format!("{url}/b.db")).expect("copied");
    densite(&["replicate", &url, &other, "--once"]).expect(0);
    assert_eq!(names(Path::new(&other)), ["b.db"]);
    let mut after = names(Path::new(&url));
    after.retain(|name| !name.starts_with("b.db"));
    assert_eq!(after, before, "nothing was written beside the objects");
}

#[test]
fn files_of_others_are_counted_apart() {
    let dir = temp();
    let (db, url) = made(&dir);
    densite(&["replicate", &db, &url, "--once"]).expect(0);
    let before = densite(&["replicas", &url, "--json"]).expect(0).json();
    assert_eq!(before["other_objects"], 0);
    assert!(!densite(&["replicas", &url]).expect(0).out.contains("other"));
    std::fs::write(format!("{url}/notes.txt"), vec![0; 100_000]).expect("written");
    std::fs::write(format!("{url}/g0001-notes"), vec![0; 100_000]).expect("written");
    let after = densite(&["replicas", &url, "--json"]).expect(0).json();
    for field in ["objects", "bytes"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    assert_eq!(after["generations"], before["generations"]);
    assert_eq!(after["other_objects"], 2);
    let text = densite(&["replicas", &url]).expect(0).out;
    assert!(
        text.contains("2 other files are here, which are not part of the replica"),
        "{text}"
    );
}
