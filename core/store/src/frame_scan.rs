//! Finds the frames of a damaged file by reading all of it, where slots, commits or the page map
//! cannot be read.
//!
//! Every record carries what it is, and a checksum (docs/FORMAT.md, Records), so records are found
//! from byte to byte. Of the frames of a page the newest counts. Parts of the page map and trailers
//! that are whole say which one that is, so a page whose newest frame is damaged is not replaced by
//! its older content. Where they are lost, an older content, or that of a transaction that was
//! never committed, can be taken: the caller must say so.

use crate::codec::{self, CodecId, Dictionary};
use crate::error::{Damage, Error, Result};
use crate::format::entry::Entry;
use crate::format::header::Header;
use crate::format::record::{Kind, MAX_PAYLOAD, RECORD_LEN, Record, raw_check};
use crate::format::slot::read_preamble;
use crate::format::tip::Tip;
use crate::format::tip::read_tip;
use crate::format::trailer::Trailer;
use crate::format::{DATA_OFF, MAX_COMMIT, UNIT_LEN, slot};
use crate::map::node::Node;
use densite_disk::File;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Bytes that are read at once. Each record fits.
const WINDOW: usize = 2 * MAX_PAYLOAD as usize;
/// The bytes of a file in which [`holds_pages`] looks.
const LOOK: u64 = 4 << 20;
/// Bytes between two calls of the caller's function.
const REPORT_EVERY: u64 = 4 << 20;

/// One frame that holds a page.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    off: u64,
    version: u64,
    raw_check: u32,
    stored_len: u32,
    model: u32,
    codec: u8,
    page_log2: u8,
    run_log2: u8,
    slot: u8,
}

/// What was found in a file.
pub struct Scan {
    salt: Option<u64>,
    page_size: u32,
    pages: u32,
    /// The frames of each page, the newest first.
    frames: HashMap<u32, Vec<Candidate>>,
    /// The newest entry that names a page's frame, and the commit that it is from.
    known: HashMap<u32, (u64, Entry)>,
    /// By their numbers. An attempt at a commit can have left another one of the same number.
    dictionaries: HashMap<u32, Vec<Dictionary>>,
    /// The run that was decoded last, and where it lies.
    last: RefCell<(u64, Vec<u8>)>,
}

impl Scan {
    /// Reads the whole file. `done` gets the bytes that were read, and returns whether to go on.
    /// Returns `None` if it says no.
    ///
    /// # Errors
    /// I/O; [`Error::NotDensite`] if there is no frame.
    pub fn of(file: &dyn File, done: &mut dyn FnMut(u64) -> bool) -> Result<Option<Scan>> {
        let preamble = read_preamble(file)?;
        let newest_slot = slot::choose(&preamble).map(|(_, slot)| slot);
        let salt = match Header::decode(&preamble) {
            Ok(header) => Some(header.salt),
            Err(_) => newest_slot.map(|slot| slot.salt),
        };
        let tip = match salt {
            Some(salt) => Tip::decode(&read_tip(file)?, salt),
            None => None,
        };
        let mut found = Found::new(salt, tip.map_or(MAX_COMMIT, |tip| tip.commit));
        if !found.read(file, file.len()?, done)? {
            return Ok(None);
        }
        if salt.is_none() && !found.retain_whole(file, done)? {
            return Ok(None);
        }
        found.finish().ok_or(Error::NotDensite).map(Some)
    }

    /// Bytes of a page.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Pages of the database.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Reads a page (1 is the first) into `out`, which has the length of a page.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`] if its newest content was not found.
    pub fn read_page(&self, file: &dyn File, page: u32, out: &mut [u8]) -> Result<()> {
        let missing = |problem: &str| {
            Error::Corrupt(Damage {
                what: "frame".to_owned(),
                offset: 0,
                page: Some(page),
                problem: problem.to_owned(),
            })
        };
        let candidates = self.frames.get(&page).map_or(&[][..], Vec::as_slice);
        let newest = candidates.first().map_or(0, |frame| frame.version);
        let wanted = match self.known.get(&page) {
            Some((as_of, entry)) if *as_of >= newest => {
                if entry.is_none() {
                    out.fill(0);
                    return Ok(());
                }
                entry.version
            }
            _ if candidates.is_empty() => return Err(missing("no frame of it was found")),
            _ => newest,
        };
        let mut last = self.last.borrow_mut();
        for frame in candidates.iter().filter(|frame| frame.version == wanted) {
            if last.0 != frame.off {
                *last = match frame.decode(file, self.salt, &self.dictionaries)? {
                    Some(run) => (frame.off, run),
                    None => continue,
                };
            }
            let begin = out.len() * usize::from(frame.slot);
            if let Some(page) = last.1.get(begin..begin + out.len()) {
                out.copy_from_slice(page);
                return Ok(());
            }
        }
        Err(missing("its newest frame is damaged"))
    }
}

impl Candidate {
    /// The pages of its run; `None` if they do not match their check.
    fn decode(
        &self,
        file: &dyn File,
        salt: Option<u64>,
        dictionaries: &HashMap<u32, Vec<Dictionary>>,
    ) -> Result<Option<Vec<u8>>> {
        let mut stored = vec![0; RECORD_LEN + self.stored_len as usize];
        let read = file.read_at(&mut stored, self.off)?;
        // Since the scan, another process can have written there.
        let is_same = match salt {
            Some(salt) => Record::open(&stored, salt, self.off).is_some(),
            None => true,
        };
        if read < stored.len() || !is_same {
            return Ok(None);
        }
        let payload = stored.get(RECORD_LEN..).unwrap_or_default();
        let mut raw = vec![0; 1 << (u32::from(self.page_log2) + u32::from(self.run_log2))];
        let mut decodes = |dict: Option<&Dictionary>| {
            codec::decode(CodecId(self.codec), payload, dict, &mut raw).is_ok()
                && raw_check(&raw) == self.raw_check
        };
        let is_right = match self.model {
            0 => decodes(None),
            id => {
                let mut same = dictionaries.get(&id).into_iter().flatten();
                same.any(|dict| decodes(Some(dict)))
            }
        };
        Ok(is_right.then_some(raw))
    }
}

/// What is collected while the file is read.
struct Found {
    salt: Option<u64>,
    /// The newest commit that was published, as far as that is known.
    published: u64,
    frames: HashMap<u32, Vec<Candidate>>,
    known: HashMap<u32, (u64, Entry)>,
    dictionaries: HashMap<u32, Vec<Dictionary>>,
    /// Of the newest trailer: its commit, the page size, the length of the database.
    trailer: Option<(u64, u32, u64)>,
}

impl Found {
    fn new(salt: Option<u64>, published: u64) -> Found {
        Found {
            salt,
            published,
            frames: HashMap::new(),
            known: HashMap::new(),
            dictionaries: HashMap::new(),
            trailer: None,
        }
    }

    /// Reads the first `len` bytes. Returns false if `done` says no.
    fn read(
        &mut self,
        file: &dyn File,
        len: u64,
        done: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let mut window = Window {
            file,
            len,
            begin: 0,
            bytes: Vec::new(),
        };
        let (mut off, mut reported) = (DATA_OFF, 0);
        while off + RECORD_LEN as u64 <= len {
            if off - reported >= REPORT_EVERY {
                reported = off;
                if !done(off) {
                    return Ok(false);
                }
            }
            let record = Record::parse(window.at(off, RECORD_LEN)?).map(|(record, _)| record);
            let record = record.filter(|record| self.is_plausible(record));
            if let Some(record) = record {
                let total = record.total_len() as usize;
                // Without the salt, a record counts if another one can follow. New ones can lie
                // where an old one ended before, so these are looked for, too.
                let bytes = window.at(off, total + RECORD_LEN)?;
                let (stored, after) = bytes.split_at(total.min(bytes.len()));
                let is_whole = match self.salt {
                    Some(salt) => Record::open(stored, salt, off).is_some(),
                    None => stored.len() == total && can_follow(after, off + total as u64),
                };
                if is_whole {
                    let payload = stored.get(RECORD_LEN..).unwrap_or_default();
                    self.take(off, &record, payload);
                    if self.salt.is_some() {
                        off += total as u64;
                        continue;
                    }
                }
            }
            off += 1;
        }
        done(len);
        Ok(true)
    }

    /// Whether a writer can have made such a record.
    fn is_plausible(&self, record: &Record) -> bool {
        let fits_frame = || {
            record.number > 0
                && CodecId::ALL.contains(&CodecId(record.codec))
                && record.stored_len
                    <= 1 << (u32::from(record.page_log2) + u32::from(record.run_log2))
        };
        record.version <= self.published && (record.kind != Kind::Frame || fits_frame())
    }

    fn take(&mut self, off: u64, record: &Record, payload: &[u8]) {
        match record.kind {
            Kind::Frame => {
                for slot in 0..1u8 << record.run_log2 {
                    let Some(page) = record.number.checked_add(slot.into()) else {
                        return;
                    };
                    self.frames.entry(page).or_default().push(Candidate {
                        off,
                        version: record.version,
                        raw_check: record.raw_check,
                        stored_len: record.stored_len,
                        model: record.model,
                        codec: record.codec,
                        page_log2: record.page_log2,
                        run_log2: record.run_log2,
                        slot,
                    });
                }
            }
            Kind::Node if record.page_log2 == 0 => {
                let mut raw = vec![0; Node::raw_len(0)];
                if codec::decode(CodecId(record.codec), payload, None, &mut raw).is_ok()
                    && raw_check(&raw) == record.raw_check
                    && let Some(Node::Leaf(entries)) = Node::decode(0, &raw)
                {
                    for (page, entry) in (record.number.saturating_add(1)..).zip(entries.iter()) {
                        self.note(page, record.version, *entry);
                    }
                }
            }
            Kind::Dictionary => {
                let dictionary =
                    Dictionary::from_stored(record.number, CodecId(record.codec), payload);
                let same = self.dictionaries.entry(record.number).or_default();
                same.push(dictionary);
            }
            Kind::Trailer => {
                if let Some((trailer, _)) = Trailer::decode(payload) {
                    for (page, entry) in &trailer.deltas {
                        self.note(*page, trailer.commit, *entry);
                    }
                    let newest = self.trailer.map_or(0, |(commit, ..)| commit);
                    if trailer.commit > newest && trailer.page_size > 0 {
                        self.trailer =
                            Some((trailer.commit, trailer.page_size, trailer.logical_len));
                    }
                }
            }
            Kind::Node | Kind::Space | Kind::Jump => {}
        }
    }

    fn note(&mut self, page: u32, as_of: u64, entry: Entry) {
        let known = self.known.entry(page).or_insert((as_of, entry));
        if as_of > known.0 {
            *known = (as_of, entry);
        }
    }

    /// Keeps only the frames whose content matches its check. Returns false if `done` says no.
    fn retain_whole(&mut self, file: &dyn File, done: &mut dyn FnMut(u64) -> bool) -> Result<bool> {
        let len = file.len()?;
        let mut all: Vec<Candidate> = self.frames.values().flatten().copied().collect();
        all.sort_unstable_by_key(|frame| frame.off);
        all.dedup_by_key(|frame| frame.off);
        let mut whole = HashSet::new();
        for (number, frame) in all.iter().enumerate() {
            if frame.decode(file, None, &self.dictionaries)?.is_some() {
                whole.insert(frame.off);
            }
            if number % 1024 == 0 && !done(len) {
                return Ok(false);
            }
        }
        for frames in self.frames.values_mut() {
            frames.retain(|frame| whole.contains(&frame.off));
        }
        self.frames.retain(|_, frames| !frames.is_empty());
        Ok(true)
    }

    /// `None` if there is no frame.
    fn finish(mut self) -> Option<Scan> {
        let frames = || self.frames.values().flatten();
        let newest = frames().max_by_key(|frame| frame.version)?;
        let (page_size, pages) = match self.trailer {
            Some((commit, page_size, len)) => {
                let counted = u32::try_from(len / u64::from(page_size)).unwrap_or(u32::MAX);
                let later = |(page, frames): (&u32, &Vec<Candidate>)| {
                    (frames.iter().any(|frame| frame.version > commit)).then_some(*page)
                };
                let beyond = self.frames.iter().filter_map(later).max();
                (page_size, counted.max(beyond.unwrap_or(0)))
            }
            None => {
                let most = self.frames.keys().max().copied().unwrap_or(0);
                (1 << newest.page_log2, most)
            }
        };
        // VACUUM can change the size of pages.
        for frames in self.frames.values_mut() {
            frames.retain(|frame| 1u32 << frame.page_log2 == page_size);
            frames.sort_unstable_by_key(|frame| std::cmp::Reverse(frame.version));
        }
        Some(Scan {
            salt: self.salt,
            page_size,
            pages,
            frames: self.frames,
            known: self.known,
            dictionaries: self.dictionaries,
            last: RefCell::default(),
        })
    }
}

/// Whether a file that has lost its beginning holds pages of a Densite file. Only its first bytes are
/// looked at.
///
/// # Errors
/// I/O.
pub fn holds_pages(file: &dyn File) -> Result<bool> {
    let mut found = Found::new(None, MAX_COMMIT);
    found.read(file, file.len()?.min(LOOK), &mut |_| true)?;
    for frame in found.frames.values().flatten() {
        if frame.decode(file, None, &found.dictionaries)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a record can begin behind another one, with these bytes.
fn can_follow(bytes: &[u8], off: u64) -> bool {
    off.is_multiple_of(UNIT_LEN)
        || bytes.len() < RECORD_LEN
        || bytes.iter().all(|byte| *byte == 0)
        || Record::parse(bytes).is_some()
}

/// Reads a file through a buffer.
struct Window<'a> {
    file: &'a dyn File,
    /// Length of the file
    len: u64,
    begin: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// `len` bytes at `off`, or fewer at the end of the file.
    fn at(&mut self, off: u64, len: usize) -> Result<&[u8]> {
        let end = (off + len as u64).min(self.len);
        let is_inside = off >= self.begin && end <= self.begin + self.bytes.len() as u64;
        if !is_inside {
            self.bytes.resize(WINDOW.max(len), 0);
            let read = self.file.read_at(&mut self.bytes, off)?;
            self.bytes.truncate(read);
            self.begin = off;
        }
        let at = usize::try_from(off - self.begin).unwrap_or(usize::MAX);
        let end = at.saturating_add(len).min(self.bytes.len());
        Ok(self.bytes.get(at..end).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
