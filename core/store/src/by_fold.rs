//! What a fold moves: nodes of the map, dictionaries, chunks of the space table.

use crate::error::{Damage, Error, Result};
use crate::format::record::{Kind, Record};
use crate::format::trailer::DictInfo;
use densite_disk::File;
use std::collections::{BTreeMap, BTreeSet};

/// What a fold writes again in another place.
#[derive(Default, Clone)]
pub(crate) struct ByFold {
    /// Leaves of the map, each by the index of a page below it (0 is page 1). All nodes above them
    /// move too.
    pub(crate) leaves: BTreeSet<u64>,
    pub(crate) dicts: BTreeMap<u32, (Record, Vec<u8>)>,
    /// Chunks of the space table.
    pub(crate) chunks: BTreeSet<u32>,
}

impl ByFold {
    pub(crate) fn is_empty(&self) -> bool {
        self.leaves.is_empty() && self.dicts.is_empty() && self.chunks.is_empty()
    }

    /// Adds a stored dictionary of a file with this salt.
    ///
    /// # Errors
    /// I/O; [`Error::Corrupt`].
    pub(crate) fn add_dict(&mut self, dict: &DictInfo, file: &dyn File, salt: u64) -> Result<()> {
        let place = dict.place;
        let mut bytes = vec![0; place.len as usize];
        let n = file.read_at(&mut bytes, place.off)?;
        bytes.truncate(n);
        let opened = Record::open(&bytes, salt, place.off);
        let found = opened.filter(|(r, ..)| r.kind == Kind::Dictionary && r.number == dict.id);
        let Some((record, _, payload)) = found else {
            return Err(Error::Corrupt(Damage {
                what: format!("dictionary {}", dict.id),
                offset: place.off,
                page: None,
                problem: "checksum mismatch".to_owned(),
            }));
        };
        self.dicts.insert(dict.id, (record, payload.to_vec()));
        Ok(())
    }

    /// Adds the contents of `other`.
    pub(crate) fn add(&mut self, other: &ByFold) {
        self.leaves.extend(&other.leaves);
        for (id, dict) in &other.dicts {
            self.dicts.entry(*id).or_insert_with(|| dict.clone());
        }
        self.chunks.extend(&other.chunks);
    }
}
