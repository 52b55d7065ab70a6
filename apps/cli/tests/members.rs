//! `densite join` and `densite leave`, with a stream on a server of NATS, and the stream in
//! `densite log status`.

use crate::common::{DENSITE, Ran, at, densite, run, temp};
use crate::json::{documented, matches};
use densite_testing::Nats;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SCHEMA: &str = "PRAGMA journal_mode = WAL; CREATE TABLE vote(id INTEGER PRIMARY KEY, n INT); SELECT densite_config('ingest', 'vote', '')";

fn sql(db: &str, sql: &str) -> String {
    densite(&["sql", db, sql, "--format", "csv"]).expect(0).out
}

/// A server of NATS with its files. It ends with this value.
pub(crate) struct Server {
    nats: Nats,
    own: TempDir,
}

impl Server {
    /// `None`: it is not installed.
    pub(crate) fn start() -> Option<Server> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nats-server");
        let own = temp();
        let nats = Nats::start(&dir, own.path(), "")?;
        Some(Server { nats, own })
    }

    /// The address of a stream.
    pub(crate) fn address(&self, stream: &str) -> String {
        format!("{}/{stream}", self.nats.url())
    }

    /// `densite join` with these arguments and the server's monitoring port.
    pub(crate) fn join(&self, args: &[&str]) -> Ran {
        run(&mut self.joining(args))
    }

    pub(crate) fn joining(&self, args: &[&str]) -> Command {
        let mut command = Command::new(DENSITE);
        command.arg("join").args(args);
        command.args(["--monitor", &self.nats.monitor()]);
        command
    }

    fn stays(&self, args: &[&str]) -> Stays {
        Stays::of(self.joining(args))
    }

    /// What it stores, while it is stopped.
    fn while_stopped(&mut self, change: impl FnOnce(&Path)) {
        self.nats.kill();
        change(&self.nats.store());
        self.nats.restart();
    }
}

/// A server, a directory with the database `a.db`, which has founded a stream there, the path and
/// the stream's address. `None`: there is no server.
fn founded() -> Option<(Server, TempDir, String, String)> {
    let (server, dir) = (Server::start()?, temp());
    let (a, address) = (at(&dir, "a.db"), server.address("APP"));
    densite(&["sql", "--create", &a, SCHEMA]).expect(0);
    let joined = server.join(&[&a, &address, "--origin", "a", "--json"]);
    matches(
        &joined.expect(0).json(),
        &documented("join"),
        &["event", "database", "message", "rows"],
    );
    Some((server, dir, a, address))
}

/// A copy of a database.
fn copied(dir: &TempDir, from: &str, name: &str) -> String {
    let to = at(dir, name);
    sql(from, &format!("VACUUM INTO '{to}'"));
    to
}

/// `densite join --stay --json`, which is killed on drop.
struct Stays {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Stays {
    fn of(mut join: Command) -> Stays {
        let mut child = join
            .args(["--stay", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Stays { child, out }
    }

    /// The next event.
    fn event(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("it writes");
        let event: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let optional = [
            "verb", "path", "origin", "message", "event", "database", "rows",
        ];
        if event.get("error").is_none() {
            matches(&event, &documented("join"), &optional);
        }
        event
    }

    /// Ends it. Returns its exit code and its last event.
    fn ended(mut self) -> (i32, Value) {
        let mut last = Value::Null;
        run(Command::new("kill").args(["-TERM", &self.child.id().to_string()])).expect(0);
        for line in (&mut self.out).lines() {
            last = serde_json::from_str(&line.expect("it writes")).expect("JSON");
        }
        (
            self.child.wait().expect("it ends").code().unwrap_or(-1),
            last,
        )
    }

    fn interrupted(mut self) -> i32 {
        run(Command::new("kill").args(["-INT", &self.child.id().to_string()])).expect(0);
        self.child.wait().expect("it ends").code().unwrap_or(-1)
    }
}

impl Drop for Stays {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(db: &str, query: &str, expected: &str) {
    let begun = Instant::now();
    loop {
        let found = sql(db, query);
        if found.ends_with(expected) {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{query}: {found}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn rows_of_a_member_come_to_a_copy_that_stays() {
    let Some((server, dir, a, address)) = founded() else {
        return;
    };
    let b = copied(&dir, &a, "b.db");
    let mut stays = server.stays(&[&b, &address, "--origin", "b"]);
    let joined = stays.event();
    assert_eq!(
        (&joined["event"], &joined["origin"]),
        (&"joined".into(), &"b".into())
    );
    sql(
        &a,
        "INSERT INTO vote_in VALUES (1, 7); SELECT densite_wait()",
    );
    wait_for(&b, "SELECT sum(n) FROM vote", "7\n");
    // Rows that another process appends are sent by the one that stays.
    sql(
        &b,
        "INSERT INTO vote_in VALUES (2, 8); SELECT densite_wait(densite_last_seq(), 'stream')",
    );
    assert_eq!(stays.interrupted(), 0);
    let mut stays = server.stays(&[&a, &address]);
    assert_eq!(stays.event()["origin"], "a", "its name is known");
    wait_for(&a, "SELECT sum(n) FROM vote", "15\n");
    assert_eq!(stays.interrupted(), 0);
}

#[test]
fn log_status_shows_the_stream() {
    let Some((mut server, _dir, a, address)) = founded() else {
        return;
    };
    sql(
        &a,
        "INSERT INTO vote_in VALUES (1, 7); SELECT densite_wait()",
    );
    let status = densite(&["log", "status", &a, "--json"]).expect(0).json();
    let stream = &status["stream"];
    assert_eq!(stream["address"], *address);
    assert_eq!(stream["origin"], "a");
    assert_eq!(
        (&stream["message"], &stream["messages_behind"]),
        (&2.into(), &0.into())
    );
    assert_eq!(stream["members"], serde_json::json!(["a"]));
    assert!(
        stream["stopped"].is_null() && stream["trouble"].is_null(),
        "{stream}"
    );
    let text = densite(&["log", "status", &a]).expect(0).out;
    for words in [&*address, "applied message", "2, 0 behind"] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    server.nats.kill();
    let text = densite(&["log", "status", &a]).expect(0).out;
    assert!(
        text.contains("unknown") && text.contains("trouble"),
        "{text}"
    );

    let left = densite(&["leave", &a]).expect(1);
    assert!(left.err.contains("no connection to nats:"), "{left:?}");
    let left = densite(&["leave", &a, "--force", "--json"]).expect(0);
    matches(&left.json(), &documented("leave"), &[]);
    let status = densite(&["log", "status", &a, "--json"]).expect(0).json();
    assert!(status["stream"].is_null(), "{status}");
}

#[test]
fn trouble_is_told_when_it_begins_and_when_it_ends() {
    let Some((mut server, _dir, a, address)) = founded() else {
        return;
    };
    server.nats.kill();
    // It is a member already, so it starts without the stream.
    let mut stays = server.stays(&[&a, &address]);
    assert_eq!(stays.event()["event"], "joined");
    assert_eq!(stays.event()["event"], "failed");
    server.nats.restart();
    assert_eq!(stays.event()["event"], "recovered");
    assert_eq!(stays.interrupted(), 0);
}

/// A member is known when the message with which it joined is applied: the command waits for it.
#[test]
fn members_are_known_just_after_joining() {
    let Some((server, dir, a, address)) = founded() else {
        return;
    };
    let names = |db: &str, all: &str| {
        densite(&["leave", db, "--member", "x"])
            .expect(1)
            .says(&format!("no member x; its members are {all}\n"));
    };
    names(&a, "a");
    let b = copied(&dir, &a, "b.db");
    server.join(&[&b, &address, "--origin", "b"]).expect(0);
    names(&b, "a, b");
    let c = copied(&dir, &b, "c.db");
    server.join(&[&c, &address, "--origin", "c"]).expect(0);
    server.join(&[&c, &address, "--after-loss"]).expect(0);
    densite(&["leave", &c, "--member", "a"]).expect(0);
    densite(&["leave", &a, "--member", "c"]).expect(0);
    names(&b, "b");
}

/// A service manager ends it while the server is away: that is no failure, and is not silent.
#[test]
fn rows_that_are_not_sent_at_the_end_are_told() {
    let Some((mut server, dir, a, address)) = founded() else {
        return;
    };
    server.nats.kill();
    let add = "INSERT INTO vote_in(n) VALUES (1), (2), (3)";
    let mut stays = server.stays(&[&a, &address]);
    assert_eq!(stays.event()["event"], "joined");
    sql(&a, add);
    assert_eq!(stays.event()["event"], "failed");
    let (code, last) = stays.ended();
    assert_eq!(code, 0);
    assert_eq!(
        (&last["event"], &last["rows"]),
        (&"unsent".into(), &3.into())
    );

    let said = at(&dir, "said");
    let mut child = server
        .joining(&[&a, &address, "--stay", "--quiet"])
        .stderr(std::fs::File::create(&said).expect("made"))
        .spawn()
        .expect("the command runs");
    std::thread::sleep(Duration::from_secs(2));
    run(Command::new("kill").args(["-TERM", &child.id().to_string()])).expect(0);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let said = std::fs::read_to_string(&said).expect("read");
    let words = "the stream does not have the last 3 rows of this member yet";
    assert!(said.contains(words), "{said}");

    server.nats.restart();
    let mut stays = server.stays(&[&a, &address]);
    assert_eq!(stays.event()["event"], "joined");
    let (code, last) = stays.ended();
    assert_eq!((code, last), (0, Value::Null), "all are sent");
}

#[test]
fn a_stream_that_lost_messages_is_told() {
    let Some((mut server, _dir, a, address)) = founded() else {
        return;
    };
    let old = server.own.path().join("old");
    server.while_stopped(|store| {
        let copied = Command::new("cp").arg("-r").args([store, &old]).status();
        assert!(copied.expect("cp").success());
    });
    sql(
        &a,
        "INSERT INTO vote_in VALUES (1, 7); SELECT densite_wait()",
    );
    server.while_stopped(|store| {
        std::fs::remove_dir_all(store).expect("removed");
        std::fs::rename(&old, store).expect("put back");
    });
    let status = densite(&["log", "status", &a, "--json"]).expect(0).json();
    let trouble = status["stream"]["trouble"].as_str().expect("trouble");
    assert!(trouble.contains("ends at message 1"), "{trouble}");
    let mut stays = server.stays(&[&a, &address]);
    assert_eq!(stays.event()["event"], "joined");
    let failed = stays.event();
    assert_eq!(failed["event"], "failed");
    let said = failed["message"].as_str().expect("a message");
    // As the reader noticed it, or as the status sees it.
    let words = ["lost acknowledged messages", "it lost messages"];
    assert!(words.iter().any(|word| said.contains(word)), "{said}");
}

#[test]
fn a_member_that_stopped_does_not_go_on_by_a_restart_of_its_service() {
    let Some((server, _dir, a, address)) = founded() else {
        return;
    };
    let mut stays = server.stays(&[&a, &address]);
    assert_eq!(stays.event()["event"], "joined");
    sql(
        &a,
        "UPDATE densite_member SET stopped = 'its table vote differs'",
    );
    let said = stays.event();
    assert_eq!(said["error"]["exit_code"], 1, "{said}");
    let said = server.join(&[&a, &address, "--stay"]).expect(1);
    said.says("its table vote differs");
    let said = server.join(&[&a, &address]).expect(1);
    said.says("--right");
    server.join(&[&a, &address, "--right", "--quiet"]).expect(0);
    assert_eq!(
        sql(&a, "SELECT stopped = '' AS s FROM densite_member"),
        "s\n1\n"
    );
}

#[test]
fn a_copy_with_rows_of_its_own_waits_for_a_decision() {
    let Some((server, dir, a, address)) = founded() else {
        return;
    };
    let b = at(&dir, "b.db");
    let copied = Command::new("cp").args(["-r", &a, &b]).status();
    assert!(copied.expect("cp").success());
    let log = Command::new("cp")
        .args(["-r", &format!("{a}-log"), &format!("{b}-log")])
        .status();
    assert!(log.expect("cp").success());
    sql(&b, "INSERT INTO vote_in VALUES (1, 7)");
    server.join(&[&b, &address]).expect(1).says("--discard");
    let joined = server
        .join(&[&b, &address, "--discard", "--origin", "b"])
        .expect(0);
    assert!(joined.out.contains("joined as b"), "{joined:?}");
}

#[test]
fn bad_input_gets_a_sentence() {
    let Some((server, dir, a, address)) = founded() else {
        return;
    };
    let (other, empty, text) = (
        at(&dir, "other.db"),
        at(&dir, "empty.db"),
        at(&dir, "text.db"),
    );
    densite(&["sql", "--create", &other, "CREATE TABLE t(a)"]).expect(0);
    std::fs::write(&empty, b"").expect("write");
    std::fs::write(&text, "no database ".repeat(1000)).expect("write");
    let missing = at(&dir, "missing.db");
    let says = |args: &[&str], code: i32, words: &str| {
        let ran: Ran = match args {
            ["join", given @ ..] => server.join(given),
            _ => densite(args),
        };
        let ran = ran.expect(code);
        assert!(ran.err.contains(words), "{args:?}: {ran:?}");
        let names = ran.err.matches(args[1]).count();
        assert!(code == 2 || names <= 1, "{args:?}: {ran:?}");
    };
    for (args, code, words) in [
        (&["join", &missing, &address][..], 1, "missing.db"),
        (&["leave", &missing], 1, "missing.db"),
        (&["join", &a, "localhost"], 1, "no scheme"),
        (
            &["join", &a, "file:///srv/stream"],
            1,
            "start a NATS server",
        ),
        (
            &["join", &a, "nats://host"],
            1,
            "name of the stream is missing",
        ),
        (&["join", &a, "nats://127.0.0.1:1/S"], 1, "127.0.0.1:1"),
        (&["join", &a, &address, "--replicas", "9"], 2, "--replicas"),
        (
            &["join", &a, &address, "--moved", "--discard"],
            2,
            "--discard",
        ),
        (
            &["join", &a, &address, "--client-key", "k"],
            2,
            "--client-certificate",
        ),
        (&["join", &a], 2, "ADDRESS"),
        (&["join", "nats://host/s", &a], 2, "name the database first"),
        (&["join", &other, &address], 1, "join a copy of a member"),
        (
            &["join", &empty, &address],
            1,
            "did not begin with an empty database",
        ),
        (
            &["join", &other, &address, "--origin", "a b"],
            1,
            "join a copy",
        ),
        (&["join", &text, &address], 5, "text.db"),
        (&["leave", &other], 1, "no member of a stream"),
    ] {
        says(args, code, words);
    }
    let b = copied(&dir, &a, "b.db");
    says(
        &["join", &b, &address, "--origin", "a"],
        1,
        "choose another one",
    );
    let c = copied(&dir, &a, "c.db");
    says(
        &["join", &c, &address, "--origin", "a b"],
        1,
        "\"a b\" is not a valid name",
    );
    densite(&[
        "sql",
        &other,
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN UPDATE t SET a = random(); END",
    ])
    .expect(0);
    says(&["join", &other, &address], 1, "the trigger x uses random");
    let error = server
        .join(&[&missing, &address, "--json"])
        .expect(1)
        .json();
    assert_eq!(error["error"]["kind"], "not_found");
}

#[test]
fn a_stream_is_trimmed_and_a_member_is_declared_gone() {
    let Some((server, dir, a, address)) = founded() else {
        return;
    };
    let b = copied(&dir, &a, "b.db");
    server.join(&[&b, &address, "--origin", "b"]).expect(0);
    sql(
        &a,
        "INSERT INTO vote_in VALUES (1, 7); SELECT densite_wait()",
    );
    let trimmed = densite(&["trim", &a, "--json"]).expect(0).json();
    matches(&trimmed, &documented("trim"), &[]);
    assert_eq!(
        (&trimmed["first_message"], &trimmed["slowest"]),
        (&1.into(), &"b".into())
    );
    let text = densite(&["trim", &a]).expect(0).out;
    let advice = format!("densite leave {a} --member b");
    assert!(text.contains(&advice), "{text}");
    std::os::unix::fs::symlink(dir.path(), at(&dir, "a folder")).expect("a link");
    let spaced = at(&dir, "a folder/a.db");
    let text = densite(&["trim", &spaced]).expect(0).out;
    let advice = format!("densite leave '{spaced}' --member b");
    assert!(text.contains(&advice), "{text}");
    densite(&["leave", &a, "--member", "c"])
        .expect(1)
        .says("its members are a, b");
    let left = densite(&["leave", &a, "--member", "b"]).expect(0).out;
    assert!(left.contains("b is not a member any more"), "{left}");
    wait_for(&a, "SELECT members FROM densite_stream_status()", "a\n");
    let trimmed = densite(&["trim", &a, "--json"]).expect(0).json();
    assert!(trimmed["slowest"].is_null(), "{trimmed}");
    assert!(trimmed["first_message"].as_u64() > Some(1), "{trimmed}");
    densite(&["trim", &at(&dir, "missing.db")])
        .expect(1)
        .says("missing.db");
    densite(&["trim", &a, "--keep", "-1"]).expect(2);
}
