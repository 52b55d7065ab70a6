//! Codecs: how the bytes of a page (or of a run of pages) are stored.
//!
//! Every frame carries the number of its codec (docs/FORMAT.md, Codecs). Numbers never get a second
//! meaning. The header of a zstd frame is not stored, because it follows from the raw length: see
//! `frame_header`. [`encode()`] strips it and [`decode()`] restores it.
//!
//! Invariant: [`decode()`] of hostile bytes is an error or some page, never a panic.

mod blocks;
mod decode;
mod dictionary;
pub(crate) mod dictionary_choice;
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

macro_rules! codecs {
    ($($(#[$doc:meta])* $codec:ident = $number:literal, $name:literal;)*) => {
        impl CodecId {
            $($(#[$doc])* pub const $codec: CodecId = CodecId($number);)*

            /// All codecs, in the order of their numbers.
            pub const ALL: &[CodecId] = &[$(CodecId::$codec),*];

            /// Its name for users; "unknown" if this program does not know the number.
            pub fn name(self) -> &'static str {
                match self {
                    $(CodecId::$codec => $name,)*
                    _ => "unknown",
                }
            }
        }
    };
}

codecs! {
    /// The bytes as they are.
    RAW = 0, "raw";
    /// zstd without a dictionary.
    ZSTD = 1, "zstd";
    /// zstd with a dictionary.
    ZSTD_DICT = 2, "zstd+dict";
    /// Pages as columns, with a model or without.
    TYPED = 3, "typed";
    /// All bytes zero; the payload is empty.
    ZERO = 4, "zero";
    /// A run of pages, each as by [`CodecId::TYPED`].
    TYPED_RUN = 5, "typed run";
    /// A typed run, coded by zstd.
    ARCHIVE = 6, "archive";
    /// A run of sparse pages, all cells as those of one page by [`CodecId::TYPED`].
    JOINED = 7, "joined";
    /// A run of pages with links, which follow from their numbers; the rest coded by zstd, with a
    /// dictionary or without.
    LINKED = 8, "linked";
    /// A page of an FTS5 index: terms, and the documents and positions of each.
    POSTINGS = 9, "postings";
}

#[cfg(test)]
mod tests;
