//! `densite join --stay`: a member without another program. It applies rows of the others and sends
//! its own, until a signal.

use super::{Database, Known};
use crate::args::{Common, JoinArgs};
use crate::failure::{Failure, Outcome};
use crate::out;
use crate::progress::Bar;
use crate::sql::failure::other;
use densite_disk::wait::Retry;
use densite_tools::Progress;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How often it looks for a signal.
const SIGNAL: Duration = Duration::from_millis(50);
/// How often it looks into the database.
const LOOK: Duration = Duration::from_secs(1);
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
        let interval = Retry::within(LOOK).every(SIGNAL);
        while !bar.cancelled() && interval.again() {}
    }
    let patience = if watch.trouble.is_none() { LAST } else { 0 };
    let unsent = database.send_the_rest(patience);
    database.close()?;
    if unsent > 0 {
        told.unsent(unsent, watch.trouble.as_deref());
    }
    Ok(0)
}

/// What the user was told.
#[derive(Default)]
struct Watch {
    trouble: Option<String>,
}

impl Watch {
    /// Tells what has changed.
    fn look(&mut self, database: &Database, told: &Told<'_>) -> Result<(), Failure> {
        let Some(known) = database.known()? else {
            let name = &database.name;
            return Err(other(format!("{name}: the database has left its stream")));
        };
        known.may_go_on(&database.name)?;
        let trouble = database.trouble()?;
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

    /// Why rows do not come or are not sent. This asks the server nothing.
    fn trouble(&self) -> Result<Option<String>, Failure> {
        let sql = "SELECT densite_stream_trouble()";
        let found = self.db.query_row(sql, [], |row| row.get(0));
        found.map_err(|e| self.failed(e))
    }

    /// Waits until the stream has the rows of the log, for so many seconds. Returns how many it does
    /// not have as far as this member knows. They stay in the log.
    fn send_the_rest(&self, seconds: u32) -> i64 {
        let sql = "SELECT last - densite_wait(last, 'stream', ?1) FROM (SELECT densite_log_last() AS last)";
        let unsent = self.db.query_row(sql, [seconds], |row| row.get(0));
        unsent.unwrap_or_default()
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

    /// It ends although the stream does not have all rows. That is no failure: they are durable.
    fn unsent(&self, rows: i64, trouble: Option<&str>) {
        let when = match trouble {
            Some(why) => format!("until this is mended: {why}"),
            None => "until the member is at work again".to_owned(),
        };
        let why = format!(
            "the stream does not have the last {rows} rows of this member yet; they stay in its log {when}"
        );
        match self.common.json {
            true => self.event(
                "",
                json!({ "event": "unsent", "rows": rows, "message": why }),
            ),
            // Also with `--quiet`: the other members lack them.
            false => out::warning(&format!("{}: {why}", self.args.db.display())),
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
