//! Rows that the stream has acknowledged and its server can still lose: the log keeps them for a
//! while, so that they can be sent again. A subscriber of the log holds them.

use densite_log::{Begin, Error, Log, Result, Seq};
use densite_stream::{Durability, SyncInterval};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The name of the subscriber.
pub(crate) const NAME: &str = "densite_stream";
/// How long rows are kept for a server that does not say when it syncs: five times its default.
const UNKNOWN: Duration = Duration::from_secs(600);
/// How often positions are noted.
const EVERY: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Default)]
pub(crate) struct Retained {
    /// How long rows are kept; `None`: the server loses nothing.
    keep: Option<Duration>,
    /// When rows were in the stream, the oldest first.
    sent: VecDeque<(Instant, Seq)>,
}

impl Retained {
    /// For a stream that is as durable as this. Adds the subscriber, or removes it.
    ///
    /// # Errors
    /// The log's.
    pub(crate) fn begin(log: &Log, durability: Durability) -> Result<Retained> {
        let keep = match durability.sync {
            _ if durability.survives_a_power_cut() => None,
            SyncInterval::Every(interval) => Some(2 * interval + Duration::from_secs(60)),
            _ => Some(UNKNOWN),
        };
        let done = match keep {
            Some(_) => log.subscribe(NAME, Begin::Start).map(drop),
            None => log.unsubscribe(NAME),
        };
        match done {
            Ok(()) | Err(Error::SubscriberExists(_) | Error::NoSubscriber(_)) => {}
            Err(e) => return Err(e),
        }
        Ok(Retained {
            keep,
            sent: VecDeque::new(),
        })
    }

    /// Rows up to this one are in the stream now.
    ///
    /// # Errors
    /// The log's.
    pub(crate) fn sent(&mut self, log: &Log, seq: Seq, now: Instant) -> Result<()> {
        let Some(keep) = self.keep else {
            return Ok(());
        };
        let is_due = self.sent.back().is_none_or(|(at, _)| now >= *at + EVERY);
        if !is_due {
            return Ok(());
        }
        self.sent.push_back((now, seq));
        let mut safe = None;
        while let Some((at, seq)) = self.sent.front().copied()
            && now >= at + keep
        {
            self.sent.pop_front();
            safe = Some(seq);
        }
        match safe {
            Some(seq) => log.ack(NAME, seq).map(drop),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_disk::RealDir;
    use densite_log::{Batch, LogId, Op, Options, Table, Txn, Value};
    use std::sync::Arc;

    fn log(dir: &std::path::Path) -> Log {
        let mut options = Options::new(LogId([1; 16]));
        options.create = true;
        let log = Log::open(Arc::new(RealDir::new(dir)), options).expect("a log");
        let table = Table::new("t", ["a"], 0, []).expect("a table");
        for i in 0..10 {
            let mut batch = Batch::new(&table, Op::Insert);
            batch.push(&[Value::Int(i)]).expect("a row");
            let txn = Txn::of(log.new_txn(), &batch).expect("a transaction");
            log.append(txn).expect("appended");
        }
        log
    }

    #[test]
    fn rows_are_kept_as_long_as_the_server_can_lose_them() {
        let dir = tempfile::tempdir().expect("a folder");
        let log = log(dir.path());
        let minute = Duration::from_secs(60);
        let unsafe_server = Durability {
            replicas: 1,
            sync: SyncInterval::Every(minute),
        };
        let mut retained = Retained::begin(&log, unsafe_server).expect("a subscriber");
        let begun = Instant::now();
        let mut at = |minutes: u32, seq| {
            let sent = retained.sent(&log, seq, begun + minutes * minute);
            sent.expect("noted");
            log.position_of(NAME).expect("a subscriber")
        };
        assert_eq!([at(0, 4), at(1, 6), at(2, 8)], [0, 0, 0]);
        assert_eq!(
            [at(3, 8), at(4, 9)],
            [4, 6],
            "after two intervals and a minute"
        );
        // It goes on where it was.
        Retained::begin(&log, unsafe_server).expect("it is known");
        assert_eq!(log.position_of(NAME).expect("a subscriber"), 6);
        let safe = Durability {
            replicas: 3,
            ..unsafe_server
        };
        Retained::begin(&log, safe).expect("it is removed");
        assert!(log.position_of(NAME).is_err());
    }
}
