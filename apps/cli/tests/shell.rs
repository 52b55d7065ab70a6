//! `densite sql DB` at a terminal: a real one, through a pseudo-terminal.

use crate::common::*;
use rexpect::session::{PtySession, spawn_command};
use std::process::Command;
use std::time::{Duration, Instant};

const PROMPT: &str = "densite> ";
/// Milliseconds; a loaded machine can be slow.
const PATIENCE: u64 = 60_000;

/// A shell whose data directory is in `dir`.
fn shell(dir: &tempfile::TempDir, args: &[&str]) -> PtySession {
    let mut command = Command::new(DENSITE);
    command
        .arg("sql")
        .args(args)
        .env("TERM", "xterm")
        .env("XDG_DATA_HOME", at(dir, "data"))
        .env_remove("DENSITE_HISTORY");
    let mut session = spawn_command(command, Some(PATIENCE)).expect("the shell starts");
    session.exp_string(PROMPT).expect("a prompt");
    session
}

/// Types a line, and returns what is printed before the next prompt.
fn types(session: &mut PtySession, line: &str) -> String {
    session.send_line(line).expect("it reads");
    session.exp_string(PROMPT).expect("the next prompt")
}

/// Waits for the end. Returns the exit code.
fn ends(mut session: PtySession) -> i32 {
    session.exp_eof().expect("it ends");
    // The type of the status has no public name: "Exited(Pid(17), 0)".
    let status = format!("{:?}", session.process().wait().expect("a status"));
    let code = status.strip_prefix("Exited").and_then(|rest| {
        let (_, code) = rest.trim_end_matches(')').rsplit_once(", ")?;
        code.parse().ok()
    });
    code.unwrap_or_else(|| panic!("it ended by {status}"))
}

#[test]
fn statements_of_several_lines_and_errors_do_not_end_the_shell() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let mut it = shell(&dir, &["--create", &db, "--format", "csv"]);
    types(
        &mut it,
        "CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 'x');",
    );
    it.send_line("SELECT a, b").expect("it reads");
    it.exp_string("...> ").expect("the prompt of a next line");
    let seen = types(&mut it, "FROM t;");
    assert!(seen.contains("a,b\r\n1,x\r\n"), "{seen:?}");
    let seen = types(&mut it, "SELECT nowhere;");
    assert!(
        seen.contains("densite: no such column: nowhere"),
        "{seen:?}"
    );
    let seen = types(&mut it, ".talbes");
    assert!(seen.contains("did you mean .tables?"), "{seen:?}");
    let seen = types(&mut it, ".tables");
    assert!(seen.contains("t\r\n"), "{seen:?}");
    it.send_line(".exit 3").expect("it reads");
    assert_eq!(ends(it), 3);
    // Ctrl-D ends it too, and an open transaction is told.
    let mut it = shell(&dir, &[&db]);
    types(&mut it, "BEGIN; DELETE FROM t;");
    it.send_control('d').expect("it reads");
    it.exp_string("rolled back").expect("a message");
    assert_eq!(ends(it), 1);
    densite(&["check", &db]).expect(0);
}

#[test]
fn history_is_kept_without_secrets_and_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = temp();
    let db = at(&dir, "a.db");
    let mut it = shell(&dir, &["--create", &db, "--format", "csv"]);
    it.send_line("SELECT 41").expect("it reads");
    it.exp_string("...> ").expect("the prompt of a next line");
    types(&mut it, "+ 1 AS answer;");
    types(&mut it, " SELECT 'after a space';");
    types(&mut it, ".parameter set password hunter2");
    it.send_line(".quit").expect("it reads");
    assert_eq!(ends(it), 0);
    let file = dir.path().join("data/densite/history");
    let kept = std::fs::read_to_string(&file).expect("a history");
    assert!(kept.contains("41\\n+ 1 AS answer;"), "{kept}");
    assert!(
        !kept.contains("space") && !kept.contains("hunter2"),
        "{kept}"
    );
    let mode = std::fs::metadata(&file)
        .expect("metadata")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    // The next shell begins with it: two keys up are the statement of two lines, which runs again.
    let mut it = shell(&dir, &[&db, "--format", "csv"]);
    it.send("\x1b[A\x1b[A").expect("it reads");
    it.send_line("").expect("it reads");
    it.exp_string("answer\r\n42\r\n").expect("its result");
    drop(it);
    // Without a terminal there is none.
    std::fs::remove_file(&file).expect("removed");
    piped(&["sql", &db], b"SELECT 1;").expect(0);
    assert!(!file.exists());
}

#[test]
fn the_line_is_edited_and_completed() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let script = "CREATE TABLE customers(customer_id, \"full name\"); INSERT INTO customers VALUES (7, 'Ada');";
    piped(&["sql", "--create", &db], script.as_bytes()).expect(0);
    let mut it = shell(&dir, &[&db, "--format", "csv"]);
    // Keywords, a column, and a table: each word is completed with the tabulator.
    it.send("SEL\tcustomer_i\t FR\tcustomers c;")
        .expect("it reads");
    // Left arrow and backspace: "c" goes.
    it.send("\x1b[D\x7f").expect("it reads");
    it.send_line("").expect("it reads");
    let seen = it.exp_string(PROMPT).expect("the next prompt");
    assert!(
        !seen.contains("customer_id\r\n7\r\n"),
        "completion adds no spaces: {seen:?}"
    );
    it.send("SEL\t customer_i\t FR\t custom").expect("it reads");
    // Two candidates: the rest is typed.
    it.send("ers\t c;").expect("it reads");
    it.send("\x1b[D\x7f").expect("it reads");
    it.send_line("").expect("it reads");
    it.exp_string("customer_id\r\n7\r\n").expect("its result");
    it.send("SELECT customers.f\t FROM customers;")
        .expect("it reads");
    it.send_line("").expect("it reads");
    it.exp_string("full name\r\nAda\r\n").expect("its result");
    it.send(".sch\t").expect("it reads");
    it.send_line("").expect("it reads");
    it.exp_string("CREATE TABLE customers").expect("the schema");
    it.send_line(".quit").expect("it reads");
    assert_eq!(ends(it), 0);
}

#[test]
fn control_c_stops_the_statement_and_not_the_shell() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let mut it = shell(&dir, &["--create", &db, "--format", "csv"]);
    types(
        &mut it,
        "CREATE TABLE t(a); BEGIN; INSERT INTO t VALUES (1);",
    );
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n; SELECT 'later';";
    it.send_line(endless).expect("it reads");
    // It runs once the line was echoed; a signal that comes too early is sent again.
    it.exp_string("later").expect("the echo");
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    it.send_control('c').expect("it reads");
    let seen = it.exp_string(PROMPT).expect("a prompt");
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(seen.contains("densite: interrupted"), "{seen:?}");
    assert!(
        !seen.contains("later\r\n"),
        "the rest of the line is dropped: {seen:?}"
    );
    // The transaction goes on, and Ctrl-C at the prompt only drops the line.
    it.send("SELECT 'dropped").expect("it reads");
    it.send_control('c').expect("it reads");
    it.exp_string(PROMPT).expect("a prompt");
    let seen = types(&mut it, "COMMIT; SELECT count(*) AS rows FROM t;");
    assert!(seen.contains("rows\r\n1\r\n"), "{seen:?}");
    it.send_line(".quit").expect("it reads");
    assert_eq!(ends(it), 0);
}

#[test]
fn another_database_is_completed_and_can_be_stopped() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    densite(&["sql", "--create", &a, "CREATE TABLE first(a)"]).expect(0);
    densite(&["sql", "--create", &b, "CREATE TABLE zebra(stripes)"]).expect(0);
    let mut it = shell(&dir, &[&a, "--format", "csv"]);
    types(&mut it, &format!(".open {b}"));
    it.send("INSERT INTO zeb\t VALUES (5); SELECT zebra.st\t FROM zebra;")
        .expect("it reads");
    it.send_line("").expect("it reads");
    it.exp_string("stripes\r\n5\r\n").expect("its result");
    it.exp_string(PROMPT).expect("a prompt");
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n; SELECT 'later';";
    it.send_line(endless).expect("it reads");
    it.exp_string("later").expect("the echo");
    std::thread::sleep(Duration::from_millis(300));
    it.send_control('c').expect("it reads");
    let seen = it.exp_string(PROMPT).expect("a prompt");
    assert!(seen.contains("densite: interrupted"), "{seen:?}");
    it.send_line(".quit").expect("it reads");
    assert_eq!(ends(it), 0);
    // Both are closed: no journal is left.
    assert_eq!(names(dir.path()), ["a.db", "b.db", "data"]);
}
