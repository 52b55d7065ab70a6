//! The registry of files that this process has open.

use super::Shared;
use crate::error::Result;
use crate::options::Options;
use crate::recover;
use densite_disk::File;
use densite_disk::sync::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

type Registry = HashMap<(String, u64, u32), Weak<Shared>>;

/// Open files of this process, by identity, salt and process id. The salt is part of the key
/// because another file can replace one of the same name. The process id is part of it because a
/// child of fork must not use what belongs to its parent.
static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

impl Shared {
    /// The shared part of the file: the one that this process has, or a new one. `None` while the
    /// file is empty.
    pub(crate) fn attach(
        file: &dyn File,
        identity: &str,
        options: &Options,
    ) -> Result<Option<Arc<Shared>>> {
        let Some(found) = recover::find(file)? else {
            return Ok(None);
        };
        let key = (identity.to_owned(), found.salt, std::process::id());
        // In a child of fork, a thread that does not exist can hold the lock forever: do without
        // sharing then (rule S15).
        let Some(mut registry) = REGISTRY.try_lock_for(Duration::from_secs(2)) else {
            return Ok(Some(Arc::new(Shared::new(found, options)?)));
        };
        let registry = registry.get_or_insert_with(HashMap::new);
        registry.retain(|k, v| k.2 != std::process::id() || v.strong_count() > 0);
        let known = registry.get(&key).and_then(Weak::upgrade);
        if let Some(shared) = known.filter(|shared| !shared.is_overwritten()) {
            return Ok(Some(shared));
        }
        let shared = Arc::new(Shared::new(found, options)?);
        registry.insert(key, Arc::downgrade(&shared));
        Ok(Some(shared))
    }
}
