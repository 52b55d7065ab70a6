//! The file of a stream: making it, opening it, its end word and single records.

use crate::format::{self, End, Header, NoHeader, RECORD_LEN, RECORDS, RecordHead};
use densite_disk::{Dir, ErrorKind, File, OpenMode, SyncKind};
use densite_stream::{Error, Identity, Message, Result};

/// The name of the file.
pub(crate) const NAME: &str = "stream";
/// The name of one that is not whole yet.
const NEW: &str = "stream.new";
/// How often a reader reads the end word while others write it.
const TRIES: u32 = 5;

/// Where the messages of a new file come from.
pub(crate) trait Source {
    /// The sequence of the last message.
    fn last(&self) -> u64;
    /// One message.
    fn message(&self, sequence: u64) -> Result<Message>;
}

/// An open file.
pub(crate) struct StreamFile {
    file: Box<dyn File>,
    header: Header,
    seed: u64,
}

impl StreamFile {
    /// Makes the file, in the place of one that exists. Its name is not durable yet. It begins with the messages of `source`
    /// from the first sequence of the header on.
    pub(crate) fn make(dir: &dyn Dir, header: Header, source: Option<&dyn Source>) -> Result<()> {
        let file = dir.open(NEW, OpenMode::Create).map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        let seed = header.seed();
        file.write_at(&header.encode(), 0).map_err(failed)?;
        let mut end = End {
            offset: RECORDS,
            last: header.first - 1,
            seed,
        };
        let last = source.map_or(0, Source::last);
        for sequence in header.first..=last {
            let message = source.map(|source| source.message(sequence)).transpose()?;
            let Some(message) = message else { break };
            let (bytes, sum) = format::encode(&message, end.seed);
            file.write_at(&bytes, end.offset).map_err(failed)?;
            end = End {
                offset: end.offset + bytes.len() as u64,
                last: sequence,
                seed: sum,
            };
        }
        file.write_at(&end.encode(seed), format::END_OFFSET)
            .map_err(failed)?;
        file.sync(SyncKind::Full).map_err(failed)?;
        dir.rename(NEW, NAME).map_err(failed)
    }

    /// Opens the file. With `expected`, it has to be the same stream.
    pub(crate) fn open(dir: &dyn Dir, expected: Option<Identity>) -> Result<StreamFile> {
        let changed = |expected, found| Error::IdentityChanged { expected, found };
        let file = match (dir.open(NAME, OpenMode::Write), expected) {
            (Err(e), Some(expected)) if e.kind == ErrorKind::NotFound => {
                return Err(changed(expected, None));
            }
            (file, _) => file.map_err(failed)?,
        };
        let mut bytes = [0; format::HEADER_LEN];
        let len = file.read_at(&mut bytes, 0).map_err(failed)?;
        let header = Header::decode(&bytes[..len]).map_err(|e| match e {
            NoHeader::Newer(found) => Error::Refused(format!(
                "stream format version {found} is newer than {}, the newest this program reads; use a newer Densite",
                format::VERSION
            )),
            NoHeader::Damaged => damaged(0, "not the header of a stream"),
        })?;
        match expected {
            Some(expected) if expected != header.identity => {
                Err(changed(expected, Some(header.identity)))
            }
            _ => Ok(StreamFile {
                file,
                seed: header.seed(),
                header,
            }),
        }
    }

    pub(crate) fn header(&self) -> Header {
        self.header
    }

    /// Where the records begin.
    pub(crate) fn start(&self) -> End {
        End {
            offset: RECORDS,
            last: self.header.first - 1,
            seed: self.seed,
        }
    }

    /// Whether its name still leads to it.
    pub(crate) fn is_named(&self, dir: &dyn Dir) -> Result<bool> {
        let named = dir.identity(NAME).map_err(failed)?;
        Ok(named == Some(self.file.identity().map_err(failed)?))
    }

    /// The end word; `None` if a power cut tore it.
    pub(crate) fn end(&self) -> Result<Option<End>> {
        for _ in 0..TRIES {
            let mut bytes = [0; format::END_LEN];
            let read = self.file.read_at(&mut bytes, format::END_OFFSET);
            read.map_err(failed)?;
            if let Some(end) = End::decode(&bytes, self.seed) {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// The record behind an end, and the end behind it; `None` if there is no whole one.
    pub(crate) fn record(&self, at: End) -> Result<Option<(Message, End)>> {
        let mut bytes = [0; RECORD_LEN];
        let len = self.file.read_at(&mut bytes, at.offset).map_err(failed)?;
        let head = RecordHead::decode(&bytes)
            .filter(|head| len == RECORD_LEN && head.sequence == at.last + 1);
        let Some(head) = head else { return Ok(None) };
        let mut body = vec![0; head.body_len()];
        let offset = at.offset + RECORD_LEN as u64;
        if self.file.read_at(&mut body, offset).map_err(failed)? < body.len() {
            return Ok(None);
        }
        let end = End {
            offset: offset + body.len() as u64,
            last: head.sequence,
            seed: head.sum,
        };
        let message = head.message(&bytes, &body, at.seed);
        Ok(message.map(|message| (message, end)))
    }

    /// The sum of the record at an offset.
    pub(crate) fn sum_at(&self, offset: u64) -> Result<u64> {
        let mut bytes = [0; RECORD_LEN];
        let len = self.file.read_at(&mut bytes, offset).map_err(failed)?;
        let head = RecordHead::decode(&bytes).filter(|_| len == RECORD_LEN);
        let head = head.ok_or_else(|| damaged(offset, "not a record"))?;
        Ok(head.sum)
    }

    /// Writes a record behind an end, and returns the end behind it. It is not durable yet.
    pub(crate) fn write(&self, at: End, message: &Message) -> Result<End> {
        let (bytes, seed) = format::encode(message, at.seed);
        let written = self.file.write_at(&bytes, at.offset);
        if written.is_err() {
            self.cut(at);
        }
        written.map_err(failed)?;
        Ok(End {
            offset: at.offset + bytes.len() as u64,
            last: message.sequence,
            seed,
        })
    }

    /// Makes the records between two ends durable, and then visible.
    pub(crate) fn publish(&self, from: End, to: End) -> Result<()> {
        let synced = self.file.sync(SyncKind::Data);
        if synced.is_err() {
            // A later sync that succeeds would not prove that the bytes are on the disk.
            self.cut(from);
        }
        synced.map_err(failed)?;
        let word = to.encode(self.seed);
        self.file
            .write_at(&word, format::END_OFFSET)
            .map_err(failed)
    }

    /// Removes what is behind an end. If this fails, the next appender writes it again.
    fn cut(&self, at: End) {
        let _ = self.file.set_len(at.offset);
    }
}

/// The error of a stream for one of the disk.
pub(crate) fn failed(e: densite_disk::Error) -> Error {
    let text = format!("the stream's directory: {e}");
    match e.kind {
        ErrorKind::Full | ErrorKind::TooManyFiles | ErrorKind::Io => Error::TryAgain(text),
        _ => Error::Refused(text),
    }
}

pub(crate) fn damaged(offset: u64, problem: &'static str) -> Error {
    Error::Refused(format!(
        "the stream is damaged: {NAME}, offset {offset}: {problem}; restore it from a copy"
    ))
}
