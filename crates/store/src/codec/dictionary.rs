//! What was learned about a family of pages, a zstd dictionary or a model of the typed codec, prepared for use by many threads.

use std::fmt;
use std::sync::OnceLock;

use densite_typed::Model;
use zstd::zstd_safe::{CDict, DDict};

use super::CodecId;

/// Lowest and highest level that pages are coded with.
pub(super) const LEVELS: (i32, i32) = (-7, 22);
const LEVEL_COUNT: usize = 30;

/// The number that a zstd dictionary with entropy tables begins with.
const MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// A dictionary (or model): its number in the store, the codec it is for, its bytes, and what is prepared from them when first
/// needed: by zstd once for decoding and once for each level of encoding. Share it by `Arc`.
///
/// The number inside the bytes of a zstd dictionary is zero, so that zstd does not repeat it in each frame: frames of the store carry `id`.
pub struct Dictionary {
    id: u32,
    codec: CodecId,
    bytes: Vec<u8>,
    model: OnceLock<Option<Model>>,
    decoder: OnceLock<Option<DDict<'static>>>,
    encoders: [OnceLock<Option<CDict<'static>>>; LEVEL_COUNT],
}

impl Dictionary {
    /// Takes a dictionary of number `id`, for [`CodecId::TYPED`] or, with any other codec (early files say 0), [`CodecId::ZSTD_DICT`]. The bytes may come from a file: if they
    /// are no dictionary, encoding does without and decoding reports it.
    pub fn new(id: u32, codec: CodecId, mut bytes: Vec<u8>) -> Dictionary {
        let codec = match codec {
            CodecId::TYPED => CodecId::TYPED,
            _ => CodecId::ZSTD_DICT,
        };
        if codec == CodecId::ZSTD_DICT
            && bytes.starts_with(&MAGIC)
            && let Some(number) = bytes.get_mut(4..8)
        {
            number.fill(0);
        }
        Dictionary {
            id,
            codec,
            bytes,
            model: OnceLock::new(),
            decoder: OnceLock::new(),
            encoders: [const { OnceLock::new() }; LEVEL_COUNT],
        }
    }

    /// Its number in the store.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The codec it is for.
    pub fn codec(&self) -> CodecId {
        self.codec
    }

    /// The model; `None` when it is none.
    pub fn model(&self) -> Option<&Model> {
        if self.codec != CodecId::TYPED {
            return None;
        }
        self.model
            .get_or_init(|| Model::from_bytes(&self.bytes))
            .as_ref()
    }

    /// Its bytes, as they are to be stored.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its bytes, for its owner.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Prepared for decoding; `None` when the bytes are no dictionary.
    pub(super) fn decoder(&self) -> Option<&DDict<'static>> {
        if self.codec != CodecId::ZSTD_DICT {
            return None;
        }
        self.decoder
            .get_or_init(|| DDict::try_create(&self.bytes))
            .as_ref()
    }

    /// Prepared for encoding at `level`; `None` when the bytes are no dictionary.
    pub(super) fn encoder(&self, level: i32) -> Option<&CDict<'static>> {
        if self.codec != CodecId::ZSTD_DICT {
            return None;
        }
        let (low, high) = LEVELS;
        let place = self
            .encoders
            .get(usize::try_from(level.clamp(low, high) - low).ok()?)?;
        // zstd takes level 0 for "the default", and so do we.
        place
            .get_or_init(|| CDict::try_create(&self.bytes, level))
            .as_ref()
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Dictionary {{ id: {}, {}, {} bytes }}",
            self.id,
            self.codec.name(),
            self.bytes.len()
        )
    }
}
