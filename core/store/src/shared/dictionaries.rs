//! Dictionaries that this process has read or made.

use crate::codec::{CodecId, Dictionary};
use crate::error::{Damage, Error, Result};
use crate::format::record::{Kind, Record};
use crate::state::State;
use densite_disk::File;
use densite_disk::sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Dictionaries by their numbers.
#[derive(Default)]
pub(crate) struct Dictionaries {
    known: Mutex<HashMap<u32, Arc<Dictionary>>>,
}

impl Dictionaries {
    /// A dictionary by its number.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`] if there is none of that number, or it is damaged.
    pub(crate) fn of(
        &self,
        file: &dyn File,
        salt: u64,
        state: &State,
        id: u32,
    ) -> Result<Arc<Dictionary>> {
        if let Some(d) = self.known.lock().get(&id) {
            return Ok(Arc::clone(d));
        }
        let damage = |offset: u64, problem: &str| {
            Error::Corrupt(Damage {
                what: format!("dictionary {id}"),
                offset,
                page: None,
                problem: problem.to_owned(),
            })
        };
        let info = state
            .dicts()
            .iter()
            .find(|d| d.id == id)
            .ok_or_else(|| damage(0, "the newest commit does not list it"))?;
        let mut bytes = vec![0; info.place.len as usize];
        let n = file.read_at(&mut bytes, info.place.off)?;
        let record = bytes
            .get(..n)
            .and_then(|b| Record::open(b, salt, info.place.off));
        let (record, _, payload) =
            record.ok_or_else(|| damage(info.place.off, "checksum mismatch"))?;
        if record.kind != Kind::Dictionary || record.number != id {
            return Err(damage(info.place.off, "another record is there"));
        }
        let dict = Arc::new(Dictionary::from_stored(id, CodecId(record.codec), payload));
        self.known.lock().insert(id, Arc::clone(&dict));
        Ok(dict)
    }

    /// The same, read from the file even if it is known.
    pub(crate) fn reread(
        &self,
        file: &dyn File,
        salt: u64,
        state: &State,
        id: u32,
    ) -> Result<Arc<Dictionary>> {
        self.known.lock().remove(&id);
        self.of(file, salt, state, id)
    }

    /// A dictionary that was read or made by this process.
    pub(crate) fn known(&self, id: u32) -> Option<Arc<Dictionary>> {
        self.known.lock().get(&id).cloned()
    }

    /// Adds a dictionary before a commit names it. If none ever does, call
    /// [`Dictionaries::forget`].
    pub(crate) fn add(&self, dict: &Arc<Dictionary>) {
        self.known.lock().insert(dict.id(), Arc::clone(dict));
    }

    /// Forgets a dictionary whose commit was given up. Other processes do not know it, and one of
    /// them may use its number for another one.
    pub(crate) fn forget(&self, id: u32) {
        self.known.lock().remove(&id);
    }

    /// Forgets all of them, because they may belong to other contents.
    pub(crate) fn clear(&self) {
        self.known.lock().clear();
    }
}
