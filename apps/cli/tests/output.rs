//! What the command says and returns when its output cannot be written.

use crate::common::*;
use std::process::Command;

/// Runs a shell command, in which `$D` is the command under test.
fn shell(dir: &tempfile::TempDir, script: &str) -> Ran {
    run(Command::new("bash")
        .current_dir(dir.path())
        .env("D", DENSITE)
        .args(["-c", script]))
}

/// A statement whose result is longer than a pipe.
const LONG: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<100000) SELECT i, printf('%.20c', 'x') FROM n";

fn count(dir: &tempfile::TempDir) -> String {
    densite(&[
        "sql",
        &at(dir, "a.db"),
        "SELECT count(*) AS n FROM t",
        "--format",
        "csv",
    ])
    .expect(0)
    .out
}

#[test]
fn sql_that_could_not_run_all_statements_does_not_end_with_0() {
    let dir = temp();
    let a = at(&dir, "a.db");
    densite(&["sql", &a, "CREATE TABLE t(a)", "--create"]).expect(0);
    for format in ["--format table", "--format csv", "--format json", "--json"] {
        for (sql, says) in [
            (
                format!("{LONG}; INSERT INTO t VALUES(1)"),
                "a.db: statement 1, line 1: the reader closed the output; later statements were not run; read",
            ),
            (
                format!("BEGIN;\nINSERT INTO t VALUES(1);\n{LONG}; COMMIT"),
                "statement 3, line 3: the reader closed the output; later statements were not run, and the open transaction was rolled back; ",
            ),
            (
                format!("BEGIN; INSERT INTO t VALUES(1); {LONG}"),
                "statement 3, line 1: the reader closed the output; the open transaction was rolled back; ",
            ),
            // More than one line, and only a comment in the last ones.
            (
                format!("{LONG};\n -- comment\nINSERT INTO t\nVALUES(1)"),
                "later statements were not run",
            ),
            (
                format!("{LONG};\n.tables\n"),
                "later statements were not run",
            ),
        ] {
            for input in [" \"$SQL\"", " <<< \"$SQL\""] {
                let script = format!(
                    "SQL=\"{sql}\"; {{ $D sql a.db {format}{input}; echo \"exit $?\" >&2; }} | head -c 10 >/dev/null"
                );
                let ran = shell(&dir, &script);
                assert!(ran.err.ends_with("exit 1\n"), "{script}: {ran:?}");
                assert_eq!(ran.err.lines().count(), 2, "{script}: {ran:?}");
                ran.says(says);
            }
        }
        // With nothing left to run, a closed pipe is no error.
        for sql in [
            LONG.to_owned(),
            format!("{LONG}; -- the end\n\n /* of\n it */\n"),
        ] {
            for input in [" \"$SQL\"", " <<< \"$SQL\""] {
                let script = format!(
                    "SQL=\"{sql}\"; {{ $D sql a.db {format}{input}; echo \"exit $?\" >&2; }} | head -c 10 >/dev/null"
                );
                assert_eq!(shell(&dir, &script).err, "exit 0\n", "{script}");
            }
        }
    }
    assert_eq!(count(&dir), "n\n0\n");
}

#[test]
fn rows_that_are_returned_to_a_closed_output_are_still_inserted() {
    let dir = temp();
    let a = at(&dir, "a.db");
    densite(&["sql", &a, "CREATE TABLE t(a, b)", "--create"]).expect(0);
    let script = format!(
        "{{ $D sql a.db \"INSERT INTO t {LONG} WHERE true RETURNING *\"; echo \"exit $?\" >&2; }} | head -c 10 >/dev/null"
    );
    assert_eq!(shell(&dir, &script).err, "exit 0\n");
    assert_eq!(count(&dir), "n\n100000\n");
}

#[test]
fn an_error_of_sql_counts_although_the_output_is_closed() {
    let dir = temp();
    for json in ["", "--json"] {
        for (sql, says) in [
            ("SELECT 1; SELEC 2;", "syntax error"),
            ("BEGIN; SELECT 1", "rolled back"),
        ] {
            // The pipe is closed before anything is written.
            let script = format!(
                "{{ sleep 0.2; $D sql a.db --create \"{sql}\" {json}; echo \"exit $?\" >&2; }} | true"
            );
            let ran = shell(&dir, &script).says(says);
            assert!(ran.err.ends_with("exit 1\n"), "{script}: {ran:?}");
        }
    }
}

#[test]
fn sql_on_a_full_disk_says_whether_all_statements_were_run() {
    let dir = temp();
    let sql = "CREATE TABLE t(a); INSERT INTO t VALUES(1); SELECT * FROM t";
    let ran = shell(&dir, &format!("$D sql a.db --create \"{sql}\" > /dev/full"));
    ran.expect(1).says("all statements were run");
    let sql = format!("{LONG}; INSERT INTO t VALUES(1)");
    let ran = shell(&dir, &format!("$D sql a.db \"{sql}\" > /dev/full"));
    ran.expect(1).says("later statements were not run");
    assert_eq!(count(&dir), "n\n1\n");
}

#[test]
fn work_that_was_done_is_a_success_although_its_report_cannot_be_written() {
    let dir = temp();
    let a = at(&dir, "a.db");
    std::fs::write(dir.path().join("x.csv"), "a\n1\n2\n").expect("write");
    for (json, rows) in [("", 2), ("--json", 4), ("--quiet --json", 6)] {
        for (verb, says) in [
            ("load a.db t x.csv", "the rows were loaded"),
            ("decompress a.db", "the file was converted"),
            ("compress --even-if-larger a.db", "the file was converted"),
            ("vacuum --yes a.db", "the vacuum is done"),
            ("report a.db --yes -o r.html", "the page was written"),
            ("log subscribe a.db s", "the subscriber was added"),
            ("log prune a.db", "the log was pruned"),
            ("log unsubscribe a.db s", "the subscriber was removed"),
        ] {
            let ran = shell(&dir, &format!("$D {verb} {json} > /dev/full")).expect(0);
            assert_eq!(ran.err.lines().count(), 1, "{verb} {json}: {ran:?}");
            let ran = ran.says(says);
            ran.says("but the report could not be written: No space left on device");
            // A closed pipe needs no message.
            if verb.starts_with("vacuum") {
                let script = format!("{{ sleep 0.2; $D {verb} {json}; echo $? >&2; }} | true");
                assert_eq!(shell(&dir, &script).err, "0\n");
            }
        }
        assert!(is_compressed(&a));
        assert_eq!(count(&dir), format!("n\n{rows}\n"));
    }
    // A file that has the requested form already needs no work.
    for (verb, before) in [("compress", "decompress"), ("decompress", "compress")] {
        densite(&[verb, &a]).expect(0);
        for json in ["", "--json"] {
            shell(&dir, &format!("$D {verb} a.db {json} > /dev/full"))
                .expect(0)
                .says("already; it was not changed");
        }
        densite(&[before, &a]).expect(0);
    }
    // Verbs whose output is their purpose fail.
    for verb in ["info a.db", "check a.db", "vacuum --dry-run a.db"] {
        shell(&dir, &format!("$D {verb} > /dev/full"))
            .expect(1)
            .says("cannot write the output");
    }
}

#[test]
fn damage_is_reported_by_the_exit_code_although_the_output_cannot_be_written() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    let mut bytes = std::fs::read(&a).expect("read");
    let end = bytes.len() - 4096;
    bytes[4096..end].fill(0xff);
    std::fs::write(&a, bytes).expect("write");
    for json in ["", "--json"] {
        shell(&dir, &format!("$D check a.db {json} > /dev/full"))
            .expect(5)
            .says("cannot write the output");
        let script = format!("{{ sleep 0.2; $D check a.db {json}; echo $? >&2; }} | true");
        assert_eq!(shell(&dir, &script).err, "5\n");
    }
}

#[test]
fn an_error_in_the_arguments_is_one_although_the_output_cannot_be_written() {
    let dir = temp();
    shell(&dir, "$D info --no-such-option --json > /dev/full")
        .expect(2)
        .says("--no-such-option");
}

#[test]
fn too_few_file_descriptors_are_not_damage() {
    let dir = temp();
    for name in ["plain.db", "new.db"] {
        plain(&at(&dir, name), 4096, 300);
    }
    densite(&["compress", &at(&dir, "new.db")]).expect(0);
    std::fs::write(dir.path().join("x.csv"), "a\n1\n").expect("write");
    let mut refused = 0;
    for db in ["plain.db", "new.db"] {
        for verb in [
            "vacuum --yes $DB",
            "vacuum --dry-run $DB",
            "compress $DB c.db",
            "decompress $DB d.db",
            "check $DB",
            "info $DB",
            "report $DB -o r.html",
            "sql $DB 'SELECT count(*) FROM t'",
            "sql $DB 'BEGIN; DELETE FROM t; ROLLBACK'",
            "load $DB x x.csv",
            "log status $DB",
        ] {
            // The program loader itself needs one.
            for files in 4..14 {
                let verb = verb.replace("$DB", db);
                let script = format!("rm -f c.db d.db r.html; ulimit -n {files}; exec $D {verb}");
                let ran = shell(&dir, &script);
                assert!([0, 1].contains(&ran.code), "{files}: {verb}: {ran:?}");
                assert!(!ran.err.contains("damaged"), "{files}: {verb}: {ran:?}");
                assert!(!ran.err.contains("backup"), "{files}: {verb}: {ran:?}");
                let expected = [
                    "too many open files; close some, or raise its limit with ulimit -n",
                    "already; it was not changed",
                    "has no log",
                ];
                assert!(
                    ran.code == 0 || expected.iter().any(|words| ran.err.contains(words)),
                    "{files}: {verb}: {ran:?}"
                );
                for other in ["permission", "owner and mode", "check the path"] {
                    assert!(!ran.err.contains(other), "{files}: {verb}: {ran:?}");
                }
                refused += ran.code;
            }
        }
        densite(&["check", &at(&dir, db)]).expect(0);
    }
    assert!(refused > 20, "{refused}");
}
