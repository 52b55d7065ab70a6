//! A restore of a large base, counted by requests. Most bytes are generated, not kept.

use crate::common::{Database, begin_from, bucket, quick};
use densite_disk::{File, SyncKind};
use densite_log::Image;
use densite_replica::{
    At, Bucket, Error, Folder, Listed, RemoteObject, Restore, Restored, Result, Source, Stored,
    Upload,
};
use densite_sim_disk::SimDisk;
use densite_store::{CommitId, Written};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Bytes of the block that a file repeats.
const BLOCK: usize = 1_000_003;
/// Bytes of a range that changes while the file is copied.
const CHANGED: u64 = 300;
/// Places that readers need first.
const FIRST_PLACES: u64 = 785;

/// A file of bytes that look random, with other bytes laid over some places.
#[derive(Clone)]
struct Contents {
    block: Arc<Vec<u8>>,
    len: u64,
    other: BTreeMap<u64, Vec<u8>>,
}

impl Contents {
    fn new(len: u64) -> Contents {
        let random = |n: u64| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 | 1;
        Contents {
            block: Arc::new((0..BLOCK as u64).map(random).collect()),
            len,
            other: BTreeMap::new(),
        }
    }

    /// The bytes below the others. Returns how many there are.
    fn generated(&self, buf: &mut [u8], offset: u64) -> usize {
        let len = (buf.len() as u64).min(self.len.saturating_sub(offset)) as usize;
        let (mut at, mut from) = (0, (offset % BLOCK as u64) as usize);
        while at < len {
            let n = (BLOCK - from).min(len - at);
            buf[at..at + n].copy_from_slice(&self.block[from..from + n]);
            (at, from) = (at + n, 0);
        }
        len
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let len = self.generated(buf, offset);
        let end = offset + len as u64;
        // No other bytes are longer than the block.
        for (start, bytes) in self.other.range(offset.saturating_sub(BLOCK as u64)..end) {
            let (from, to) = (offset.max(*start), end.min(start + bytes.len() as u64));
            if from < to {
                let bytes = &bytes[(from - start) as usize..(to - start) as usize];
                buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(bytes);
            }
        }
        len
    }

    fn bytes(&self, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        let n = self.read(&mut bytes, offset);
        bytes.truncate(n);
        bytes
    }

    fn has(&self, bytes: &[u8], offset: u64) -> bool {
        let (mut rest, mut from) = (bytes, (offset % BLOCK as u64) as usize);
        let is_inside = bytes.is_empty() || offset + bytes.len() as u64 <= self.len;
        while is_inside && !rest.is_empty() {
            let n = (BLOCK - from).min(rest.len());
            if rest[..n] != self.block[from..from + n] {
                return false;
            }
            (rest, from) = (&rest[n..], 0);
        }
        is_inside
    }
}

/// A database file that is written while its base is copied.
struct Used {
    contents: Contents,
    /// The commits before and after the write.
    marks: [CommitId; 2],
    /// Ranges that are written once half of the file is copied.
    changes: Vec<(u64, u64)>,
    is_written: bool,
}

impl Used {
    /// A file of so many bytes. So many ranges of it change.
    fn new(len: u64, changes: u64) -> Used {
        let mut database = Database::new(1);
        let mut mark = || {
            database.commit(1);
            database.handle.mark().expect("mark").expect("a commit")
        };
        let apart = len / 2 / changes.max(1);
        Used {
            contents: Contents::new(len),
            marks: [mark(), mark()],
            changes: (0..changes)
                .map(|n| (n * apart, n * apart + CHANGED))
                .collect(),
            is_written: false,
        }
    }
}

impl Source for Used {
    fn restore_point(&mut self) -> Result<Option<CommitId>> {
        self.newest()
    }

    fn take_log(&mut self) -> Option<Image> {
        None
    }

    fn newest(&mut self) -> Result<Option<CommitId>> {
        Ok(Some(self.marks[usize::from(self.is_written)]))
    }

    fn written(&mut self, _: &CommitId, _: &CommitId) -> Result<Written> {
        Ok(Written::Ranges(self.changes.clone()))
    }

    fn image_len(&mut self, _: &CommitId) -> Result<Option<u64>> {
        Ok(Some(self.contents.len))
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize> {
        if !self.is_written && !self.changes.is_empty() && offset > self.contents.len / 2 {
            self.is_written = true;
            for (start, end) in &self.changes {
                let bytes = vec![7; (end - start) as usize];
                self.contents.other.insert(*start, bytes);
            }
        }
        Ok(self.contents.read(buf, offset))
    }

    fn check_stored(&mut self, _: u32) -> Result<Option<u32>> {
        Ok(None)
    }

    fn first_places(&mut self, most: u64) -> Result<Vec<(u64, u64)>> {
        let (apart, len) = (self.contents.len / FIRST_PLACES, most / FIRST_PLACES);
        let start = |n| n * apart + 50_000;
        Ok((0..FIRST_PLACES - 1)
            .map(|n| (start(n), start(n) + len))
            .collect())
    }

    fn is_kept(&mut self, _: &CommitId) -> Result<bool> {
        Ok(true)
    }
}

/// A bucket that keeps of a base only what is not generated.
struct Generated {
    /// The other objects.
    folder: Arc<Folder>,
    contents: Contents,
    /// The base, without the bytes that are generated.
    base: Mutex<Vec<u8>>,
    requests: AtomicU64,
    /// The request that fails half-way.
    fails: AtomicU64,
}

impl Generated {
    fn request(&self) -> u64 {
        self.requests.fetch_add(1, SeqCst) + 1
    }

    fn len(&self) -> u64 {
        self.contents.len + self.base.lock().expect("a base").len() as u64
    }

    fn range(&self, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        let n = self.contents.generated(&mut bytes, offset);
        if n < bytes.len() {
            let from = (offset + n as u64 - self.contents.len) as usize;
            let more = bytes.len() - n;
            bytes[n..].copy_from_slice(&self.base.lock().expect("a base")[from..from + more]);
        }
        bytes
    }
}

struct Uploading<'a>(&'a Generated, u64);

impl Upload for Uploading<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let left = self.0.contents.len.saturating_sub(self.1) as usize;
        let (first, end) = bytes.split_at(left.min(bytes.len()));
        assert!(self.0.contents.has(first, self.1), "copied wrongly");
        self.1 += bytes.len() as u64;
        self.0.base.lock().expect("a base").extend_from_slice(end);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Bucket for Generated {
    fn get(&self, name: &str) -> Result<Option<Stored>> {
        self.request();
        self.folder.get(name)
    }

    fn get_end(&self, name: &str, len: u64) -> Result<Option<Stored>> {
        self.request();
        self.folder.get_end(name, len)
    }

    fn get_range(&self, _: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        self.request();
        Ok(self.range(offset, len))
    }

    fn stream(
        &self,
        _: &str,
        offset: u64,
        len: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        assert!(len <= self.len() - offset, "no such range");
        let fails = self.request() == self.fails.load(SeqCst);
        let (mut at, end) = (offset, offset + if fails { len / 2 } else { len });
        while at < end {
            let part = (64 << 10).min(end - at);
            sink(&self.range(at, part))?;
            at += part;
        }
        match fails {
            true => Err(Error::Bucket("the connection broke".to_owned())),
            false => Ok(()),
        }
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<String>> {
        self.folder.create(name, bytes)
    }

    fn replace(&self, name: &str, bytes: &[u8], version: &str) -> Result<Option<String>> {
        self.folder.replace(name, bytes, version)
    }

    fn upload(&self, _: &str, _: u64) -> Result<Box<dyn Upload + '_>> {
        Ok(Box::new(Uploading(self, 0)))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.folder.remove(name)
    }

    fn at_once(&self) -> usize {
        4
    }

    fn object(&self, name: &str, len: u64, end: u64) -> Result<Option<Arc<dyn RemoteObject>>> {
        self.folder.object(name, len, end)
    }

    fn list(&self, prefix: &str, after: &str) -> Result<Vec<Listed>> {
        self.request();
        self.folder.list(prefix, after)
    }
}

/// A file that keeps only bytes that are not generated, and which ranges were written.
struct Restoring(Mutex<(Contents, Vec<(u64, u64)>)>);

impl Restoring {
    fn new(contents: &Contents) -> Restoring {
        let contents = Contents {
            other: BTreeMap::new(),
            len: 0,
            ..contents.clone()
        };
        Restoring(Mutex::new((contents, Vec::new())))
    }

    /// The bytes of ranges that were written, without those written twice.
    fn written(&self) -> u64 {
        let mut now = self.0.lock().expect("a file");
        now.1.sort_unstable();
        let (mut sum, mut at) = (0, 0);
        for (start, end) in &now.1 {
            sum += end.saturating_sub(at.max(*start));
            at = at.max(*end);
        }
        sum
    }
}

impl File for Restoring {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> densite_disk::Result<usize> {
        let now = self.0.lock().expect("a file");
        let n = now.0.read(buf, offset);
        let (mut ranges, end) = (now.1.clone(), offset + n as u64);
        ranges.sort_unstable();
        ranges.push((end, end));
        // What was not written is zero.
        let mut at = offset;
        for (start, after) in ranges {
            let gap = at..start.clamp(at, end);
            buf[(gap.start - offset) as usize..(gap.end - offset) as usize].fill(0);
            at = at.max(after).min(end);
        }
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> densite_disk::Result<()> {
        let mut now = self.0.lock().expect("a file");
        let end = offset + buf.len() as u64;
        now.0.len = now.0.len.max(end);
        if !now.0.has(buf, offset) {
            now.0.other.insert(offset, buf.to_vec());
        }
        match now.1.last_mut() {
            Some((_, last)) if *last == offset => *last = end,
            _ => now.1.push((offset, end)),
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> densite_disk::Result<()> {
        let mut now = self.0.lock().expect("a file");
        now.0.len = len;
        if len == 0 {
            now.1.clear();
            now.0.other.clear();
        }
        Ok(())
    }

    fn sync(&self, _: SyncKind) -> densite_disk::Result<()> {
        Ok(())
    }

    fn len(&self) -> densite_disk::Result<u64> {
        Ok(self.0.lock().expect("a file").0.len)
    }
}

/// A base of a file of so many MiB, of which so many ranges changed while it was copied.
fn base(mib: u64, changes: u64) -> (Used, Arc<Generated>) {
    let mut source = Used::new(mib << 20, changes);
    let generated = Arc::new(Generated {
        folder: bucket(&SimDisk::new(1)),
        contents: source.contents.clone(),
        base: Mutex::default(),
        requests: AtomicU64::new(0),
        fails: AtomicU64::new(0),
    });
    let shared: Arc<dyn Bucket> = generated.clone();
    begin_from(&shared, &mut source, &quick(), "owner", 0).expect("shipped");
    generated.requests.store(0, SeqCst);
    (source, generated)
}

fn restore(
    bucket: &Generated,
    file: &Restoring,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Restored> {
    let log = SimDisk::new(0).dir("/log");
    Restore::find(bucket, At::Newest)?.write(file, &log, progress)
}

/// The file has what the source has.
fn assert_restored(source: &Used, file: &Restoring, what: &str) {
    let len = source.contents.len;
    assert_eq!(file.written(), len, "{what}");
    let now = file.0.lock().expect("a file").0.clone();
    assert_eq!(now.len, len, "{what}");
    for (start, end) in &source.changes[1.min(source.changes.len())..] {
        let found = now.bytes(*start, end - start);
        assert!(found.iter().all(|byte| *byte == 7), "{what}: {start}");
    }
}

#[test]
fn a_restore_of_a_large_base_takes_at_most_eight_requests() {
    for (mib, changes, most) in [(40, 0, 7), (40, 30_000, 8), (400, 0, 7), (400, 4_000, 8)] {
        let what = format!("{mib} MiB, {changes} changes");
        let (source, bucket) = base(mib, changes);
        let file = Restoring::new(&bucket.contents);
        let mut calls = Vec::new();
        let done = restore(&bucket, &file, &mut |done, all| {
            calls.push((done, all));
            true
        });
        let done = done.expect(&what);
        let requests = bucket.requests.load(SeqCst);
        assert!(requests <= most, "{what}: {requests} requests");
        assert_restored(&source, &file, &what);
        // The progress begins before the first byte comes, and ends with all of the object.
        assert_eq!(calls.first(), Some(&(0, bucket.len())), "{what}");
        assert_eq!(calls.last(), Some(&(bucket.len(), bucket.len())), "{what}");
        assert_eq!(done.bytes, bucket.len(), "{what}");
    }
}

#[test]
fn an_interrupted_restore_of_a_large_base_reads_what_is_missing() {
    let (source, bucket) = base(40, 4_000);
    let file = Restoring::new(&bucket.contents);
    // Head, table, and a part.
    bucket.fails.store(4, SeqCst);
    let failed = restore(&bucket, &file, &mut |_, _| true);
    assert!(matches!(failed, Err(Error::Bucket(_))), "{failed:?}");
    bucket.fails.store(0, SeqCst);
    let mut first = None;
    let done = restore(&bucket, &file, &mut |done, _| {
        first.get_or_insert(done);
        true
    });
    let done = done.expect("restored");
    assert_restored(&source, &file, "continued");
    let resumed = first.expect("progress");
    assert!(resumed > 1 << 20, "{resumed}");
    assert_eq!(done.bytes + resumed, bucket.len());

    // The file has the whole first extent, and later extents have changed it: only these are read.
    let done = restore(&bucket, &file, &mut |_, _| true).expect("restored");
    assert!(done.bytes < 8 << 20, "{done:?}");
    assert_restored(&source, &file, "again");

    // The bytes in the file are wrong: all of the base is read again.
    let file = Restoring::new(&bucket.contents);
    file.write_at(&[9; 100_000], 1_000_000).expect("written");
    let done = restore(&bucket, &file, &mut |_, _| true).expect("restored");
    assert!(done.bytes > bucket.len(), "{done:?}");
    assert_restored(&source, &file, "from the beginning");
}
