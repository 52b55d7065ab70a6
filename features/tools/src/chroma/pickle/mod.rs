//! `index_metadata.pickle`: which records the persisted vector index of a segment holds, and up to
//! which row of the queue.
//!
//! A pickle is a program for a stack machine, and its instructions can call any Python code. This
//! reader calls nothing. It supports only the few instructions that write an object with a
//! dictionary and rejects all others. Memory is bounded by the length of the file: texts are kept
//! as hashes of 16 bytes, at most one for every eight bytes read in the memo and one for every four
//! in the dictionaries. The length of one text has its own limit.

mod input;
mod machine;
mod operand;
mod text;
mod value;

use densite_disk::hash::xxh3_128;
use std::fmt;
use std::io::BufRead;

/// Longer files are refused. An index of about 30 million records has this length.
pub const LEN_MAX: u64 = 2 << 30;

/// What is wrong with a pickle, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PickleError {
    /// Offset in bytes of the instruction that failed.
    pub offset: u64,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for PickleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for PickleError {}

/// The hash of a text, for comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TextHash([u8; 16]);

impl TextHash {
    pub(crate) fn of(text: &[u8]) -> TextHash {
        TextHash(xxh3_128(text).to_le_bytes())
    }
}

/// The content of `index_metadata.pickle`.
///
/// The reader knows protocols 0 to 5, which Python wrote up to Chroma 0.6 (an object of the class
/// `PersistentData`), and the format of Chroma 1.0 and later (protocol 3, a plain dictionary with
/// the same names):
///
/// | name | meaning |
/// |---|---|
/// | `dimensionality` | not used here |
/// | `total_elements_added` | not used here |
/// | `max_seq_id` | position up to 0.5.5, later the position at the upgrade; None in new indexes |
/// | `id_to_label` | record id to label: the records that the index holds |
/// | `label_to_id`, `id_to_seq_id` | not used here |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexMetadata {
    /// `max_seq_id`; `None` if it is missing, None or negative ("nothing yet").
    pub max_seq_id: Option<i64>,
    /// Ids of the records that the index holds, sorted and without duplicates.
    ids: Vec<TextHash>,
}

impl IndexMetadata {
    /// Reads a pickle of `len` bytes.
    ///
    /// # Errors
    /// Why and where the pickle is not one of Chroma's: damage, a missing part, or an instruction
    /// or class that Chroma's pickles do not have.
    pub fn read(from: impl BufRead, len: u64) -> Result<IndexMetadata, PickleError> {
        let (max_seq_id, mut ids) = machine::run(input::Input::new(from, len))?;
        ids.sort_unstable();
        ids.dedup();
        Ok(IndexMetadata {
            max_seq_id: max_seq_id.filter(|n| *n >= 0),
            ids,
        })
    }

    /// The number of records in the index.
    pub fn records(&self) -> usize {
        self.ids.len()
    }

    /// Whether the index holds the record with this id.
    pub fn holds(&self, id: &[u8]) -> bool {
        self.holds_hash(TextHash::of(id))
    }

    pub(crate) fn holds_hash(&self, id: TextHash) -> bool {
        self.ids.binary_search(&id).is_ok()
    }
}

#[cfg(test)]
mod tests;
