//! `index_metadata.pickle`: what the persisted vector index of a segment holds, and up to which row
//! of the queue.
//!
//! A pickle is a program for a stack machine whose instructions can call anything. This reader runs
//! nothing: it knows the few instructions by which an object with a dictionary is written, and
//! refuses every other one. It takes protocols 0 to 5, as Python wrote them up to Chroma 0.6 (an
//! object of the class `PersistentData`), and what Chroma writes since 1.0 (protocol 3, a plain
//! dictionary with the same names):
//!
//! | name | what |
//! |---|---|
//! | `dimensionality` | not used here |
//! | `total_elements_added` | not used here |
//! | `max_seq_id` | before 0.5.6 the segment's position, since then what it was at the upgrade; None in new indexes |
//! | `id_to_label` | record id to label: which records the index holds |
//! | `label_to_id`, `id_to_seq_id` | not used here |
//!
//! Memory is bounded by the length of the file: texts are kept as hashes of 16 bytes, at most one
//! for every eight bytes read in the memo and one for every four in the dictionaries; what is read
//! of one text at a time has a limit of its own.

mod input;
mod machine;
mod operand;
mod text;
mod value;

use densite_disk::hash::xxh3_128;
use std::fmt;
use std::io::BufRead;

/// Files longer than this are refused: an index of some 30 million records.
pub const LEN_MAX: u64 = 2 << 30;

/// What is wrong with a pickle, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PickleError {
    /// Offset in bytes of the instruction that could not be carried out.
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

/// A text, as far as comparing goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TextHash([u8; 16]);

impl TextHash {
    pub(crate) fn of(text: &[u8]) -> TextHash {
        TextHash(xxh3_128(text).to_le_bytes())
    }
}

/// What `index_metadata.pickle` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexMetadata {
    /// `max_seq_id`; `None` when it is not there, is None or is negative ("nothing yet").
    pub max_seq_id: Option<i64>,
    /// Ids of the records that the index holds, sorted and without repetition.
    ids: Vec<TextHash>,
}

impl IndexMetadata {
    /// Reads a pickle of `len` bytes.
    ///
    /// # Errors
    /// Where and why it is not one of Chroma's: damage, a part missing, an instruction or a class
    /// that none of Chroma's has.
    pub fn read(from: impl BufRead, len: u64) -> Result<IndexMetadata, PickleError> {
        let (max_seq_id, mut ids) = machine::run(input::Input::new(from, len))?;
        ids.sort_unstable();
        ids.dedup();
        Ok(IndexMetadata {
            max_seq_id: max_seq_id.filter(|n| *n >= 0),
            ids,
        })
    }

    /// How many records the index holds.
    pub fn records(&self) -> usize {
        self.ids.len()
    }

    /// Whether the index holds the record of this id.
    pub fn holds(&self, id: &[u8]) -> bool {
        self.holds_hash(TextHash::of(id))
    }

    pub(crate) fn holds_hash(&self, id: TextHash) -> bool {
        self.ids.binary_search(&id).is_ok()
    }
}

#[cfg(test)]
mod tests;
