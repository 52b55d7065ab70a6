//! The role `puppet`: executes commands, one line at a time, for tests that need two processes and
//! an exact order. It has no arguments; see [`run`] for the commands. Connections have no busy
//! timeout.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use densite_vfs::failpoint;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::subject::{READ_ONLY, READ_WRITE, api, code};
use super::{Child, Subject};

/// Runs the role.
///
/// A line on standard input is a command; the answer is one line on standard output: `ok`, `ok
/// ROWS`, or `err CODE MESSAGE`.
///
/// ```text
/// open NAME SUBJECT FLAGS PATH   FLAGS: rw, ro or uri (PATH is then a URI)
/// sql NAME SQL                   runs statements; rows are ignored
/// ask NAME SQL                   runs a query; the answer is its rows: columns by |, rows by ;
/// close NAME
/// info PATH, check PATH          the result of the library for a file
/// pause POINT SKIP FILE          stops at its (SKIP + 1)th passing: creates FILE.reached, awaits FILE
/// sleep POINT MS                 sleeps there
/// panic POINT                    panics there
/// resume POINT                   removes the action of the point
/// drop NAME                      forgets a connection without closing it
/// during close A ask B SQL       closes A on its own thread and lets B ask at the same time
/// ```
///
/// # Panics
/// If a command is unknown.
pub fn run() {
    // A panic inside a callback must not end this process: that is what the test checks.
    drop(std::panic::take_hook());
    let mut connections = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let answer = match obey(&mut connections, &line) {
            Ok(rows) if rows.is_empty() => "ok".to_owned(),
            Ok(rows) => format!("ok {rows}"),
            Err(e) => format!("err {} {}", code(&e), e.to_string().replace('\n', " ")),
        };
        let mut out = std::io::stdout();
        writeln!(out, "{answer}")
            .and_then(|()| out.flush())
            .expect("answer");
    }
    // Like an application whose process ends without closing.
    std::mem::forget(connections);
}

fn obey(connections: &mut HashMap<String, Connection>, line: &str) -> rusqlite::Result<String> {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    match command {
        "open" => {
            let [subject, flags, path] = words(rest);
            let subject: Subject = subject.parse().expect("subject");
            let flags = match flags {
                "ro" => READ_ONLY,
                "uri" => READ_WRITE | OpenFlags::SQLITE_OPEN_URI,
                _ => READ_WRITE,
            };
            let db = subject.open_with(Path::new(path), flags)?;
            db.busy_timeout(Duration::ZERO)?;
            connections.insert(name.to_owned(), db);
        }
        "sql" => {
            connection(connections, name).execute_batch(rest)?;
        }
        "ask" => {
            return rows(connection(connections, name), rest);
        }
        "close" => {
            let db = connections.remove(name).expect("a connection");
            db.close().map_err(|(_, e)| e)?;
        }
        "during" => return during(connections, rest),
        "info" | "check" => {
            let path = line.split_once(' ').map_or("", |(_, path)| path);
            let done = if command == "info" {
                densite_tools::info(api(), Path::new(path)).map(|_| ())
            } else {
                densite_tools::check(api(), Path::new(path), &mut densite_tools::Silent).map(|_| ())
            };
            return Ok(done
                .err()
                .map(|e| e.to_string().replace('\n', " "))
                .unwrap_or_default());
        }
        "drop" => std::mem::forget(connections.remove(name)),
        "pause" => {
            let [skip, file] = words(rest);
            pause_at(name, skip.parse().expect("a number"), PathBuf::from(file));
        }
        "sleep" => {
            let time = Duration::from_millis(rest.parse().expect("milliseconds"));
            failpoint::arm(name, move || std::thread::sleep(time));
        }
        "panic" => {
            let point = name.to_owned();
            failpoint::arm(name, move || panic!("told to panic at {point}"));
        }
        "resume" => failpoint::disarm(name),
        _ => panic!("there is no command {command}"),
    }
    Ok(String::new())
}

fn connection<'a>(connections: &'a HashMap<String, Connection>, name: &str) -> &'a Connection {
    connections
        .get(name)
        .unwrap_or_else(|| panic!("there is no connection {name}"))
}

/// The first `N` words. The last one is the rest of the line.
fn words<const N: usize>(line: &str) -> [&str; N] {
    let words: Vec<&str> = line.splitn(N, ' ').collect();
    words.try_into().expect("as many words")
}

/// The rows of a query as text.
///
/// # Errors
/// Errors of SQLite.
pub fn rows(db: &Connection, sql: &str) -> rusqlite::Result<String> {
    let mut query = db.prepare(sql)?;
    let columns = query.column_count();
    let mut rows = query.query([])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let mut line = Vec::new();
        for i in 0..columns {
            line.push(match row.get_ref(i)? {
                ValueRef::Null => "NULL".to_owned(),
                ValueRef::Integer(n) => n.to_string(),
                ValueRef::Real(x) => x.to_string(),
                ValueRef::Text(t) => String::from_utf8_lossy(t).into_owned(),
                ValueRef::Blob(b) => format!("{} bytes", b.len()),
            });
        }
        out.push(line.join("|"));
    }
    Ok(out.join(";"))
}

/// `A ask B SQL`, after `during close`: B asks while A is closing with all its locks.
fn during(connections: &mut HashMap<String, Connection>, rest: &str) -> rusqlite::Result<String> {
    let [a, _, b, sql] = words(rest);
    let closing = connections.remove(a).expect("a connection");
    std::thread::scope(|scope| {
        let close = scope.spawn(|| closing.close().map_err(|(_, e)| e));
        let asking = connection(connections, b);
        let answer = loop {
            let over = close.is_finished();
            let answer = rows(asking, sql)?;
            if over {
                break answer;
            }
        };
        close.join().expect("no panic")?;
        Ok(answer)
    })
}

/// Stops the thread that passes `point` for the (`skip` + 1)th time, until `file` exists. Creates
/// `file.reached` then.
fn pause_at(point: &str, skip: u32, file: PathBuf) {
    let passed = AtomicU32::new(0);
    failpoint::arm(point, move || {
        if passed.fetch_add(1, Ordering::Relaxed) < skip {
            return;
        }
        std::fs::write(reached(&file), b"").expect("tell");
        while !file.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

fn reached(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".reached");
    PathBuf::from(name)
}

/// The parent's side of one puppet.
pub struct Puppet {
    child: Child,
    pauses: u32,
    /// The last field, so it is dropped after the child that can have files in it open.
    dir: tempfile::TempDir,
}

/// A point where a puppet stops.
pub struct Stop {
    file: PathBuf,
    point: String,
}

impl Puppet {
    /// Starts a puppet.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(program: &str) -> Puppet {
        let dir = tempfile::tempdir().expect("directory");
        Puppet {
            child: Child::start(program, &["puppet"], &[]),
            pauses: 0,
            dir,
        }
    }

    /// Sends a command and does not wait for the answer.
    pub fn tell(&mut self, command: &str) {
        self.child.say(command);
    }

    /// The answer to a command: the rows, or the extended error code.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn answer(&mut self) -> Result<String, i32> {
        let line = self.child.line();
        match line.split_once(' ') {
            None => Ok(String::new()),
            Some(("ok", rows)) => Ok(rows.to_owned()),
            Some((_, error)) => {
                let code = error.split(' ').next().unwrap_or_default();
                println!("a puppet answers: {line}");
                Err(code.parse().unwrap_or(-1))
            }
        }
    }

    /// Whether the answer to the last command has arrived.
    pub fn has_answered(&mut self) -> bool {
        self.child.has_line()
    }

    /// Sends a command and waits for the answer.
    ///
    /// # Errors
    /// The extended error code of SQLite.
    pub fn obey(&mut self, command: &str) -> Result<String, i32> {
        self.tell(command);
        self.answer()
    }

    /// Sends a command that must succeed, and returns its answer.
    ///
    /// # Panics
    /// If it fails.
    pub fn must(&mut self, command: &str) -> String {
        self.obey(command)
            .unwrap_or_else(|code| panic!("{command}: code {code}"))
    }

    /// Opens a connection named `name`.
    pub fn open(&mut self, name: &str, subject: Subject, path: &Path) {
        self.must(&format!("open {name} {subject} rw {}", path.display()));
    }

    /// Makes it stop at a pause point after it has passed the point `skip` times.
    pub fn stop_at(&mut self, point: &str, skip: u32) -> Stop {
        self.pauses += 1;
        let file = self.dir.path().join(self.pauses.to_string());
        self.must(&format!("pause {point} {skip} {}", file.display()));
        Stop {
            file,
            point: point.to_owned(),
        }
    }

    /// Waits until it reaches the point. Returns false if it answered before.
    ///
    /// # Panics
    /// If neither happens in time.
    pub fn comes_to(&mut self, stop: &Stop) -> bool {
        let begin = Instant::now();
        loop {
            if reached(&stop.file).exists() {
                return true;
            }
            if self.has_answered() {
                return reached(&stop.file).exists();
            }
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "never came to {}",
                stop.point
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets it continue from the point.
    pub fn go_on(&mut self, stop: &Stop) {
        std::fs::write(&stop.file, b"").expect("go on");
    }

    /// Kills it.
    pub fn kill(mut self) {
        self.child.kill();
    }
}
