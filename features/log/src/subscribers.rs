//! Named, durable positions: the log keeps rows that a subscriber has not acknowledged.

use crate::log::Log;
use crate::state::{DROPPED, State, check_name};
use crate::{Error, Result, Seq};

/// Names with this beginning are of the layers above. Such a subscriber is never dropped.
const OWN: &str = "densite_";

/// Where a new subscriber begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// With the first row that is still in the log.
    Start,
    /// Behind the last row that can be read. If a transaction is being committed, rows behind it
    /// that are already appended come first.
    Now,
}

/// One subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// Its name.
    pub name: String,
    /// The last row it acknowledged.
    pub position: Seq,
    /// Number of rows behind that position.
    pub rows_behind: u64,
    /// Bytes that those rows take in the log.
    pub bytes_behind: u64,
}

fn position_of<'a>(state: &'a mut State, name: &str) -> Result<&'a mut Seq> {
    match state.subscribers.get_mut(name) {
        Some(position) if *position == DROPPED => Err(Error::Dropped(name.to_owned())),
        position => position.ok_or_else(|| Error::NoSubscriber(name.to_owned())),
    }
}

impl Log {
    /// Adds a subscriber, durably. Returns its position. One of this name that was dropped begins
    /// again.
    ///
    /// # Errors
    /// `BadName`, `SubscriberExists`; `Full`, `Io`, `Damaged`.
    pub fn subscribe(&self, name: &str, from: Begin) -> Result<Seq> {
        check_name(name)?;
        let shared = &self.shared;
        shared.may_write()?;
        // Under the state lock, so that its first rows are not pruned meanwhile.
        shared.dir.with_state(|state| {
            let known = state.subscribers.get(name);
            if known.is_some_and(|position| *position != DROPPED) {
                return Err(Error::SubscriberExists(name.to_owned()));
            }
            let position = match from {
                Begin::Start => shared.dir.first_seq()? - 1,
                Begin::Now => shared.visible()?.last,
            };
            state.subscribers.insert(name.to_owned(), position);
            Ok((position, true))
        })
    }

    /// Acknowledges all rows up to this one, durably. A position never goes back: an older row
    /// changes nothing. Returns the position.
    ///
    /// # Errors
    /// `NoSubscriber`, `Dropped`, `AckBeyondEnd`; `Full`, `Io`, `Damaged`.
    pub fn ack(&self, name: &str, seq: Seq) -> Result<Seq> {
        self.shared.may_write()?;
        let last = self.shared.visible()?.last;
        self.shared.dir.with_state(|state| {
            let position = position_of(state, name)?;
            if seq > last {
                return Err(Error::AckBeyondEnd { seq, last });
            }
            let moves = seq > *position;
            *position = seq.max(*position);
            Ok((*position, moves))
        })
    }

    /// Removes a subscriber, durably. No rows are kept for it any more.
    ///
    /// # Errors
    /// `NoSubscriber`; `Full`, `Io`, `Damaged`.
    pub fn unsubscribe(&self, name: &str) -> Result<()> {
        self.shared.may_write()?;
        self.shared.dir.with_state(|state| {
            let removed = state.subscribers.remove(name);
            removed.ok_or_else(|| Error::NoSubscriber(name.to_owned()))?;
            Ok(((), true))
        })
    }

    /// The position of a subscriber.
    ///
    /// # Errors
    /// `NoSubscriber`, `Dropped`; `Io`, `Damaged`.
    pub fn position_of(&self, name: &str) -> Result<Seq> {
        position_of(&mut self.shared.dir.state()?, name).copied()
    }

    /// Drops subscribers for which more is kept than the settings allow. Returns whether there are
    /// any.
    pub(crate) fn drop_slow(&self, state: &mut State) -> Result<bool> {
        let limit = state.config.max_retained_bytes;
        let mut has_dropped = false;
        for (name, position) in &mut state.subscribers {
            let is_own = name.starts_with(OWN);
            if limit > 0 && !is_own && *position != DROPPED && self.bytes_after(*position)? > limit
            {
                *position = DROPPED;
                has_dropped = true;
            }
        }
        Ok(has_dropped)
    }

    /// All subscribers that were not dropped, by name.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub fn subscribers(&self) -> Result<Vec<Subscriber>> {
        let last = self.shared.visible()?.last;
        let state = self.shared.dir.state()?;
        let subscriber = |(name, position): (&String, &Seq)| {
            Ok(Subscriber {
                name: name.clone(),
                position: *position,
                rows_behind: last.saturating_sub(*position),
                bytes_behind: self.bytes_after(*position)?,
            })
        };
        let kept = state.subscribers.iter();
        kept.filter(|(_, position)| **position != DROPPED)
            .map(subscriber)
            .collect()
    }

    /// The names of subscribers that were dropped and have not come back.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub fn dropped_subscribers(&self) -> Result<Vec<String>> {
        let state = self.shared.dir.state()?;
        let all = state.subscribers.into_iter();
        let dropped = all.filter(|(_, position)| *position == DROPPED);
        Ok(dropped.map(|(name, _)| name).collect())
    }
}
