//! Codecs: how the bytes of a page (or of a run of pages) are stored.
//!
//! Every frame carries the number of its codec (docs/FORMAT.md, Codecs). Numbers never get a second
//! meaning. The header of a zstd frame is not stored, because it follows from the raw length: see
//! `frame_header`. [`encode()`] strips it and [`decode()`] restores it.
//!
//! Invariant: [`decode()`] of hostile bytes is an error or some page, never a panic.

mod blocks;
pub(crate) mod choice;
mod decode;
mod dictionary;
mod effort;
mod encode;
pub mod family;
mod frame_header;
pub mod learn;
pub(crate) mod linked;
mod packed;
mod page;
mod typed;

pub use decode::decode;
pub use dictionary::Dictionary;
pub use encode::{Encoded, HURRY_LEVEL, encode};
pub use page::{PageSettings, encode_joined, encode_pages};

/// The number of a codec, as frames carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodecId(pub u8);

impl CodecId {
    /// The bytes as they are.
    pub const RAW: CodecId = CodecId(0);
    /// zstd without a dictionary.
    pub const ZSTD: CodecId = CodecId(1);
    /// zstd with a dictionary.
    pub const ZSTD_DICT: CodecId = CodecId(2);
    /// Pages as columns, with a model or without.
    pub const TYPED: CodecId = CodecId(3);
    /// All bytes zero; the payload is empty.
    pub const ZERO: CodecId = CodecId(4);
    /// A run of pages, each as by [`CodecId::TYPED`].
    pub const TYPED_RUN: CodecId = CodecId(5);
    /// A typed run, coded by zstd.
    pub const ARCHIVE: CodecId = CodecId(6);
    /// A run of sparse pages, all cells as those of one page by [`CodecId::TYPED`].
    pub const JOINED: CodecId = CodecId(7);
    /// A run of pages with links, which follow from their numbers; the rest coded by zstd, with a
    /// dictionary or without.
    pub const LINKED: CodecId = CodecId(8);
    /// A page of an FTS5 index: terms, and the documents and positions of each.
    pub const POSTINGS: CodecId = CodecId(9);

    /// Its name for users; "unknown" if this program does not know the number.
    pub fn name(self) -> &'static str {
        match self {
            CodecId::RAW => "raw",
            CodecId::ZSTD => "zstd",
            CodecId::ZSTD_DICT => "zstd+dict",
            CodecId::TYPED => "typed",
            CodecId::ZERO => "zero",
            CodecId::TYPED_RUN => "typed run",
            CodecId::ARCHIVE => "archive",
            CodecId::JOINED => "joined",
            CodecId::LINKED => "linked",
            CodecId::POSTINGS => "postings",
            _ => "unknown",
        }
    }
}

#[cfg(test)]
mod tests;
