//! How the command reports a log that is missing, damaged, or of another database.

use crate::common::{at, densite, run, temp};

const MAKE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY)";
const OPEN: &str = "CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t)";

/// A database with a log of three rows, applied.
fn made(dir: &tempfile::TempDir, name: &str) -> String {
    let db = at(dir, name);
    let rows = "INSERT INTO t_in VALUES (1), (2), (3); SELECT densite_wait()";
    densite(&["sql", "--create", &db, &format!("{MAKE}; {OPEN}; {rows}")]).expect(0);
    db
}

#[test]
fn a_missing_log_that_the_database_names_is_reported() {
    let dir = temp();
    let db = made(&dir, "app.db");
    std::fs::rename(format!("{db}-log"), at(&dir, "aside")).expect("moved");
    let verbs: [&[&str]; 5] = [
        &["log", "status", &db],
        &["log", "tail", &db],
        &["log", "check", &db],
        &["log", "check", &db, "--repair", "--yes"],
        &["log", "prune", &db],
    ];
    for verb in verbs {
        densite(verb)
            .expect(1)
            .says("app.db-log: there is no log in the directory, although the database names one; put it back, or")
            .says("DROP TABLE densite_applied");
    }
    let info = densite(&["info", &db, "--json"]).expect(0).json();
    let problem = info["log"]["problem"].as_str().expect("a problem");
    assert!(
        problem.contains("the database names one; put it back"),
        "{problem}"
    );
    // A database that names no log has another message.
    let none = at(&dir, "none.db");
    densite(&["sql", "--create", &none, MAKE]).expect(0);
    densite(&["log", "status", &none])
        .expect(1)
        .says("has no log");
    assert!(densite(&["info", &none, "--json"]).expect(0).json()["log"].is_null());
    // Both suggested solutions work.
    std::fs::rename(at(&dir, "aside"), format!("{db}-log")).expect("moved");
    densite(&[
        "sql",
        &db,
        &format!("{OPEN}; INSERT INTO t_in VALUES (4); SELECT densite_wait()"),
    ])
    .expect(0);
    std::fs::rename(format!("{db}-log"), at(&dir, "aside")).expect("moved");
    let again = format!(
        "DROP TABLE densite_applied; {OPEN}; INSERT INTO t_in VALUES (5); SELECT densite_wait()"
    );
    densite(&["sql", &db, &again]).expect(0);
    let ran = densite(&["sql", &db, "SELECT count(*) FROM t", "--format", "csv"]).expect(0);
    assert_eq!(ran.out, "count(*)\n5\n");
}

#[test]
fn sql_errors_about_a_log_say_what_to_do() {
    let dir = temp();
    let (db, other) = (made(&dir, "app.db"), made(&dir, "other.db"));
    std::fs::rename(format!("{db}-log"), at(&dir, "aside")).expect("moved");
    std::fs::rename(format!("{other}-log"), format!("{db}-log")).expect("moved");
    densite(&["sql", &db, OPEN])
        .expect(1)
        .says("belongs to another database")
        .says("bring the right one back, or");
    std::fs::remove_dir_all(format!("{db}-log")).expect("removed");
    std::fs::rename(at(&dir, "aside"), format!("{db}-log")).expect("moved");
    std::fs::remove_file(format!("{db}-log/state")).expect("removed");
    let ran = densite(&["sql", &db, OPEN])
        .expect(5)
        .says("state, offset 0")
        .says("with --repair keeps what can be read");
    assert!(!ran.err.contains("from a backup"), "{}", ran.err);
}

/// `log` and `info` report a log that ingest refuses.
#[test]
fn a_log_that_does_not_fit_its_database_is_reported() {
    let dir = temp();
    let (db, other) = (made(&dir, "app.db"), made(&dir, "other.db"));
    let log = format!("{db}-log");
    let moved = |from: &str, to: &str| std::fs::rename(from, to).expect("moved");
    let copied = |from: &str, to: &str| {
        run(std::process::Command::new("cp").args(["-a", from, to])).expect(0);
    };
    let told = |says: &str| {
        densite(&["log", "status", &db]).expect(0).says(says);
        let check = densite(&["log", "check", &db, "--json"]).expect(5).json();
        for object in [
            check,
            densite(&["log", "status", &db, "--json"]).expect(0).json(),
            densite(&["info", &db, "--json"]).expect(0).json()["log"].clone(),
        ] {
            let misfit = object["misfit"].as_str().unwrap_or_default();
            assert!(misfit.contains(says), "{object}");
        }
        let info = densite(&["info", &db]).expect(0);
        assert!(info.out.contains(says), "{info:?}");
        densite(&["sql", &db, OPEN]).expect(1);
    };
    let fits = || {
        for verb in ["status", "check"] {
            let object = densite(&["log", verb, &db, "--json"]).expect(0).json();
            assert!(object["misfit"].is_null(), "{object}");
        }
    };
    fits();
    // An older state of the log.
    let (older, newest) = (at(&dir, "older"), at(&dir, "newest"));
    copied(&log, &older);
    let rows = "INSERT INTO t_in VALUES (4), (5); SELECT densite_wait()";
    densite(&["sql", &db, &format!("{OPEN}; {rows}")]).expect(0);
    moved(&log, &newest);
    moved(&older, &log);
    told("it ends at row 3, but the database is applied up to row 5");
    std::fs::remove_dir_all(&log).expect("removed");
    // The log of another database.
    copied(&format!("{other}-log"), &log);
    told("the database names another log");
    std::fs::remove_dir_all(&log).expect("removed");
    moved(&newest, &log);
    fits();
}
