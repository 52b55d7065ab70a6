//! What a file is, and when that is asked again.

use crate::codes::code_of;
use crate::main_file::{Done, MainFile, State};
use crate::neighbours::Neighbours;
use crate::place::Place;
use crate::wal_file;
use densite_sqlite::Code;
use densite_store::{Error, Handle, Kind, probe};
use std::sync::atomic::{AtomicU64, Ordering};

/// How every plain database begins.
const PLAIN_MAGIC: &[u8; 16] = b"SQLite format 3\0";

impl MainFile {
    /// Judges the file, whatever was known of it. Never fails: what cannot be judged is
    /// `Broken` and is judged again.
    pub(crate) fn judge(&mut self) {
        let state = match probe(&self.host) {
            Ok(Kind::Empty) if !self.settings.keep_plain => State::Undecided,
            Ok(Kind::Empty | Kind::Other) => State::Plain,
            Ok(Kind::Densite) => match self.open_store() {
                Ok(handle) if self.overwritten.awaits(&handle) => State::Broken(Error::Overwritten),
                Ok(handle) => State::Store(handle),
                Err(error) => State::Broken(error),
            },
            Err(error) => State::Broken(error),
        };
        if matches!(state, State::Store(_) | State::Plain) {
            self.overwritten.set_whole();
        }
        if let State::Broken(error) = &state {
            let news =
                !matches!(&self.state, State::Broken(old) if old.to_string() == error.to_string());
            if news {
                self.report(code_of(error), error);
            }
        }
        self.state = state;
        self.announce();
    }

    /// Judges the file again if it is still to be judged.
    pub(crate) fn judge_if_pending(&mut self) {
        if matches!(self.state, State::Undecided | State::Broken(_)) {
            self.judge();
        }
    }

    /// Judges the file under its first lock, unless it is the store's already: that was
    /// decided by checksums.
    pub(crate) fn judge_under_lock(&mut self) {
        if std::mem::replace(&mut self.judged_locked, true) {
            self.judge_if_pending();
        } else if !matches!(self.state, State::Store(_) | State::Refused(_)) {
            self.judge();
        }
    }

    /// An empty file becomes the store's: its first write is next, and the caller has the
    /// writer's right.
    pub(crate) fn become_store(&mut self) -> Done {
        match self.open_store() {
            Ok(handle) => {
                self.state = State::Store(handle);
                Ok(())
            }
            Err(error) => Err(self.fail(&error)),
        }
    }

    fn open_store(&mut self) -> Result<Box<Handle>, Error> {
        let identity = self.identity();
        let options = self.settings.options.clone();
        let handle = Handle::open(Box::new(self.host.clone()), &identity, options)?;
        self.join(Neighbours::on(&identity));
        self.announced = false;
        Ok(Box::new(handle))
    }

    /// Makes the store known to its WAL, once there is one.
    pub(crate) fn announce(&mut self) {
        if !self.announced
            && let State::Store(handle) = &self.state
            && let Some(preencoded) = handle.preencoded()
        {
            wal_file::announce(&self.path, &preencoded);
            self.announced = true;
        }
    }

    /// Equal for the connections of this process on the same file, and for no others.
    fn identity(&self) -> String {
        static UNIQUE: AtomicU64 = AtomicU64::new(0);
        let host = self
            .host_vfs
            .map(densite_sqlite::HostVfs::name)
            .unwrap_or_default();
        if !host.starts_with("unix") {
            // As bytes: names that differ may look the same as text.
            return format!("{host}:{:?}", self.name().map(|name| name.path()));
        }
        if let Place::Here(_, (device, inode)) = self.locate() {
            return format!("{device}:{inode}");
        }
        format!("moved:{}", UNIQUE.fetch_add(1, Ordering::Relaxed))
    }

    /// A plain file is looked at again when SQLite asks for its change counter: while we
    /// held no lock it may have been emptied, and have become the store's.
    pub(crate) fn judge_version(&mut self) {
        let mut magic = [0; PLAIN_MAGIC.len()];
        match self.host.read(&mut magic, 0) {
            Ok(()) if magic == *PLAIN_MAGIC => {}
            Ok(()) | Err(Code::IOERR_SHORT_READ) => {
                if matches!(probe(&self.host), Ok(Kind::Densite | Kind::Empty)) {
                    self.take_contents();
                }
            }
            // The read that follows meets the same and reports it.
            Err(_) => {}
        }
    }

    /// Notes that a plain file was found, or made, `size` bytes long: an empty one is
    /// nobody's.
    pub(crate) fn plain_is_empty(&mut self, size: u64) {
        if size == 0 && !self.settings.keep_plain {
            self.state = State::Undecided;
        }
    }
}
