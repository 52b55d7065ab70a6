//! What is known of a stream's file: where each message is, and the last one of each origin.

use crate::file::{Source, StreamFile, damaged, failed};
use crate::format::{End, Header};
use densite_disk::Dir;
use densite_stream::{Error, Extent, Message, Name, Position, Result, Take};
use std::collections::BTreeMap;
use std::time::SystemTime;

pub(crate) struct Known {
    file: StreamFile,
    /// Whether its name is known to be durable: a process can be killed behind the rename.
    is_name_durable: bool,
    /// The offset of each message, from the first one on.
    offsets: Vec<u64>,
    last: BTreeMap<Name, u64>,
    end: End,
}

impl Known {
    /// What the records up to the end word say.
    ///
    /// # Errors
    /// [`Error::Refused`] if one of them is not whole.
    pub(crate) fn of(file: StreamFile) -> Result<Known> {
        let mut known = Known {
            end: file.start(),
            file,
            is_name_durable: false,
            offsets: Vec::new(),
            last: BTreeMap::new(),
        };
        known.follow()?;
        Ok(known)
    }

    pub(crate) fn header(&self) -> Header {
        self.file.header()
    }

    pub(crate) fn is_named(&self, dir: &dyn Dir) -> Result<bool> {
        self.file.is_named(dir)
    }

    /// Reads the records that other processes published.
    pub(crate) fn follow(&mut self) -> Result<()> {
        let Some(end) = self.file.end()? else {
            return Ok(());
        };
        while self.end.offset < end.offset {
            let at = self.end;
            let (message, behind) = self
                .file
                .record(at)?
                .ok_or_else(|| damaged(at.offset, "a record that was acknowledged is not whole"))?;
            self.note(&message.origin, behind);
        }
        Ok(())
    }

    /// Makes durable what a killed process did not: the name, and records that it wrote and did not
    /// publish. Only under the lock.
    pub(crate) fn settle(&mut self, dir: &dyn Dir) -> Result<()> {
        if !self.is_name_durable {
            dir.sync().map_err(failed)?;
            self.is_name_durable = true;
        }
        let from = self.end;
        let mut to = from;
        let mut found = Vec::new();
        while let Some((message, behind)) = self.file.record(to)? {
            // Its sync can have failed, so these bytes must be written again to be synced.
            to = self.file.write(to, &message)?;
            found.push((message.origin, behind));
        }
        if from != to {
            self.file.publish(from, to)?;
        }
        for (origin, behind) in found {
            self.note(&origin, behind);
        }
        Ok(())
    }

    fn note(&mut self, origin: &Name, behind: End) {
        self.offsets.push(self.end.offset);
        self.last.insert(origin.clone(), behind.last);
        self.end = behind;
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent {
            first: self.header().first,
            last: self.end.last,
        }
    }

    /// The sequence of an origin's last message; 0 if there is none.
    pub(crate) fn last_of(&self, origin: &Name) -> u64 {
        self.last.get(origin).copied().unwrap_or(0)
    }

    /// Why the messages below a sequence cannot be removed.
    pub(crate) fn needs_below(&self, first: u64, origins: &[Name]) -> Option<String> {
        let last = self.end.last;
        if first > last + 1 {
            return Some(format!("the stream ends at {last}, before {first}"));
        }
        let mut lasts = self.last.iter().filter(|(name, _)| origins.contains(name));
        let (origin, at) = lasts.find(|(_, at)| **at < first)?;
        Some(format!(
            "message {at} has to stay: it is the last one of {origin}"
        ))
    }

    /// Appends a message, durably. Only under the lock.
    pub(crate) fn append(&mut self, origin: &Name, bytes: &[u8]) -> Result<u64> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let message = Message {
            sequence: self.end.last + 1,
            origin: origin.clone(),
            time_ns: now.map_or(0, |now| now.as_nanos() as u64),
            bytes: bytes.to_vec(),
        };
        let behind = self.file.write(self.end, &message)?;
        self.file.publish(self.end, behind)?;
        self.note(origin, behind);
        Ok(message.sequence)
    }

    /// Reads one message.
    pub(crate) fn read(&self, sequence: u64) -> Result<Message> {
        let index = (sequence - self.header().first) as usize;
        let offset = self.offsets[index];
        let seed = match index.checked_sub(1) {
            None => self.file.start().seed,
            Some(before) => self.file.sum_at(self.offsets[before])?,
        };
        let at = End {
            offset,
            last: sequence - 1,
            seed,
        };
        let record = self.file.record(at)?;
        let (message, _) = record.ok_or_else(|| damaged(offset, "a record is not whole"))?;
        Ok(message)
    }

    /// The messages behind a position; none if it is at the end.
    pub(crate) fn read_after(&self, after: Position, take: Take) -> Result<Vec<Message>> {
        let Extent { first, last } = self.extent();
        let diverged = Error::Diverged {
            sequence: after.sequence,
            last,
        };
        if after.sequence > last {
            return Err(diverged);
        }
        if after.sequence + 1 < first {
            return Err(Error::Lost {
                wanted: after.sequence + 1,
                first,
            });
        }
        if after.sequence >= first && self.read(after.sequence)?.position() != after {
            return Err(diverged);
        }
        let (mut found, mut bytes) = (Vec::new(), 0);
        for sequence in after.sequence + 1..=last {
            if found.len() >= take.messages {
                break;
            }
            let message = self.read(sequence)?;
            bytes += message.bytes.len();
            if bytes > take.bytes && !found.is_empty() {
                break;
            }
            found.push(message);
        }
        Ok(found)
    }
}

impl Source for Known {
    fn last(&self) -> u64 {
        self.end.last
    }

    fn message(&self, sequence: u64) -> Result<Message> {
        self.read(sequence)
    }
}
