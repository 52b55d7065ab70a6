//! Replacing a file in place: what is kept, what is refused, and what an interruption leaves.

use crate::common::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn owner_and_mode_are_kept() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    chmod(&a, 0o640);
    let root = fs::metadata(&a).expect("metadata").uid() == 0;
    if root {
        chown(&a, Some(12345), Some(23456)).expect("chown");
    }
    let owner = |path: &str| {
        let m = fs::metadata(path).expect("metadata");
        (m.uid(), m.gid(), m.permissions().mode() & 0o7777)
    };
    let before = owner(&a);
    densite(&["compress", &a]).expect(0);
    assert_eq!(owner(&a), before);
    densite(&["decompress", &a]).expect(0);
    assert_eq!(owner(&a), before);
    densite(&["compress", &a, "--page-size", "1024"]).expect(0);
    assert_eq!(owner(&a), before);
    // A copy belongs to the caller, and its mode is not more open than that of the original.
    chmod(&a, 0o600);
    let b = at(&dir, "b.db");
    densite(&["decompress", &a, &b]).expect(0);
    assert_eq!(owner(&b).2, 0o600);
}

#[test]
fn symbolic_links_are_kept() {
    let dir = temp();
    fs::create_dir(dir.path().join("real")).expect("mkdir");
    let (real, link) = (at(&dir, "real/a.db"), at(&dir, "link.db"));
    plain(&real, 4096, 300);
    std::os::unix::fs::symlink("real/a.db", &link).expect("symlink");
    densite(&["compress", &link]).expect(0);
    assert!(fs::symlink_metadata(&link).expect("metadata").is_symlink());
    assert!(is_compressed(&real));
    assert_eq!(names(dir.path()), ["link.db", "real"]);
    assert_eq!(names(&dir.path().join("real")), ["a.db"]);
}

#[test]
fn several_hard_links_are_refused_in_place() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 4096, 300);
    fs::hard_link(&a, &b).expect("link");
    let before = snapshot(dir.path());
    densite(&["compress", &a])
        .expect(1)
        .says("a.db has 2 names (hard links)");
    assert!(snapshot(dir.path()) == before);
    densite(&["compress", &a, &at(&dir, "c.db")]).expect(0);
}

#[test]
fn a_relative_name_in_the_current_directory() {
    let dir = temp();
    plain(&at(&dir, "a.db"), 4096, 300);
    let here = |args: &[&str]| run(Command::new(DENSITE).args(args).current_dir(dir.path()));
    here(&["compress", "a.db"]).expect(0);
    here(&["decompress", "a.db", "b.db"]).expect(0);
    here(&["check", "b.db"]).expect(0);
    assert_eq!(names(dir.path()), ["a.db", "b.db"]);
}

#[test]
fn an_interruption_changes_no_file() {
    for (signal, in_place) in [("INT", true), ("TERM", false)] {
        let dir = temp();
        let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
        plain(&a, 4096, 60_000);
        let before = snapshot(dir.path());
        let mut args = vec!["compress", &a];
        args.extend((!in_place).then_some(b.as_str()));
        // The slowest level, so that it is still running when the signal arrives.
        args.extend(["--level", "22", "--threads", "0", "--json"]);
        let child = Command::new(DENSITE)
            .args(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let started = Instant::now();
        let at_work = || {
            names(dir.path()).iter().any(|n| {
                n.contains("-densite-tmp-")
                    && fs::metadata(dir.path().join(n)).is_ok_and(|m| m.len() > 0)
            })
        };
        while !at_work() {
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "it never began"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        run(Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()])).expect(0);
        let out = child.wait_with_output().expect("it ends");
        assert_eq!(out.status.code(), Some(130), "{out:?}");
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        assert_eq!(json["error"]["kind"], "interrupted");
        assert!(snapshot(dir.path()) == before, "{:?}", names(dir.path()));
    }
}

#[test]
fn leftovers_of_a_killed_run_are_reported_and_kept() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    fs::write(at(&dir, "a.db-densite-tmp-00000000"), b"x").expect("write");
    let info = densite(&["info", &a, "--json"]).expect(0);
    assert_eq!(info.json()["leftovers"].as_array().map(Vec::len), Some(1));
    densite(&["compress", &a])
        .expect(0)
        .says("a.db-densite-tmp-00000000 was left by an interrupted run");
    assert_eq!(names(dir.path()), ["a.db", "a.db-densite-tmp-00000000"]);
}

#[test]
fn an_idle_connection_of_another_process_is_noticed() {
    for mode in ["DELETE", "WAL"] {
        let dir = temp();
        let a = at(&dir, "a.db");
        plain(&a, 4096, 300);
        densite(&["sql", &a, &format!("PRAGMA journal_mode={mode}")]).expect(0);
        for verb in ["compress", "decompress"] {
            // The connection has ended a transaction or has not begun one. Its later writes would
            // go to a file without a name.
            for sql in ["SELECT 1", "SELECT count(*) FROM t"] {
                let mut idle = Other::on(&a);
                idle.run(sql);
                let ran = densite(&[verb, &a, "--json", "--timeout", "0.5"])
                    .expect(3)
                    .says("a.db is locked by process");
                assert_eq!(ran.json()["error"]["by"][0]["pid"], idle.pid(), "{ran:?}");
                assert_eq!(is_compressed(&a), verb == "decompress", "{mode} {sql}");
                assert!(names(dir.path()).iter().all(|n| !n.contains("tmp")));
                idle.run("UPDATE t SET name='kept' WHERE id=1");
            }
            // A conversion to another file does not affect it.
            let mut idle = Other::on(&a);
            idle.run("SELECT 1");
            densite(&[verb, &a, &at(&dir, verb)]).expect(0);
            drop(idle);
            densite(&[verb, &a]).expect(0);
            densite(&["check", &a]).expect(0);
            assert!(dump(&a).contains("\n1,kept,"));
        }
    }
}

#[test]
fn a_connection_opened_meanwhile_is_noticed_before_the_file_is_replaced() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 3000);
    for verb in ["compress", "decompress"] {
        let stopped = Stopped::at_point("verified", &[verb, &a, "--json"]);
        let before = fs::read(&a).expect("read");
        // It opens the file and finds it locked. Its later changes must be in the file that has the
        // name then.
        let mut late = Other::on(&a);
        late.opens(&a);
        let ran = stopped.finish().expect(3);
        assert_eq!(ran.json()["error"]["by"][0]["pid"], late.pid(), "{ran:?}");
        assert!(fs::read(&a).expect("read") == before);
        late.run(&format!("UPDATE t SET name='{verb}' WHERE id=1"));
        drop(late);
        densite(&[verb, &a]).expect(0);
        assert!(dump(&a).contains(&format!("\n1,{verb},")));
    }
}

/// A run has its copy locked as long as it works.
#[test]
fn what_a_killed_run_left_is_removed_unless_a_run_has_it() {
    let dir = temp();
    let (a, left) = (at(&dir, "a.db"), at(&dir, "a.db-densite-tmp-0a1b2c3d"));
    plain(&a, 4096, 300);
    let make = fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&left)
        .expect("creates");
    make.lock().expect("locks");
    for verb in ["compress", "vacuum"] {
        densite(&[verb, &a, "--yes"])
            .expect(0)
            .says("a.db-densite-tmp-0a1b2c3d was left by an interrupted run or belongs to one");
        assert_eq!(names(dir.path()).len(), 2, "{verb}");
    }
    drop(make);
    densite(&["decompress", &a])
        .expect(0)
        .says("a.db-densite-tmp-0a1b2c3d was left by a run that was killed; it was removed");
    assert_eq!(names(dir.path()), ["a.db"]);
}

#[test]
fn a_run_that_is_killed_at_work_is_cleaned_up_by_the_next() {
    let (dir, other) = (temp(), temp());
    let (a, pause) = (at(&dir, "a.db"), at(&other, "pause"));
    plain(&a, 4096, 300);
    let mut child = Command::new(DENSITE)
        .args(["compress", &a])
        .env("DENSITE_PAUSE", format!("verified:{pause}"))
        .spawn()
        .expect("starts");
    let started = Instant::now();
    while names(other.path()).is_empty() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "it never began"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("kills");
    child.wait().expect("ends");
    assert_eq!(names(dir.path()).len(), 2);
    densite(&["compress", &a]).expect(0).says("it was removed");
    assert_eq!(names(dir.path()), ["a.db"]);
}

/// With `--timeout`, a copy of a database in a rollback mode waits for the end of an exclusive
/// transaction.
#[test]
fn a_copy_waits_for_a_writer_as_long_as_it_is_told() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    let con = rusqlite::Connection::open(&a).expect("opens");
    con.execute_batch("BEGIN EXCLUSIVE; UPDATE t SET name = 'late' WHERE id = 1")
        .expect("writes");
    for verb in ["compress", "publish"] {
        let started = Instant::now();
        densite(&[verb, &a, &at(&dir, "none.db"), "--timeout", "0.2"]).expect(3);
        assert!(started.elapsed() < Duration::from_secs(4), "{verb}");
    }
    let waiting = std::thread::spawn({
        let (a, to) = (a.clone(), at(&dir, "copy.db"));
        move || densite(&["compress", &a, &to, "--timeout", "60"])
    });
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!waiting.is_finished());
    con.execute_batch("COMMIT").expect("commits");
    waiting.join().expect("no panic").expect(0);
    assert!(dump(&at(&dir, "copy.db")).contains("\n1,late,"));
}

#[test]
fn an_interrupt_ends_the_wait_for_a_lock() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    let con = rusqlite::Connection::open(&a).expect("opens");
    con.execute_batch("BEGIN EXCLUSIVE").expect("locks");
    for to in [Some(at(&dir, "copy.db")), None] {
        let mut child = Command::new(DENSITE)
            .args(["compress", &a, "--timeout", "600"])
            .args(&to)
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        std::thread::sleep(Duration::from_millis(1500));
        assert!(child.try_wait().expect("asked").is_none(), "it waits");
        run(Command::new("kill").args(["-INT", &child.id().to_string()])).expect(0);
        let begun = Instant::now();
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{to:?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{to:?}");
    }
}

#[test]
fn a_database_that_would_become_larger_is_left_as_it_is() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 1024, 3);
    let before = snapshot(dir.path());
    let json = densite(&["compress", &a, "--json"])
        .expect(1)
        .says("so it was left as it is")
        .json();
    assert_eq!(json["error"]["kind"], "larger");
    assert!(snapshot(dir.path()) == before, "{:?}", names(dir.path()));
    let ran = densite(&["compress", &a, "--even-if-larger"]).expect(0);
    assert!(ran.out.contains("times as large"), "{ran:?}");
    assert!(is_compressed(&a));
}
