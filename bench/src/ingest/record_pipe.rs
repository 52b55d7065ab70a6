//! Reports of a writing process to the one that measures: records of fixed size through a pipe,
//! each sent as soon as it is true.

use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::result::{About as _, Failure, Result};

const LEN: usize = 32;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Everything is open; the clock of the records starts here
    Ready = 1,
    /// A transaction was acknowledged
    Acknowledged = 2,
    /// A bare sync ended
    Bare = 3,
    /// A query was answered
    Read = 4,
    /// The writers have stopped
    Done = 5,
}

/// One report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) thread: u16,
    /// Number of the transaction in its thread.
    pub(super) number: u32,
    /// Time since [`Kind::Ready`].
    pub(super) at: Duration,
    /// Time of the whole operation, from its due time (including waits for other threads) to its
    /// end.
    pub(super) took: Duration,
    /// Time of COMMIT, which is part of `took`.
    pub(super) commit: Duration,
}

impl Record {
    fn encode(&self) -> [u8; LEN] {
        let nanos = |d: Duration| {
            u64::try_from(d.as_nanos())
                .unwrap_or(u64::MAX)
                .to_le_bytes()
        };
        let mut out = [0; LEN];
        let fields: [&[u8]; 6] = [
            &(self.kind as u16).to_le_bytes(),
            &self.thread.to_le_bytes(),
            &self.number.to_le_bytes(),
            &nanos(self.at),
            &nanos(self.took),
            &nanos(self.commit),
        ];
        for (to, from) in out.iter_mut().zip(fields.concat()) {
            *to = from;
        }
        out
    }

    fn decode(bytes: &[u8; LEN]) -> Option<Record> {
        let number = |from: usize, len: usize| {
            let field = bytes.get(from..from + len).unwrap_or_default();
            field.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b))
        };
        let kinds = [
            Kind::Ready,
            Kind::Acknowledged,
            Kind::Bare,
            Kind::Read,
            Kind::Done,
        ];
        Some(Record {
            kind: kinds.into_iter().find(|k| *k as u64 == number(0, 2))?,
            thread: number(2, 2) as u16,
            number: number(4, 4) as u32,
            at: Duration::from_nanos(number(8, 8)),
            took: Duration::from_nanos(number(16, 8)),
            commit: Duration::from_nanos(number(24, 8)),
        })
    }

    /// The next record of a stream. `None` at its end, and if a killed process left an incomplete
    /// record.
    pub(super) fn read(from: &mut impl Read) -> Result<Option<Record>> {
        let mut bytes = [0; LEN];
        match from.read_exact(&mut bytes) {
            Ok(()) => Record::decode(&bytes)
                .map(Some)
                .ok_or_else(|| Failure("a writing process sent an unknown record".into())),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
            Err(e) => Err(e).about("read from", Path::new("a writing process")),
        }
    }
}

/// The writing end of the pipe, which the threads of a process share.
#[derive(Clone)]
pub(super) struct Pipe(Arc<Mutex<File>>);

impl Pipe {
    /// The standard output, without the standard library's buffer.
    pub(super) fn stdout() -> Result<Pipe> {
        let fd = std::io::stdout().as_fd().try_clone_to_owned();
        let fd = fd.about("use", Path::new("the standard output"))?;
        Ok(Pipe(Arc::new(Mutex::new(File::from(fd)))))
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(bytes)
            .about("write to", Path::new("the pipe"))
    }
}

/// Sends the records of one thread.
pub(super) struct RecordSender {
    pipe: Pipe,
    /// How long a record can wait for others. Zero if the process is killed, because then
    /// acknowledgements are counted.
    patience: Duration,
    sent_at: Instant,
    waiting: Vec<u8>,
}

impl RecordSender {
    pub(super) fn new(pipe: Pipe, patience: Duration) -> RecordSender {
        RecordSender {
            pipe,
            patience,
            sent_at: Instant::now(),
            waiting: Vec::new(),
        }
    }

    pub(super) fn send(&mut self, record: &Record) -> Result<()> {
        self.waiting.extend(record.encode());
        if self.sent_at.elapsed() >= self.patience {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Sends all waiting records.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.sent_at = Instant::now();
        self.pipe.write(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_an_incomplete_record_ends_the_stream() {
        let record = Record {
            kind: Kind::Bare,
            thread: 7,
            number: 70_000,
            at: Duration::from_secs(20),
            took: Duration::from_nanos(12_345_678_901),
            commit: Duration::from_micros(3),
        };
        let bytes = record.encode();
        assert_eq!(
            Record::read(&mut bytes.as_slice()).expect("it reads"),
            Some(record)
        );
        let part = bytes.get(..LEN - 1).expect("a part");
        assert_eq!(Record::read(&mut &*part).expect("it reads"), None);
        assert!(Record::read(&mut [9u8; LEN].as_slice()).is_err());
    }
}
