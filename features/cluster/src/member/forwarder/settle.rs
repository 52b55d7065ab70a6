//! Where sending begins: behind what the stream has of this origin.

use super::Forwarder;
use super::settled::Settled;
use crate::member::largest::largest_transaction;
use crate::member::message::{Body, Joined, LastTransaction, NO_LOG};
use crate::member::own_log;
use crate::member::retained::Retained;
use crate::member::sent::Last;
use densite_ingest::parts::OpenLog;
use densite_stream::{Durability, Error, Result, Stream, SyncInterval};
use std::time::Instant;

impl Forwarder {
    /// Finds out what the stream has of this origin.
    pub(super) fn settle(&self, stream: &dyn Stream, open: &OpenLog) -> Result<Settled> {
        let seen = stream.seen()?;
        let max_payload = stream.max_payload()?;
        let durability = match stream.durability() {
            // A monitoring port that is away stops no rows: they are kept longer.
            Err(Error::TryAgain(_)) => Durability {
                replicas: 1,
                sync: SyncInterval::Unknown,
            },
            found => found?,
        };
        *self.retained.lock() = self.of_log(Retained::begin(open.log(), durability))?;
        let last = Last::of(stream, &self.origin)?;
        let Some((_, mut message)) = last.message else {
            let first = stream.extent()?.first;
            if self.applied + 1 < first {
                // It was declared gone, and its messages were removed.
                return Err(Error::Lost {
                    wanted: self.applied + 1,
                    first,
                });
            }
            return Ok(Settled {
                sequence: self.join_again(stream, last.sequence)?,
                to: self.begun,
                last: LastTransaction::default(),
                begun: None,
                max_payload,
                at: Instant::now(),
                seen,
            });
        };
        let refused = |why: String| Err(Error::Refused(why));
        if matches!(message.body, Body::Left) {
            return refused(format!(
                "the stream says that {} has left, so this member sends no rows: `densite join` makes it a member again",
                self.origin
            ));
        }
        if message.log == NO_LOG {
            // The message that named it is removed. Whether this log has these rows is checked.
            message.log = open.id();
        }
        if message.log != open.id() {
            return Err(own_log::older(&self.origin));
        }
        self.shared.own_log.check(&self.origin, &message)?;
        self.of_log(open.log().set_config(|config| {
            config.max_transaction_bytes = largest_transaction(max_payload) as u64;
        }))?;
        Ok(Settled {
            sequence: last.sequence,
            to: message.to,
            last: message.last,
            begun: None,
            max_payload,
            at: Instant::now(),
            seen,
        })
    }

    /// Announces this member once more, because the stream lost all its messages.
    fn join_again(&self, stream: &dyn Stream, expected: u64) -> Result<u64> {
        let joined = Body::Joined(Joined {
            is_empty: false,
            applied: 0,
        });
        let joined = self.message(self.begun, self.begun, LastTransaction::default(), joined)?;
        let sent = self.append(stream, expected, &joined)?;
        sent.ok_or_else(|| {
            Error::TryAgain(format!(
                "the stream has other messages of {} than this process expected",
                self.origin
            ))
        })
    }
}
