//! What shipping a database sends: requests and bytes, counted at its bucket.

use densite_replica::{Bucket, Listed, RemoteObject, Result, Stored, Upload};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a part of a large object, each of which is a request.
const PART: u64 = 8 << 20;

/// Requests and bytes of one database since its shipping began in this process.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    /// The requests that were sent, and the bytes of objects in them. Repetitions of a request that
    /// failed are not counted.
    pub(super) fn sent(&self) -> (u64, u64) {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        (get(&self.requests), get(&self.bytes))
    }

    fn request(&self, bytes: usize) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A bucket whose requests are counted.
pub(super) struct Counted {
    pub(super) bucket: Arc<dyn Bucket>,
    pub(super) traffic: Arc<Traffic>,
}

impl Bucket for Counted {
    fn get(&self, name: &str) -> Result<Option<Stored>> {
        self.traffic.request(0);
        self.bucket.get(name)
    }

    fn get_end(&self, name: &str, len: u64) -> Result<Option<Stored>> {
        self.traffic.request(0);
        self.bucket.get_end(name, len)
    }

    fn get_range(&self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        self.traffic.request(0);
        self.bucket.get_range(name, offset, len)
    }

    fn stream(
        &self,
        name: &str,
        offset: u64,
        len: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.traffic.request(0);
        self.bucket.stream(name, offset, len, sink)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<String>> {
        self.traffic.request(bytes.len());
        self.bucket.create(name, bytes)
    }

    fn replace(&self, name: &str, bytes: &[u8], version: &str) -> Result<Option<String>> {
        self.traffic.request(bytes.len());
        self.bucket.replace(name, bytes, version)
    }

    fn upload(&self, name: &str, about: u64) -> Result<Box<dyn Upload + '_>> {
        self.traffic.request(0);
        Ok(Box::new(CountedUpload {
            upload: self.bucket.upload(name, about)?,
            traffic: &self.traffic,
            bytes: 0,
        }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.traffic.request(0);
        self.bucket.remove(name)
    }

    fn has_lists(&self) -> bool {
        self.bucket.has_lists()
    }

    fn must_exist(&self) -> Result<()> {
        self.traffic.request(0);
        self.bucket.must_exist()
    }

    fn object(&self, name: &str, len: u64, end: u64) -> Result<Option<Arc<dyn RemoteObject>>> {
        // Readers alone read by ranges.
        self.bucket.object(name, len, end)
    }

    fn list(&self, prefix: &str, after: &str) -> Result<Vec<Listed>> {
        self.traffic.request(0);
        self.bucket.list(prefix, after)
    }
}

/// An upload whose parts are counted. A small one is a single request.
struct CountedUpload<'a> {
    upload: Box<dyn Upload + 'a>,
    traffic: &'a Traffic,
    bytes: u64,
}

impl Upload for CountedUpload<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let before = self.bytes / PART;
        self.bytes += bytes.len() as u64;
        let parts = self.bytes / PART - before;
        self.traffic.requests.fetch_add(parts, Ordering::Relaxed);
        let len = bytes.len() as u64;
        self.traffic.bytes.fetch_add(len, Ordering::Relaxed);
        self.upload.write(bytes)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        // The last part, and the end of the upload.
        let more = if self.bytes < PART { 0 } else { 2 };
        self.traffic.requests.fetch_add(more, Ordering::Relaxed);
        self.upload.finish()
    }
}
