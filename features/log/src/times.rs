//! About how long rows have been in the log.
//!
//! Records have no time. So before a process appends, it notes the time and the last row of the
//! log, at most once in [`INTERVAL`]. A row behind that one is younger. The file is written in
//! place by several processes without a lock, and one can overwrite the note of another: both are
//! from before an append, so each row keeps a note from shortly before it. Older notes are thinned
//! out, so an age is at most an eighth and [`INTERVAL`] too high.

use crate::files::{Files, TIMES};
use crate::format::times::{Moment, TIMES_LEN, TIMES_MAX, decode, encode};
use crate::{Result, Seq};
use densite_disk::OpenMode;
use densite_disk::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// A process notes the time at most this often.
const INTERVAL: Duration = Duration::from_millis(100);
/// Between two notes that stay there is at most this part of their age.
const PART: u64 = 8;
/// How often the file is read again while a process writes it.
const TRIES: u32 = 100;

/// When this process has noted the time.
#[derive(Debug, Default)]
pub(crate) struct Noted(Mutex<Option<Instant>>);

impl Noted {
    /// Whether it is time for a note. If so, it counts as made.
    pub(crate) fn is_due(&self) -> bool {
        let mut noted = self.0.lock();
        let is_due = noted.is_none_or(|at| at.elapsed() >= INTERVAL);
        if is_due {
            *noted = Some(Instant::now());
        }
        is_due
    }
}

impl Files {
    /// Notes that now this is the last row that can be read. It was asked before this call: see
    /// the module.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub(crate) fn note_time(&self, last: Seq) -> Result<()> {
        let mut moments = self.moments()?.unwrap_or_default();
        let millis = now();
        add(&mut moments, Moment { millis, last });
        let file = self.dir.open(TIMES, OpenMode::Create)?;
        file.write_at(&encode(self.id, &moments), 0)?;
        Ok(())
    }

    /// See [`Log::time_waited`](crate::Log::time_waited), for a row that is there.
    ///
    /// # Errors
    /// `Io`, `Damaged`.
    pub(crate) fn time_since(&self, seq: Seq) -> Result<Option<Duration>> {
        let moments = self.moments()?.unwrap_or_default();
        let after = moments.partition_point(|m| m.last <= seq);
        let since = moments.get(after.saturating_sub(1));
        Ok(since.map(|m| Duration::from_millis(now().saturating_sub(m.millis))))
    }

    /// The notes, ascending; `None` if there is no file or no valid one.
    fn moments(&self) -> Result<Option<Vec<Moment>>> {
        let Some(file) = self.open(TIMES, OpenMode::Read)? else {
            return Ok(None);
        };
        let mut bytes = vec![0; TIMES_LEN];
        for _ in 0..TRIES {
            let got = file.read_at(&mut bytes, 0)?;
            let moments = bytes.get(..got).and_then(|b| decode(b, self.id));
            if moments.is_some() {
                return Ok(moments);
            }
            std::thread::yield_now();
        }
        Ok(None)
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX))
}

/// Adds a note, and drops those that are close together for their age.
fn add(moments: &mut Vec<Moment>, new: Moment) {
    // Later rows are of another state of the log. The earlier of two notes with the same row says
    // less.
    moments.retain(|m| m.last < new.last);
    // The clock was set back.
    for moment in &mut *moments {
        moment.millis = moment.millis.min(new.millis);
    }
    let mut kept = vec![new];
    let mut older = moments.iter().rev().peekable();
    while let (Some(moment), Some(next)) = (older.next(), kept.last()) {
        let gap = older.peek().map(|before| next.millis - before.millis);
        if gap.is_none_or(|gap| gap > (new.millis - next.millis) / PART) {
            kept.push(*moment);
        }
    }
    kept.truncate(TIMES_MAX);
    kept.reverse();
    *moments = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64, last: Seq) -> Moment {
        Moment { millis, last }
    }

    /// A row each 100 ms: for each of them the age that the notes give is at most an eighth and one
    /// interval too high, and never too low.
    #[test]
    fn ages_are_at_most_an_eighth_too_high() {
        let mut moments = Vec::new();
        let (begin, step) = (1_000_000, 100);
        for row in 0..20_000 {
            add(&mut moments, at(begin + row * step, row));
            if row % 997 == 0 || row < 20 {
                let now = begin + row * step;
                for seq in 0..row {
                    // Row `seq + 1` was appended right after the note that found `seq`.
                    let age = now - (begin + seq * step);
                    let after = moments.partition_point(|m| m.last <= seq);
                    let said = now - moments[after - 1].millis;
                    assert!(
                        said >= age && said <= age + age / PART + step,
                        "row {seq} of {row}: {said}, and it is {age}"
                    );
                }
            }
        }
        assert!(moments.len() < 150, "{} notes", moments.len());
    }

    #[test]
    fn a_long_time_fits() {
        let mut moments = Vec::new();
        let mut millis = 0;
        // Three weeks, of which the last ones are dense.
        for row in 0..200_000_u64 {
            millis += if row < 100_000 { 18_000 } else { 100 };
            add(&mut moments, at(millis, row));
        }
        assert!(moments.len() < TIMES_MAX, "{} notes", moments.len());
        assert_eq!(moments[0].last, 0);
    }

    #[test]
    fn notes_of_another_past_are_dropped() {
        let mut moments = vec![at(100, 1), at(200, 5), at(300, 9)];
        // An older state of the log was put back, and the clock too.
        add(&mut moments, at(150, 4));
        assert_eq!(moments, [at(100, 1), at(150, 4)]);
        // Without new rows only the time moves on.
        add(&mut moments, at(900, 4));
        assert_eq!(moments, [at(100, 1), at(900, 4)]);
        // The clock was set back: the other notes are not from the future.
        add(&mut moments, at(50, 5));
        assert_eq!(moments, [at(50, 1), at(50, 5)]);
    }
}
