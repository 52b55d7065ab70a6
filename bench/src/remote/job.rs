//! The hidden subcommands of the demo: SQLite with one loadable extension, in a process of its own.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Subcommand;
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

use super::steps::steps;
use crate::connect;
use crate::result::{About as _, Failure, Result};

/// A job of a separate process.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// Reads numbers of steps, and prints an answer for each
    Read {
        #[arg(long)]
        extension: PathBuf,
        /// What is opened
        #[arg(long)]
        uri: String,
        /// The number of orders in the data
        #[arg(long)]
        orders: u64,
        /// Also print the requests that Densite has counted
        #[arg(long)]
        count: bool,
    },
    /// Runs VACUUM INTO
    VacuumInto {
        #[arg(long)]
        extension: PathBuf,
        /// The plain database
        #[arg(long)]
        source: PathBuf,
        /// The file: URI of the copy
        #[arg(long)]
        uri: String,
    },
}

/// The answer to a step.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) answer: i64,
    /// With opening, if the step opens
    pub(super) seconds: f64,
    /// Requests of the connection so far, as Densite has counted them
    pub(super) requests: Option<u64>,
}

/// Runs the job in this process.
pub(crate) fn run(job: &Job) -> Result<()> {
    match job {
        Job::Read {
            extension,
            uri,
            orders,
            count,
        } => read(extension, uri, *orders, *count),
        Job::VacuumInto {
            extension,
            source,
            uri,
        } => {
            connect::load(extension)?;
            let con = open(&connect::Vfs::Plain.uri(source)?)?;
            con.execute("VACUUM INTO ?", [uri])?;
            Ok(())
        }
    }
}

fn open(uri: &str) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags).about("open", Path::new(uri))
}

fn read(extension: &Path, uri: &str, orders: u64, count: bool) -> Result<()> {
    connect::load(extension)?;
    let steps = steps(orders);
    let mut con = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.about("read", Path::new("standard input"))?;
        let step = line.parse::<usize>().ok().and_then(|i| steps.get(i));
        let step = step.ok_or_else(|| Failure(format!("there is no step {line}")))?;
        let begin = Instant::now();
        if step.opens || con.is_none() {
            con = Some(open(uri)?);
        }
        let Some(con) = &con else { continue };
        let answer = step.answer(con)?;
        let seconds = begin.elapsed().as_secs_f64();
        let requests = if count { Some(counted(con)?) } else { None };
        let answer = Answer {
            answer,
            seconds,
            requests,
        };
        println!("{}", serde_json::to_string(&answer)?);
    }
    Ok(())
}

/// The requests of the connection so far.
fn counted(con: &Connection) -> Result<u64> {
    let sql = "SELECT value FROM densite_info WHERE name = 'remote_requests'";
    let count: i64 = con.query_row(sql, [], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}
