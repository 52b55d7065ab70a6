//! A history: lanes that run at the same time. Each lane runs one process after the other.

use super::child::entry_text;
use super::common::{DENSITE, at, densite, temp};
use super::model::{Life, Model, Seq};
use super::process::{Ended, Kill, Place, Process};
use super::random::Random;
use super::tally::Tally;
use rusqlite::{Connection, OpenFlags};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The subscribers through SQL. The first one exists from start to end.
const NAMES: [&str; 3] = ["first", "second", "third"];
/// The subscriber through the command.
const COMMAND: &str = "by-command";
/// Number of processes of each subscriber.
const PROCESSES: u64 = 5;
const WRITERS: u64 = 2;

struct History {
    place: Place,
    model: Mutex<Model>,
    tally: Mutex<Tally>,
    /// Number of subscribers that are not done.
    left: AtomicU64,
    failed: AtomicBool,
    writers: AtomicU64,
}

/// Sets the flag when its thread panics, so that the others end.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

/// Runs one history.
pub(crate) fn history(seed: u64) -> Tally {
    let done = std::panic::catch_unwind(|| run(seed));
    done.unwrap_or_else(|e| {
        eprintln!("DENSITE_SEED={seed} failed");
        std::panic::resume_unwind(e)
    })
}

fn run(seed: u64) -> Tally {
    let dir = temp();
    let mut random = Random::new(seed);
    let history = History {
        place: place(at(&dir, "a.db"), seed),
        model: Mutex::default(),
        tally: Mutex::default(),
        left: AtomicU64::new(NAMES.len() as u64 + 1),
        failed: AtomicBool::new(false),
        writers: AtomicU64::new(0),
    };
    let h = &history;
    // This subscription creates the log, so it receives every row.
    let first = subscribe(h, NAMES[0], "start", &mut random, false);
    let mut lives = std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            let random = Random::new(random.next());
            scope.spawn(|| write(h, random));
        }
        let mut pruning = Random::new(random.next());
        scope.spawn(move || prune(h, &mut pruning));
        let mut followers = Vec::new();
        let mut first = Some(first);
        for name in NAMES {
            let (random, first) = (Random::new(random.next()), first.take());
            followers.push(scope.spawn(move || follow(h, name, first, random)));
        }
        let by_command = Random::new(random.next());
        followers.push(scope.spawn(move || follow_by_command(h, by_command)));
        let lives = followers.into_iter().map(|f| f.join().expect("a lane"));
        lives.collect::<Vec<Life>>()
    });
    nothing_is_pruned_that_is_wanted(h, &dir.path().join("a.db-log"), &lives);
    let mut model = history.model.into_inner().expect("no panic");
    for life in &mut lives {
        match life.name == COMMAND {
            true => tail_to_the_end(&history.place, life, &mut model),
            false => {
                let end = history.place.start("drain", &life.name, &mut random);
                let end = end.run(&Kill::Never, &|| false);
                assert_eq!(end.phase(), "end", "{}", life.name);
                life.hear(&end.lines, &mut model.seen);
            }
        }
        life.at_end = true;
    }
    model.lives.append(&mut lives);
    let mut tally = history.tally.into_inner().expect("no panic");
    tally.count("histories", 1);
    tally.count("rows acknowledged", model.acknowledged());
    tally.count("rows delivered", model.delivered());
    model.judge();
    tally
}

/// A database, plain or compressed, in one of the journal modes.
fn place(db: String, seed: u64) -> Place {
    let vfs = ["", "densite"][(seed % 2) as usize];
    let journal = ["WAL", "DELETE", "WAL"][(seed % 3) as usize];
    let con = match vfs {
        "densite" => {
            let api = densite_linked::api().expect("the linked SQLite");
            densite_vfs::register(api, densite_vfs::NAME, None, false).expect("the VFS");
            Connection::open_with_flags_and_vfs(&db, OpenFlags::default(), "densite")
        }
        _ => Connection::open(&db),
    };
    let sql = format!(
        "PRAGMA journal_mode = {journal}; CREATE TABLE t(id INTEGER PRIMARY KEY, v INT, pad TEXT)"
    );
    con.and_then(|con| con.execute_batch(&sql)).expect("made");
    Place { db, vfs }
}

impl History {
    fn is_over(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0 || self.failed.load(Ordering::SeqCst)
    }

    fn count(&self, kind: impl Into<String>, n: u64) {
        self.tally.lock().expect("no panic").count(kind, n);
    }

    /// Runs a process of this program until it ends or its plan kills it.
    fn process(&self, role: &str, name: &str, plan: &Kill, random: &mut Random) -> Ended {
        let process = self.place.start(role, name, random);
        let ended = process.run(plan, &|| self.failed.load(Ordering::SeqCst));
        if ended.killed {
            self.count(format!("killed: {role}, {}", ended.phase()), 1);
        }
        ended
    }
}

/// Runs writers, one after the other, until the subscribers are done.
fn write(h: &History, mut random: Random) {
    let _alarm = Alarm(&h.failed);
    while !h.is_over() {
        let writer = h.writers.fetch_add(1, Ordering::SeqCst);
        let plan = Kill::within(&["begin", "ack", "none"], 80, &mut random);
        let process = h.place.start("write", &writer.to_string(), &mut random);
        let ended = process.run(&plan, &|| h.is_over());
        h.model
            .lock()
            .expect("no panic")
            .write(writer, &ended.lines);
        h.count("killed: a writer", 1);
    }
}

fn prune(h: &History, random: &mut Random) {
    let _alarm = Alarm(&h.failed);
    while !h.is_over() {
        let plan = Kill::within(&["pruning", "pruned"], 12, random);
        let process = h.place.start("prune", "", random);
        process.run(&plan, &|| h.is_over());
        h.count("killed: prune", 1);
    }
}

/// Adds a subscription. If the process can be killed, retries until the subscription exists.
fn subscribe(h: &History, name: &str, from: &str, random: &mut Random, may_kill: bool) -> Life {
    let mut was_killed = false;
    loop {
        let plan = match may_kill && !was_killed && random.one_in(2) {
            true => Kill::within(&["subscribing"], 1, random),
            false => Kill::Never,
        };
        let ended = h.process(from, name, &plan, random);
        let began = match (ended.phase(), ended.number("subscribed")) {
            // Rows of open transactions hide the rows after them. So "now" can be before rows that
            // were already acknowledged.
            (_, Some(began)) => began,
            ("exists", _) => {
                assert!(was_killed, "{name} is there already");
                let all = positions(&h.place);
                *all.iter()
                    .find(|(n, _)| n == name)
                    .map(|(_, at)| at)
                    .expect("there")
            }
            _ => {
                assert!(ended.killed, "{name}: {ended:?}");
                was_killed = true;
                continue;
            }
        };
        return Life {
            name: name.to_owned(),
            began,
            position: began,
            ..Life::default()
        };
    }
}

/// Removes a subscription. If the process is killed, retries until it is gone.
fn unsubscribe(h: &History, name: &str, random: &mut Random) {
    let mut was_killed = false;
    loop {
        let plan = match !was_killed && random.one_in(2) {
            true => Kill::within(&["dropping"], 1, random),
            false => Kill::Never,
        };
        let ended = h.process("drop", name, &plan, random);
        match ended.phase() {
            "dropped" => break,
            "gone" if was_killed => break,
            _ => assert!(ended.killed, "{name}: {ended:?}"),
        }
        was_killed = true;
    }
    h.count("subscriptions removed", 1);
}

/// A subscriber: processes that read, acknowledge and are killed. Sometimes it is removed and added
/// again.
fn follow(h: &History, name: &str, first: Option<Life>, mut random: Random) -> Life {
    let _alarm = Alarm(&h.failed);
    let stays = first.is_some();
    let mut life = first.unwrap_or_else(|| subscribe(h, name, "start", &mut random, true));
    for n in 0..PROCESSES {
        let plan = Kill::within(&["reading", "read", "acking"], 4, &mut random);
        let ended = h.process("follow", name, &plan, &mut random);
        let mut model = h.model.lock().expect("no panic");
        let counted = life.hear(&ended.lines, &mut model.seen);
        if let Some(counted) = counted {
            let how = if counted {
                "it counted"
            } else {
                "it did not count"
            };
            h.count(format!("an acknowledgement was cut off: {how}"), 1);
        }
        if !stays && random.one_in(4) && n + 1 < PROCESSES {
            // The result of the last acknowledgement stays unknown: no process asks for it any
            // more.
            model.lives.push(life);
            drop(model);
            unsubscribe(h, name, &mut random);
            let from = ["start", "now"][random.below(2) as usize];
            life = subscribe(h, name, from, &mut random, true);
        }
    }
    h.left.fetch_sub(1, Ordering::SeqCst);
    life
}

/// A subscriber through the command: `log tail --follow` reads and `sql` acknowledges, and both are
/// killed.
fn follow_by_command(h: &History, mut random: Random) -> Life {
    let _alarm = Alarm(&h.failed);
    let db = h.place.db.as_str();
    let added = densite(&["log", "subscribe", db, COMMAND, "--from", "start", "--json"]).expect(0);
    let began = added.json()["position"].as_u64().expect("a position");
    let mut life = Life {
        name: COMMAND.to_owned(),
        began,
        position: began,
        ..Life::default()
    };
    for _ in 0..PROCESSES {
        let behind = life.position.to_string();
        let mut tail = Command::new(DENSITE);
        tail.args(["log", "tail", db, "--after", &behind, "--follow"]);
        let plan = Kill::After("", 1 + random.below(60), random.micros(3000));
        let over = || h.failed.load(Ordering::SeqCst);
        let ended = Process::start(tail, None).run(&plan, &over);
        h.count("killed: tail", 1);
        let last = deliver(
            &mut life,
            &ended.lines,
            &mut h.model.lock().expect("no panic"),
        );
        let Some(last) = last else { continue };
        let mut ack = Command::new(DENSITE);
        ack.args([
            "sql",
            db,
            &format!("SELECT densite_ack('{COMMAND}', {last})"),
        ]);
        let plan = match random.one_in(2) {
            true => Kill::At(random.micros(40_000)),
            false => Kill::Never,
        };
        let ended = Process::start(ack, None).run(&plan, &over);
        let now = positions(&h.place);
        let now = now.iter().find(|(name, _)| name == COMMAND);
        let now = now.expect("the subscriber is there").1;
        match ended.killed {
            true => {
                assert!([life.position, last].contains(&now), "{now} after {life:?}");
                h.count("killed: an acknowledgement by the command", 1);
            }
            false => assert_eq!(now, last),
        }
        life.position = now;
    }
    h.left.fetch_sub(1, Ordering::SeqCst);
    life
}

/// Takes lines of `log tail` as a batch. Returns the number of the last row.
fn deliver(life: &mut Life, lines: &[String], model: &mut Model) -> Option<Seq> {
    let mut batch = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [seq, op, "t", row] = words[..] else {
            panic!("{line}");
        };
        let seq = seq.parse().expect("a number");
        let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
        let id = row["id"].as_i64().expect("an id");
        batch.push(seq);
        model
            .seen
            .add(seq, &entry_text(op, id, row["v"].as_i64()), COMMAND);
    }
    let last = batch.last().copied();
    life.add(batch);
    last
}

fn tail_to_the_end(place: &Place, life: &mut Life, model: &mut Model) {
    let behind = life.position.to_string();
    let all = densite(&[
        "log", "tail", &place.db, "--after", &behind, "-n", "1000000",
    ])
    .expect(0);
    let lines: Vec<String> = all.out.lines().map(str::to_owned).collect();
    deliver(life, &lines, model);
}

/// Names and positions of subscribers.
fn positions(place: &Place) -> Vec<(String, Seq)> {
    let status = densite(&["log", "status", &place.db, "--json"])
        .expect(0)
        .json();
    let all = status["subscribers"].as_array().expect("an array").iter();
    let one = |s: &serde_json::Value| {
        let name = s["name"].as_str().expect("a name").to_owned();
        (name, s["position"].as_u64().expect("a position"))
    };
    all.map(one).collect()
}

/// Asserts that subscribers are at the acknowledged positions, and that the log begins before them.
fn nothing_is_pruned_that_is_wanted(h: &History, log: &std::path::Path, lives: &[Life]) {
    let status = densite(&["log", "status", &h.place.db, "--json"])
        .expect(0)
        .json();
    let first = status["first"].as_u64().expect("a number");
    let positions = positions(&h.place);
    assert_eq!(positions.len(), lives.len(), "{positions:?}");
    for (name, position) in positions {
        let life = lives
            .iter()
            .find(|life| life.name == name)
            .expect("a subscriber");
        let asked = life.asked == Some(position);
        assert!(position == life.position || asked, "{position}: {life:?}");
        assert!(
            first <= position + 1,
            "{name} at {position}, the log begins with {first}"
        );
    }
    let segments = super::common::names(log);
    let numbers = segments
        .iter()
        .filter_map(|name| name.strip_suffix(".seg")?.parse::<u64>().ok());
    h.count("segments pruned", numbers.min().map_or(0, |n| n - 1));
}
