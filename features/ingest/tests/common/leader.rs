//! A process that applies the rows of a test's database: this test program with only its test
//! `child`.

use super::Db;
use crate::common;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The environment variable with the database's path.
const PATH: &str = "DENSITE_INGEST_LEADER";

/// The body of the test `child`. In the child process, it inserts rows into `t_in` and applies all
/// rows until its input ends. Otherwise it does nothing.
pub(crate) fn lead(insert: &str) {
    let Ok(path) = std::env::var(PATH) else {
        return;
    };
    let con = common::open(Path::new(&path));
    common::create(&con, "t", "").expect("the ingest table");
    con.execute_batch(insert).expect("inserts");
    common::wait(&con);
    println!("leads");
    let ended = std::io::stdin().lines().next().transpose();
    ended.expect("the end");
}

/// The child process, which has applied its row.
pub(crate) struct Leader {
    child: Child,
    /// Kept open to the end, because the child reports the result of its test.
    _told: Lines<BufReader<ChildStdout>>,
}

impl Leader {
    /// `child` is the path of the test that calls [`lead`].
    pub(crate) fn start(db: &Db, child: &str) -> Leader {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", child, "--nocapture"])
            .env(PATH, db.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let mut told = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(told.any(|l| l.expect("a line").contains("leads")));
        Leader { child, _told: told }
    }

    /// Its process id.
    #[allow(dead_code, reason = "each test file uses a part of it")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process.
    #[allow(dead_code, reason = "each test file uses a part of it")]
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("kills");
        self.child.wait().expect("ends");
    }

    /// Ends the process.
    #[allow(dead_code, reason = "each test file uses a part of it")]
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("ends").success());
    }
}
