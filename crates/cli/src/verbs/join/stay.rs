//! `densite join --stay`: a member without another program. It applies rows of the others and sends
//! its own, until a signal.

use super::{Database, Known};
use crate::args::{Common, JoinArgs};
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::progress::Bar;
use crate::sql::failure::other;
use densite_tools::Progress;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// How often it looks for a signal.
const SIGNAL: Duration = Duration::from_millis(50);
/// How often it looks into the database.
const LOOK: Duration = Duration::from_secs(1);
/// How often it asks for trouble while rows come or are sent.
const BUSY: Duration = Duration::from_secs(2);
/// The same while nothing happens. Each time is a request to the server.
const IDLE: Duration = Duration::from_secs(60);
/// How often it asks at that pace at first: the member reads the stream before it notices a loss.
const FIRST: u32 = 5;
/// How long it waits at its end until the stream has the rows of the log, seconds.
const LAST: u32 = 5;

pub(super) fn run(
    common: Common,
    args: &JoinArgs,
    database: Database,
    settings: &Map<String, Value>,
) -> Outcome {
    let mut bar = Bar::interruptible(common)?;
    let origin = match database.goes_on(args, settings)? {
        Some(origin) => origin,
        None => database.join(args, settings)?,
    };
    let told = Told { common, args };
    told.event(
        &format!("{} is the member {origin}", args.db.display()),
        json!({ "event": "joined", "origin": origin }),
    );
    let mut watch = Watch::default();
    while !bar.cancelled() {
        let looked = watch.look(&database, &told);
        // A lock of another connection passes.
        if let Err(e) = looked
            && !matches!(e, Failure::Other("locked", ..))
        {
            return Err(e);
        }
        let begun = Instant::now();
        while begun.elapsed() < LOOK && !bar.cancelled() {
            std::thread::sleep(SIGNAL);
        }
    }
    if watch.trouble.is_none() {
        database.send_the_rest();
    }
    database.close()?;
    Ok(0)
}

/// What the user was told.
#[derive(Default)]
struct Watch {
    trouble: Option<String>,
    /// When it last asked for trouble, and how far the member was then.
    asked: Option<Instant>,
    seen: (i64, i64),
    /// How often it has asked.
    times: u32,
}

impl Watch {
    /// Tells what has changed.
    fn look(&mut self, database: &Database, told: &Told<'_>) -> Result<(), Failure> {
        let Some(known) = database.known()? else {
            let name = &database.name;
            return Err(other(format!("{name}: the database has left its stream")));
        };
        known.may_go_on(&database.name)?;
        let now = database.progress()?;
        let is_idle = now == self.seen && self.trouble.is_none() && self.times >= FIRST;
        let pause = if is_idle { IDLE } else { BUSY };
        if self.asked.is_some_and(|asked| asked.elapsed() < pause) {
            return Ok(());
        }
        let trouble = database.trouble()?;
        (self.asked, self.seen) = (Some(Instant::now()), now);
        self.times = self.times.saturating_add(1);
        if trouble != self.trouble {
            told.trouble(trouble.as_deref());
            self.trouble = trouble;
        }
        Ok(())
    }
}

impl Known {
    /// # Errors
    /// An error if the member has stopped: to go on is a decision of the user.
    fn may_go_on(&self, name: &str) -> Result<(), Failure> {
        match self.stopped.is_empty() {
            true => Ok(()),
            false => Err(other(format!(
                "{name}: this member of the stream has stopped: {}; see the guide (docs/guides/cluster.md), and join with --right if this one is right",
                self.stopped
            ))),
        }
    }
}

impl Database {
    /// The name of a member that has the same address and settings, and is at work. It needs no
    /// server, so a service starts while that is away.
    fn goes_on(
        &self,
        args: &JoinArgs,
        settings: &Map<String, Value>,
    ) -> Result<Option<String>, Failure> {
        let changes = args.moved || args.discard || args.after_loss || args.right;
        let Some(known) = self.known()?.filter(|_| !changes) else {
            return Ok(None);
        };
        known.may_go_on(&self.name)?;
        let is_same = known.address == args.address && known.settings == *settings;
        // An error if this is a copy.
        let at_work = "SELECT densite_wait(0, 'stream', 0)";
        let is_at_work = is_same && self.db.query_row(at_work, [], |_| Ok(())).is_ok();
        Ok(is_at_work.then_some(known.origin))
    }

    /// The last row of the log, and the last message that was applied.
    fn progress(&self) -> Result<(i64, i64), Failure> {
        let sql = "SELECT densite_log_last(), stream_message FROM main.densite_applied";
        let found = self
            .db
            .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
        found.map_err(|e| self.failed(e))
    }

    /// Why rows do not come or are not sent.
    fn trouble(&self) -> Result<Option<String>, Failure> {
        let sql = "SELECT max(trouble) FROM densite_stream_status()";
        let found = self.db.query_row(sql, [], |row| row.get(0));
        found.map_err(|e| self.failed(e))
    }

    /// Waits for the rows of the log. They stay there if that fails.
    fn send_the_rest(&self) {
        let sql = "SELECT densite_wait(densite_log_last(), 'stream', ?1)";
        self.db.query_row(sql, [LAST], |_| Ok(())).ok();
    }
}

/// Lines on stderr, or events on stdout.
struct Told<'a> {
    common: Common,
    args: &'a JoinArgs,
}

impl Told<'_> {
    fn trouble(&self, trouble: Option<&str>) {
        let db = self.args.db.display();
        match trouble {
            Some(why) => self.event(
                &format!("{db}: {why}; it is tried again"),
                json!({ "event": "failed", "message": why }),
            ),
            None => self.event(
                &format!("{db}: rows come and are sent again"),
                json!({ "event": "recovered" }),
            ),
        }
    }

    fn event(&self, text: &str, mut event: Value) {
        event["database"] = json!(self.args.db.to_string_lossy());
        match self.common.json {
            // A reader that has gone does not stop a member.
            true => drop(out::event(&event)),
            false => out::message(self.common, text),
        }
    }
}
