//! The processes of a history. Each prints lines that begin with `+` to standard output: what it is
//! about to do, and the results.

use super::random::Random;
use super::storage::Small;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// Environment variables with the parameters of a process.
pub(crate) const DB: &str = "FOLLOWERS_DB";
pub(crate) const VFS: &str = "FOLLOWERS_VFS";
pub(crate) const ROLE: &str = "FOLLOWERS_ROLE";
pub(crate) const NAME: &str = "FOLLOWERS_NAME";
pub(crate) const SEED: &str = "FOLLOWERS_SEED";

fn told(name: &str) -> String {
    std::env::var(name).expect(name)
}

pub(crate) fn run() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let random = Random::new(told(SEED).parse().expect("a seed"));
    let name = told(NAME);
    let mut con = connect();
    match role.as_str() {
        "write" => write(&mut con, name.parse().expect("a number"), random),
        "follow" => follow(&con, &name, random, false),
        "drain" => follow(&con, &name, random, true),
        "start" | "now" => subscribe(&con, &name, &role),
        "drop" => unsubscribe(&con, &name),
        "prune" => prune(&con, random),
        other => panic!("there is no role {other}"),
    }
}

/// Prints all lines with one write, so that a kill cannot cut off a line before others.
fn say(lines: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(lines.as_bytes()).expect("said");
    out.flush().expect("said");
}

fn connect() -> Connection {
    let api = densite_linked::api().expect("the linked SQLite");
    let (db, vfs) = (told(DB), told(VFS));
    let con = match vfs.as_str() {
        "densite" => {
            densite_vfs::register(api, densite_vfs::NAME, None, false).expect("the VFS");
            Connection::open_with_flags_and_vfs(db, OpenFlags::SQLITE_OPEN_READ_WRITE, "densite")
        }
        _ => Connection::open(db),
    };
    let con = con.expect("opens");
    con.busy_timeout(Duration::from_secs(20))
        .expect("a timeout");
    // SAFETY: the handle is that of an open connection of that library, and `con` outlives `lent`.
    let lent = unsafe { densite_sqlite::Connection::borrow(api, con.handle().cast()) };
    densite_ingest::create_functions_on(&lent.expect("a connection"), Arc::new(Small))
        .expect("functions");
    con
}

/// Retries while other connections hold locks.
fn patiently<T>(what: &str, mut once: impl FnMut() -> rusqlite::Result<T>) -> T {
    for _ in 0..1000 {
        match once() {
            Ok(done) => return done,
            Err(e) if is_busy(&e) => std::thread::sleep(Duration::from_millis(5)),
            Err(e) => panic!("{what}: {e}"),
        }
    }
    panic!("{what}: busy forever");
}

fn is_busy(e: &rusqlite::Error) -> bool {
    matches!(
        e.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn int(con: &Connection, sql: &str) -> rusqlite::Result<i64> {
    con.query_row(sql, [], |row| row.get(0))
}

/// Writes transactions of a few rows: inserted, updated or deleted; committed, rolled back, or
/// refused at COMMIT.
fn write(con: &mut Connection, writer: u64, mut random: Random) {
    patiently("the ingest table", || {
        con.execute_batch("CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t)")
    });
    // Rows that exist and that no statement has deleted yet.
    let mut there = Vec::new();
    for x in 0u64.. {
        let (mut entries, mut sql, mut added) = (Vec::new(), String::new(), Vec::new());
        for i in 0..=random.below(7) {
            let old = random.below(there.len().max(1) as u64) as usize;
            match random.below(8) {
                // Each row at most once, so that all entries of the log differ.
                0 if !there.is_empty() => {
                    let id: u64 = there.swap_remove(old);
                    sql += &format!("DELETE FROM t_in WHERE id = {id};");
                    entries.push(format!("delete {id}"));
                }
                1 if !there.is_empty() => {
                    let id = there.swap_remove(old);
                    sql += &format!("UPDATE t_in SET v = {x} WHERE id = {id};");
                    entries.push(format!("update {id} {x}"));
                }
                _ => {
                    let id = (writer * 100_000 + x) * 10 + i;
                    let pad = 20 + random.below(200);
                    sql += &format!("INSERT INTO t_in VALUES ({id}, {x}, hex(randomblob({pad})));");
                    entries.push(format!("insert {id} {x}"));
                    added.push(id);
                }
            }
        }
        say(&format!("+begin {x} {}\n", entries.join(",")));
        patiently("BEGIN", || con.execute_batch("BEGIN"));
        con.execute_batch(&sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        match random.below(10) {
            0 => {
                con.execute_batch("ROLLBACK").expect("rolls back");
                say(&format!("+none {x}\n"));
            }
            1 => {
                con.commit_hook(Some(|| true)).expect("a hook");
                con.execute_batch("COMMIT").expect_err("refused");
                con.commit_hook(None::<fn() -> bool>).expect("no hook");
                say(&format!("+none {x}\n"));
            }
            _ => {
                patiently("COMMIT", || con.execute_batch("COMMIT"));
                let last = int(con, "SELECT densite_last_seq()").expect("a number");
                say(&format!("+ack {x} {last}\n"));
                there.append(&mut added);
            }
        }
        if random.one_in(5) {
            std::thread::sleep(random.micros(4000));
        }
    }
}

/// Reads rows, prints them, and acknowledges them.
fn follow(con: &Connection, name: &str, mut random: Random, to_the_end: bool) {
    // Acknowledging row 0 changes nothing and returns the position.
    let at = patiently("the position", || {
        int(con, &format!("SELECT densite_ack('{name}', 0)"))
    });
    say(&format!("+at {at}\n"));
    loop {
        let rows = if to_the_end {
            500
        } else {
            1 + random.below(60)
        };
        say("+reading\n");
        let read = patiently("reading", || read(con, name, rows));
        let Some((last, _)) = read.last() else {
            if to_the_end {
                say("+end\n");
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let lines = read
            .iter()
            .map(|(seq, entry)| format!("+row {seq} {entry}\n"));
        say(&format!("{}+read\n", lines.collect::<String>()));
        std::thread::sleep(random.micros(3000));
        let to = match random.below(4) {
            0 => read[random.below(read.len() as u64) as usize].0,
            _ => *last,
        };
        say(&format!("+acking {to}\n"));
        let at = patiently("acknowledging", || {
            int(con, &format!("SELECT densite_ack('{name}', {to})"))
        });
        say(&format!("+acked {at}\n"));
        if random.one_in(4) {
            // Pruning can be busy now and then.
            let pruned = int(con, "SELECT densite_prune()");
            assert!(
                pruned.is_ok() || pruned.is_err_and(|e| is_busy(&e)),
                "prune"
            );
        }
    }
}

/// The numbers of rows, and the text of each.
fn read(con: &Connection, name: &str, rows: u64) -> rusqlite::Result<Vec<(i64, String)>> {
    let mut statement =
        con.prepare("SELECT seq, op, key ->> 'id', row ->> 'v' FROM densite_log(?1, ?2)")?;
    let entry = |row: &rusqlite::Row<'_>| -> rusqlite::Result<(i64, String)> {
        let (op, id): (String, i64) = (row.get(1)?, row.get(2)?);
        let v = row.get::<_, Option<i64>>(3)?;
        Ok((row.get(0)?, entry_text(&op, id, v)))
    };
    statement.query_map((name, rows as i64), entry)?.collect()
}

/// The text of an entry, in the same form as writers print it.
pub(crate) fn entry_text(op: &str, id: i64, v: Option<i64>) -> String {
    let v = v.map(|v| format!(" {v}")).unwrap_or_default();
    format!("{op} {id}{v}")
}

fn subscribe(con: &Connection, name: &str, from: &str) {
    say("+subscribing\n");
    let sql = format!("SELECT densite_subscribe('{name}', '{from}')");
    let done = patiently("subscribing", || match int(con, &sql) {
        Err(e) if !is_busy(&e) => Ok(Err(e.to_string())),
        done => done.map(Ok),
    });
    match done {
        Ok(at) => say(&format!("+subscribed {at}\n")),
        Err(e) => {
            assert!(e.contains("already"), "{e}");
            say("+exists\n");
        }
    }
}

fn unsubscribe(con: &Connection, name: &str) {
    say("+dropping\n");
    let sql = format!("SELECT densite_unsubscribe('{name}') IS NULL");
    let done = patiently("unsubscribing", || match int(con, &sql) {
        Err(e) if !is_busy(&e) => Ok(Err(e.to_string())),
        done => done.map(Ok),
    });
    match done {
        Ok(_) => say("+dropped\n"),
        Err(e) => {
            assert!(e.contains("no subscriber"), "{e}");
            say("+gone\n");
        }
    }
}

/// Applies rows to the database and prunes.
fn prune(con: &Connection, mut random: Random) {
    loop {
        say("+pruning\n");
        for sql in [
            "SELECT densite_wait()",
            "PRAGMA wal_checkpoint(TRUNCATE)",
            "SELECT densite_prune()",
        ] {
            match int(con, sql) {
                Ok(_) => {}
                Err(e) if is_busy(&e) => {}
                Err(e) => panic!("{sql}: {e}"),
            }
        }
        say("+pruned\n");
        std::thread::sleep(random.micros(10_000));
    }
}
