//! `densite replicate DB|DIR URL`

mod messages;
mod metrics;

use crate::args::{Common, ReplicateArgs};
use crate::failure::{Failure, Outcome};
use crate::progress::Bar;
use crate::sqlite;
use densite_disk::wait::Retry;
use densite_tools::Progress;
use densite_tools::replica::{Replicas, ReplicateOptions, shown};
use messages::Told;
use metrics::Metrics;
use serde_json::json;
use std::time::Duration;

/// The object of a replica that names its generations.
pub(super) const HEAD: &str = "head";

/// How often the wait for the next round looks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Refuses a file in the place of the replica, above all if the replica was named first.
fn in_order(args: &ReplicateArgs) -> Result<(), Failure> {
    if !args.url.is_file() {
        return Ok(());
    }
    let (db, url) = (shown(&args.db), args.url.display());
    let db = db.display();
    let is_replica = args.db.to_string_lossy().contains("://") || args.db.join(HEAD).is_file();
    let text = match is_replica {
        true => format!("{db} is a replica; name the database first: densite replicate {url} {db}"),
        false => format!(
            "{url} is a file, and not a directory or s3://BUCKET/PREFIX, where replicas are; choose another name"
        ),
    };
    Err(Failure::Other("usage", 2, text, json!({})))
}

pub(crate) fn run(common: Common, args: &ReplicateArgs) -> Outcome {
    let api = sqlite::api()?;
    let options = ReplicateOptions {
        retain: args.retain,
        base_every: args.base_every,
        takeover: args.takeover,
    };
    in_order(args)?;
    let mut replicas = Replicas::new(api, &args.db, &args.url, options)?;
    let mut bar = Bar::interruptible(common)?;
    let mut told = Told::new(common, args.log_level);
    let mut metrics = Metrics::new(args.metrics.as_deref())?;
    // The last one of a database of several that is not shipped any more.
    let mut failed = None;
    loop {
        let interval = Retry::within(args.interval).every(LOOK);
        let is_last = args.once || bar.cancelled();
        // The last round ships what was committed before the signal, even if time stamps do not
        // show it.
        let results = match is_last {
            true => replicas.thorough_round(&mut Bar::new(common))?,
            false => replicas.round(&mut bar)?,
        };
        if replicas.is_directory() && replicas.figures().next().is_none() {
            told.nothing(&mut bar, &args.db);
        }
        told.round(&results);
        for result in results {
            let Some(error) = told.tell(&mut bar, result, is_last) else {
                continue;
            };
            if !replicas.is_directory() {
                told.metrics(&mut bar, metrics.write(replicas.figures(), true));
                return Err(error.into());
            }
            if !is_last {
                told.ended(&mut bar, &error);
            }
            failed = Some(error);
        }
        told.metrics(&mut bar, metrics.write(replicas.figures(), is_last));
        if is_last {
            return match told.failed().or(failed) {
                Some(error) => Err(error.into()),
                None => Ok(0),
            };
        }
        while !bar.cancelled() && interval.again() {
            told.metrics(&mut bar, metrics.write(replicas.figures(), false));
        }
    }
}
