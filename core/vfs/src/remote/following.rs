//! A replica as a file that is followed.

use super::prefix::Prefix;
use crate::followed::Followed;
use densite_disk::RealDir;
use densite_disk::sync::Mutex;
use densite_remote::{RemoteOptions, is_url};
use densite_replica::{Bucket, Error, Folder, Follower, Result, Snapshot};
use densite_sqlite::PerProcess;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

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
    /// Opens the newest state of the replica under a URL, or in a directory, whose name ends with a
    /// slash.
    ///
    /// # Errors
    /// A sentence with the URL.
    pub(super) fn open(
        url: &str,
        options: &RemoteOptions,
    ) -> std::result::Result<Following, String> {
        let shown = match is_url(url) {
            true => densite_remote::shown(url),
            false => url.to_owned(),
        };
        let said = |e: &Error| said(&shown, e);
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
        let newest = newest.map_err(|e| said(&self.url, &e))?;
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

    /// What this connection reads, and what is known of newer states.
    pub(super) fn followed(&self) -> Followed {
        let (own, (newest, age)) = (self.snapshot(), self.follower.known());
        let (n, time_ms) = own.point();
        let is_same = own.generation() == newest.generation();
        Followed {
            url: self.url.clone(),
            generation: own.generation().to_owned(),
            n,
            time_ms,
            age,
            behind: is_same.then(|| newest.point().0.saturating_sub(n)),
        }
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
        read.map_err(|e| said(&self.url, &e))
    }
}

/// An error with the name of the replica.
fn said(name: &str, e: &Error) -> String {
    match e {
        // A slash at the end makes a URL that of a replica.
        Error::NoReplica => {
            format!("{name}: {e}; the URL of a database file ends with its name, not with a slash")
        }
        _ => format!("{name}: {e}"),
    }
}

/// The follower of a replica, which all connections of the process share.
fn shared(url: &str, options: &RemoteOptions) -> Result<Arc<Follower>> {
    let key = format!("{url} {options:?}");
    let mut followed = FOLLOWED.get().lock();
    followed.retain(|_, follower| follower.strong_count() > 0);
    if let Some(follower) = followed.get(&key).and_then(Weak::upgrade) {
        return Ok(follower);
    }
    let bucket: Arc<dyn Bucket> = match is_url(url) {
        true => Arc::new(Prefix::to_read(url, options)?),
        false => Arc::new(Folder::reader(Box::new(RealDir::new(url)))),
    };
    let follower = Arc::new(Follower::new(bucket)?);
    followed.insert(key, Arc::downgrade(&follower));
    Ok(follower)
}
