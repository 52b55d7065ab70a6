//! A program that reads a remote database, and what each step costs it.
//!
//! Each opening step has a process of its own, so nothing is cached before it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use densite_testing::FaultProxy;

use super::job::Answer;
use super::site::with_environment;
use super::steps::Step;
use super::talk::{Heard, Talk};
use crate::result::{About as _, Failure, Result};

/// How long a step can take.
pub(super) const LIMIT: Duration = Duration::from_secs(30);
/// How long requests of a process that was ended are waited for, so that they are not counted for
/// the next one.
const LATE: Duration = Duration::from_millis(200);

/// A program with its database.
pub(super) struct Reader {
    pub(super) name: String,
    /// Where the database is: this server's requests are counted
    pub(super) server: Server,
    pub(super) program: Program,
    /// Variables of its process
    pub(super) environment: Vec<(&'static str, String)>,
}

/// The servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Web,
    Store,
}

/// How a program is started and asked.
pub(super) enum Program {
    /// SQLite with a loadable extension
    Extension { library: PathBuf, uri: String },
    /// A shell that reads SQL. `caches` is a folder for its caches: each process gets an empty one.
    Shell {
        program: PathBuf,
        arguments: Vec<String>,
        caches: PathBuf,
    },
}

/// What a step has cost.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cost {
    pub(super) requests: u64,
    pub(super) kib: f64,
    pub(super) end: End,
}

/// How a step has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum End {
    Answer {
        answer: i64,
        seconds: f64,
    },
    /// At the time limit
    Limit,
    /// With a message
    Failed(String),
    /// The step before has not ended well
    NotBegun,
}

impl Reader {
    /// All steps, with the server behind this proxy.
    pub(super) fn measure(
        &self,
        steps: &[(usize, &Step)],
        orders: u64,
        proxy: &FaultProxy,
    ) -> Result<Vec<Cost>> {
        let mut costs = Vec::new();
        let mut running = None;
        for (number, step) in steps {
            if step.opens {
                drop(running.take());
                std::thread::sleep(LATE);
                let _ = proxy.take_counts();
                running = Some(self.start(orders, false, *number)?);
            }
            let end = match &mut running {
                None => End::NotBegun,
                Some(running) => match running.ask(*number, step) {
                    Ok(Some(found)) => End::Answer {
                        answer: found.answer,
                        seconds: found.seconds,
                    },
                    Ok(None) => End::Limit,
                    Err(failure) => End::Failed(failure.0),
                },
            };
            if !matches!(end, End::Answer { .. }) {
                running = None;
            }
            let (requests, bytes) = proxy.take_counts();
            costs.push(Cost {
                requests,
                kib: bytes as f64 / 1024.0,
                end,
            });
        }
        drop(running);
        std::thread::sleep(LATE);
        Ok(costs)
    }

    /// One step, with the requests that Densite itself has counted.
    pub(super) fn counted(&self, number: usize, step: &Step, orders: u64) -> Result<Answer> {
        let answer = self.start(orders, true, number)?.ask(number, step)?;
        answer.ok_or_else(|| Failure(format!("{}: no answer in {LIMIT:?}", self.name)))
    }

    fn start(&self, orders: u64, count: bool, number: usize) -> Result<Running> {
        let begun = Instant::now();
        let (command, is_shell) = match &self.program {
            Program::Extension { library, uri } => {
                let me = std::env::current_exe().about("find", Path::new("this program"))?;
                let mut command = Command::new(me);
                command
                    .args(["run-remote", "read", "--uri", uri])
                    .args(["--orders", &orders.to_string(), "--extension"])
                    .arg(library);
                if count {
                    command.arg("--count");
                }
                (command, false)
            }
            Program::Shell {
                program,
                arguments,
                caches,
            } => {
                let mut command = Command::new(program);
                command
                    .args(arguments)
                    .arg("--cache-dir")
                    .arg(caches.join(number.to_string()));
                (command, true)
            }
        };
        let talk = Talk::start(with_environment(command, &self.environment))?;
        Ok(Running {
            talk,
            begun,
            is_shell,
        })
    }
}

/// A process that reads.
struct Running {
    talk: Talk,
    begun: Instant,
    is_shell: bool,
}

impl Running {
    /// The answer to a step; `None` at the time limit.
    fn ask(&mut self, number: usize, step: &Step) -> Result<Option<Answer>> {
        let until = Instant::now() + LIMIT;
        if self.is_shell {
            return self.ask_shell(step, until);
        }
        self.talk.say(&number.to_string());
        match self.talk.hear(until)? {
            Heard::Line(line) => Ok(Some(serde_json::from_str(&line)?)),
            Heard::Nothing => Ok(None),
        }
    }

    /// The shell prints a line of column names, and then the row. It opens the database at its
    /// start.
    fn ask_shell(&mut self, step: &Step, until: Instant) -> Result<Option<Answer>> {
        let now = Instant::now();
        let begun = if step.opens { self.begun } else { now };
        let mut sum = 0;
        for line in step.lines() {
            self.talk.say(&line);
            let mut is_answer = false;
            loop {
                let Heard::Line(heard) = self.talk.hear(until)? else {
                    return Ok(None);
                };
                if is_answer {
                    let number: Option<i64> = heard.trim().parse().ok();
                    sum += number.ok_or_else(|| Failure(format!("an answer was {heard}")))?;
                    break;
                }
                is_answer = heard.trim() == "answer";
            }
        }
        Ok(Some(Answer {
            answer: sum,
            seconds: begun.elapsed().as_secs_f64(),
            requests: None,
        }))
    }
}
