//! A prefix of a bucket as a place for a replica, and a replica as a file that is followed.

use super::CLIENT;
use densite_disk::sync::Mutex;
use densite_remote::{BucketUpload, Client, Got, Options, Problem, Remote};
use densite_replica::{
    Bucket, Error, Follower, Listed, RemoteObject, Result, Snapshot, Stored, Upload,
};
use densite_sqlite::PerProcess;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The objects under a URL of object storage.
///
/// # Errors
/// A sentence with the URL, without secrets.
pub fn bucket(url: &str) -> std::result::Result<Box<dyn Bucket>, String> {
    let client: &'static Client = CLIENT.get();
    let opened = densite_remote::Bucket::open(client, url, &Options::default());
    Ok(Box::new(Prefix(opened.map_err(|e| e.to_string())?)))
}

struct Prefix(densite_remote::Bucket);

fn failed(e: &densite_remote::Error) -> Error {
    Error::Bucket(e.problem().to_string())
}

fn stored(got: Got) -> Stored {
    Stored {
        bytes: got.bytes,
        version: got.tag,
        len: got.len,
    }
}

impl Bucket for Prefix {
    fn get(&self, name: &str) -> Result<Option<Stored>> {
        let got = self.0.get(name).map_err(|e| failed(&e))?;
        Ok(got.map(stored))
    }

    fn get_end(&self, name: &str, len: u64) -> Result<Option<Stored>> {
        let got = self.0.get_end(name, len).map_err(|e| failed(&e))?;
        Ok(got.map(stored))
    }

    fn get_range(&self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        let got = self.0.get_range(name, offset, len);
        let got = got.map_err(|e| failed(&e))?;
        let got = got.ok_or_else(|| Error::Missing(name.to_owned()))?;
        match got.bytes.len() as u64 == len {
            true => Ok(got.bytes),
            false => Err(Error::Bucket(format!("the object {name} became shorter"))),
        }
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<String>> {
        self.0.create(name, bytes).map_err(|e| match e.problem() {
            Problem::NotFound => {
                Error::Bucket("there is no such bucket (404); create it, or check the URL".into())
            }
            _ => failed(&e),
        })
    }

    fn replace(&self, name: &str, bytes: &[u8], version: &str) -> Result<Option<String>> {
        self.0.replace(name, bytes, version).map_err(|e| failed(&e))
    }

    fn upload(&self, name: &str, about: u64) -> Result<Box<dyn Upload + '_>> {
        Ok(Box::new(Uploading(self.0.upload(name, about))))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name).map_err(|e| failed(&e))
    }

    fn list(&self, prefix: &str, after: &str) -> Result<Vec<Listed>> {
        let found = self.0.list(prefix, after).map_err(|e| failed(&e))?;
        let listed = |(name, len)| Listed { name, len };
        Ok(found.into_iter().map(listed).collect())
    }
}

struct Uploading<'a>(BucketUpload<'a>);

impl Upload for Uploading<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write(bytes).map_err(|e| failed(&e))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.0.finish().map_err(|e| failed(&e))
    }
}

/// How old the newest known state of a replica may be when a transaction begins.
const POLL: Duration = Duration::from_secs(1);

/// The replicas that this process follows, by URL and settings.
static FOLLOWED: PerProcess<Mutex<HashMap<String, Weak<Follower>>>> = PerProcess::new();

/// Numbers of connections, so that no two share what they know of the file: each reads a state of
/// its own.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A replica as one connection reads it: the state of its transaction.
pub(super) struct Following {
    follower: Arc<Follower>,
    url: String,
    number: u64,
    snapshot: Mutex<Arc<Snapshot>>,
    /// The state is another one since the last call of [`Following::take_moved`].
    has_moved: AtomicBool,
}

impl Following {
    /// Opens the newest state of the replica under a URL that ends with a slash.
    ///
    /// # Errors
    /// A sentence with the URL.
    pub(super) fn open(url: &str, options: &Options) -> std::result::Result<Following, String> {
        let shown = densite_remote::shown(url);
        let said = |e: &Error| format!("{shown}: {e}");
        let follower = shared(url, options).map_err(|e| said(&e))?;
        let snapshot = follower.newest(POLL).map_err(|e| said(&e))?;
        Ok(Following {
            follower,
            url: shown,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            snapshot: Mutex::new(snapshot),
            has_moved: AtomicBool::new(false),
        })
    }

    /// The URL, without secrets.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Of this connection alone.
    pub(super) fn identity(&self) -> String {
        format!("replica {}", self.number)
    }

    /// A transaction begins: takes the newest state.
    ///
    /// # Errors
    /// A sentence with the URL. The state is then unchanged.
    pub(super) fn begin(&self) -> std::result::Result<(), String> {
        let newest = self.follower.newest(POLL);
        let newest = newest.map_err(|e| format!("{}: {e}", self.url))?;
        let mut snapshot = self.snapshot.lock();
        if !Arc::ptr_eq(&snapshot, &newest) {
            *snapshot = newest;
            self.has_moved.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Whether the state is another one since the last call.
    pub(super) fn take_moved(&self) -> bool {
        self.has_moved.swap(false, Ordering::AcqRel)
    }

    /// The state of the transaction.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.lock())
    }

    /// Reads from `offset` on, until `buf` is full or the file ends.
    ///
    /// # Errors
    /// A sentence with the URL.
    pub(super) fn read_at(
        &self,
        buf: &mut [u8],
        offset: u64,
    ) -> std::result::Result<usize, String> {
        let read = self.snapshot().read_at(buf, offset);
        read.map_err(|e| format!("{}: {e}", self.url))
    }
}

/// The follower of a replica, which all connections of the process share.
fn shared(url: &str, options: &Options) -> Result<Arc<Follower>> {
    let key = format!("{url} {options:?}");
    let mut followed = FOLLOWED.get().lock();
    followed.retain(|_, follower| follower.strong_count() > 0);
    if let Some(follower) = followed.get(&key).and_then(Weak::upgrade) {
        return Ok(follower);
    }
    let client: &'static Client = CLIENT.get();
    let bucket = densite_remote::Bucket::open(client, url, options).map_err(|e| failed(&e))?;
    let (prefix, options) = (url.to_owned(), options.clone());
    let open = move |name: &str| -> Result<Arc<dyn RemoteObject>> {
        let remote = client.open(&format!("{prefix}{name}"), &options);
        match remote {
            Ok(remote) => Ok(Arc::new(ByRanges(remote))),
            Err(e) if *e.problem() == Problem::NotFound => Err(Error::Missing(name.to_owned())),
            Err(e) => Err(failed(&e)),
        }
    };
    let follower = Arc::new(Follower::new(Arc::new(Prefix(bucket)), Box::new(open))?);
    followed.insert(key, Arc::downgrade(&follower));
    Ok(follower)
}

/// An object that is read by ranges.
struct ByRanges(Arc<Remote>);

impl RemoteObject for ByRanges {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.0.read_at(buf, offset).map_err(|e| failed(&e))
    }

    fn len(&self) -> u64 {
        self.0.len()
    }
}
