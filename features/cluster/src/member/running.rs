//! A member at work: what its threads share, in the process that applies.

use super::acknowledged::Acknowledged;
use super::forwarder::Forwarder;
use super::incoming::Incoming;
use super::link::Link;
use super::message::Body;
use super::outbox::Outbox;
use super::own_log::OwnLog;
use super::shared::Shared;
use super::tables::Membership;
use super::troubles::Troubles;
use densite_disk::sync::Mutex;
use densite_disk::wait::pause;
use densite_ingest::parts::{Applying, OpenLog, StreamPlace};
use densite_sqlite::{Code, Error, Result};
use densite_stream::{Extent, Stream};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Pause after a panic of a thread.
const AFTER_PANIC: Duration = Duration::from_millis(500);

/// See the module. Its threads end soon after it is dropped.
pub(crate) struct Running {
    membership: Membership,
    shared: Arc<Shared>,
    compared: Mutex<Compared>,
}

/// When members are asked to compare their tables.
struct Compared {
    /// The last time, or when this process began.
    at: Instant,
    /// Rows were applied since.
    is_old: bool,
}

impl Compared {
    fn at(at: Instant) -> Compared {
        Compared { at, is_old: false }
    }

    /// Whether it is time, which it then notes.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.is_old && now >= self.at + COMPARE_EVERY;
        if is_due {
            *self = Compared::at(now);
        }
        is_due
    }
}

/// Members compare their tables after this time, if rows were applied.
const COMPARE_EVERY: Duration = Duration::from_secs(3600);

impl Running {
    /// Starts the threads of a member at this place.
    ///
    /// # Errors
    /// An error if the threads cannot start or the address is not valid.
    pub(crate) fn start(
        open: &Arc<OpenLog>,
        membership: Membership,
        place: StreamPlace,
    ) -> Result<Running> {
        let access = membership.settings.access()?;
        let weak: Weak<OpenLog> = Arc::downgrade(open);
        let shared = Arc::new(Shared {
            link: Link::new(membership.address()?, access, place.identity),
            incoming: Arc::default(),
            outbox: Outbox::default(),
            troubles: Troubles::default(),
            acknowledged: Acknowledged::default(),
            own_log: OwnLog::new(Weak::clone(&weak)),
        });
        let running = Running {
            membership,
            shared: Arc::clone(&shared),
            compared: Mutex::new(Compared::at(Instant::now())),
        };
        let (reads, rings) = (Arc::clone(&shared), weak.clone());
        spawn("densite-incoming", move || {
            reads.incoming.read(&reads.link, &reads.troubles, || {
                if let Some(open) = rings.upgrade() {
                    open.log().ring();
                }
            });
        })?;
        let forwarder = Forwarder::new(shared, weak, open.id(), &running.membership, place.message);
        spawn("densite-forward", move || forwarder.run())?;
        Ok(running)
    }

    /// The member at work in this process.
    pub(crate) fn at_work(applying: &Applying) -> Option<Arc<Running>> {
        let member: Arc<dyn Any + Send + Sync> = applying.member()?;
        member.downcast().ok()
    }

    /// Rows were applied.
    pub(crate) fn rows_applied(&self) {
        self.compared.lock().is_old = true;
    }

    /// The members compare their tables now.
    pub(crate) fn compares(&self) {
        *self.compared.lock() = Compared::at(Instant::now());
    }

    /// Everything is applied: asks the members to compare if it is time.
    pub(crate) fn compare_if_due(&self) {
        if self.compared.lock().is_due(Instant::now()) {
            self.send(Body::DigestsWanted);
        }
    }

    pub(crate) fn membership(&self) -> &Membership {
        &self.membership
    }

    pub(crate) fn incoming(&self) -> &Arc<Incoming> {
        &self.shared.incoming
    }

    pub(crate) fn acknowledged(&self) -> &Acknowledged {
        &self.shared.acknowledged
    }

    pub(crate) fn own_log(&self) -> &OwnLog {
        &self.shared.own_log
    }

    /// The stream.
    ///
    /// # Errors
    /// The stream's.
    pub(crate) fn stream(&self) -> densite_stream::Result<Arc<dyn Stream>> {
        self.shared.link.stream()
    }

    /// Which messages the stream has.
    ///
    /// # Errors
    /// The stream's.
    pub(crate) fn extent(&self) -> densite_stream::Result<Extent> {
        self.stream()?.extent()
    }

    /// Why rows are not sent or do not come.
    pub(crate) fn troubles(&self) -> &Troubles {
        &self.shared.troubles
    }

    /// Sends a message that has no rows.
    pub(crate) fn send(&self, body: Body) {
        self.shared.outbox.push(body);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.incoming.stop();
        self.shared.outbox.stop();
    }
}

/// Runs a body on a thread of its own. After a panic it begins again: what it has to do is known
/// from the log and the stream.
fn spawn(name: &str, body: impl Fn() + Send + 'static) -> Result<()> {
    let again = move || {
        while catch_unwind(AssertUnwindSafe(&body)).is_err() {
            pause(AFTER_PANIC);
        }
    };
    let spawned = std::thread::Builder::new().name(name.into()).spawn(again);
    spawned.map(drop).map_err(|e| {
        Error::new(
            Code::NOMEM,
            format!("the threads of the member cannot start: {e}; end some programs, or raise the limit of threads (ulimit -u)"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_compare_each_hour_with_rows() {
        let begun = Instant::now();
        let mut compared = Compared::at(begun);
        let hour = |n: u32| begun + n * COMPARE_EVERY;
        assert!(!compared.is_due(hour(2)), "no rows");
        compared.is_old = true;
        assert!(!compared.is_due(begun + COMPARE_EVERY / 2), "too soon");
        assert!(compared.is_due(hour(2)));
        assert!(!compared.is_due(hour(9)), "no rows since");
        compared.is_old = true;
        assert!(compared.is_due(hour(9)));
    }
}
