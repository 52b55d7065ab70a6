//! The files that this process has open, with the state that the connections on each file share.
//!
//! The registry of open files by what they are (`companions` has one by name). Its key is the file's [`Identity`]. An
//! entry lives while a connection, or the worker, has the file open.

use crate::identity::Identity;
use crate::idle::Idle;
use crate::neighbours::Neighbours;
use densite_disk::sync::Mutex;
use densite_sqlite::PerProcess;
use densite_store::PreEncoded;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

#[derive(Default)]
struct Files(Mutex<HashMap<Identity, Weak<OpenFile>>>);

static FILES: PerProcess<Files> = PerProcess::new();

/// The state that this process's connections on one file share.
#[derive(Default)]
pub(crate) struct OpenFile {
    neighbours: Neighbours,
    idle: Idle,
    /// The pre-encoded pages of its WAL, while the store has the file open.
    preencoded: Mutex<Weak<PreEncoded>>,
}

impl OpenFile {
    /// The entry of a file; a new one if it has none.
    pub(crate) fn on(identity: &Identity) -> Arc<OpenFile> {
        let mut files = FILES.get().0.lock();
        if let Some(found) = files.get(identity).and_then(Weak::upgrade) {
            return found;
        }
        files.retain(|_, weak| weak.strong_count() > 0);
        let fresh = Arc::new(OpenFile::default());
        files.insert(identity.clone(), Arc::downgrade(&fresh));
        fresh
    }

    /// The entry of a file, if a connection has it open.
    pub(crate) fn find(identity: &Identity) -> Option<Arc<OpenFile>> {
        FILES.get().0.lock().get(identity)?.upgrade()
    }

    /// The locks of its connections.
    pub(crate) fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// What its connections and the worker tell each other.
    pub(crate) fn idle(&self) -> &Idle {
        &self.idle
    }

    /// Sets the pre-encoded pages of its WAL.
    pub(crate) fn announce(&self, preencoded: &Arc<PreEncoded>) {
        *self.preencoded.lock() = Arc::downgrade(preencoded);
    }

    /// The pre-encoded pages of its WAL; `None` if the store does not have the file open.
    pub(crate) fn preencoded(&self) -> Option<Arc<PreEncoded>> {
        self.preencoded.lock().upgrade()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_lives_as_long_as_its_connections() {
        let (one, other) = (Identity::named("one"), Identity::named("other"));
        assert!(OpenFile::find(&one).is_none(), "no connection has it open");
        let first = OpenFile::on(&one);
        let second = OpenFile::on(&one);
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &OpenFile::on(&other)));
        drop(first);
        assert!(OpenFile::find(&one).is_some_and(|found| Arc::ptr_eq(&found, &second)));
        drop(second);
        assert!(OpenFile::find(&one).is_none(), "all have closed it");
    }
}
