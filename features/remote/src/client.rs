//! What all remote files of a process share: the thread for requests, and the files that are open.

use crate::counters::Counters;
use crate::error::Result;
use crate::remote::{Part, Remote};
use crate::remote_options::RemoteOptions;
use crate::transport::Transport;
use densite_disk::sync::Mutex;
use std::sync::{Arc, Weak};

/// What all remote files of a process share. A forked child needs one of its own: there, files of
/// the parent answer with [`Problem::Forked`](crate::Problem::Forked).
#[derive(Debug, Default)]
pub struct Client {
    transport: Transport,
    open: Mutex<Vec<Weak<Remote>>>,
}

impl Client {
    /// Opens the newest version of a file. Takes one request. If a server names versions by the
    /// second, and the file is younger than two seconds, this waits and takes a second one.
    ///
    /// If this version is open already with the same options, that file is returned: what it has in
    /// memory serves both.
    ///
    /// # Errors
    /// See [`Problem`](crate::Problem).
    pub fn open(&'static self, url: &str, options: &RemoteOptions) -> Result<Arc<Remote>> {
        Remote::open(&self.transport, url, options, Part::Beginning)
            .map(|opened| self.share(opened))
    }

    /// The same for a file of `len` bytes, of which the last `end` are read first.
    ///
    /// # Errors
    /// See [`Problem`](crate::Problem).
    pub fn open_end(
        &'static self,
        url: &str,
        options: &RemoteOptions,
        len: u64,
        end: u64,
    ) -> Result<Arc<Remote>> {
        let part = Part::End { len, end };
        Remote::open(&self.transport, url, options, part).map(|opened| self.share(opened))
    }

    /// What reading the files that are open has cost.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let open = self.open.lock();
        let all = open.iter().filter_map(Weak::upgrade);
        all.fold(Counters::default(), |sum, file| sum.and(file.counters()))
    }

    /// What sends the requests.
    pub(crate) fn transport(&'static self) -> &'static Transport {
        &self.transport
    }

    /// Returns the same file if it is open already, or this one, which others find from now on.
    fn share(&self, opened: Remote) -> Arc<Remote> {
        let mut open = self.open.lock();
        open.retain(|other| other.strong_count() > 0);
        let mut others = open.iter().filter_map(Weak::upgrade);
        if let Some(same) = others.find(|other| other.is_same(&opened)) {
            same.count_opening(&opened);
            return same;
        }
        let opened = Arc::new(opened);
        open.push(Arc::downgrade(&opened));
        opened
    }
}
