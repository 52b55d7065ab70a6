//! What is trained for a family of pages, a zstd dictionary or a model of the typed codec, prepared
//! for use by many threads.

use std::fmt;
use std::sync::OnceLock;

use densite_typed::Model;
use zstd::zstd_safe::{CDict, DDict};

use super::CodecId;

/// The lowest and the highest zstd level.
pub(super) const LEVELS: (i32, i32) = (-7, 22);
const LEVEL_COUNT: usize = 30;

/// The first bytes of a zstd dictionary with entropy tables.
const MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// A dictionary or model: its number in the store, its codec, and its bytes. Their prepared forms
/// are made when first needed: one for decoding, and one for each level of encoding. Share it by
/// `Arc`.
///
/// The number inside the bytes of a zstd dictionary is set to zero, so that zstd does not repeat it
/// in each frame. Frames of the store carry `id`.
pub struct Dictionary {
    id: u32,
    codec: CodecId,
    bytes: Vec<u8>,
    model: OnceLock<Option<Model>>,
    decoder: OnceLock<Option<DDict<'static>>>,
    encoders: [OnceLock<Option<CDict<'static>>>; LEVEL_COUNT],
}

impl Dictionary {
    /// A dictionary with number `id`, for [`CodecId::TYPED`], or for [`CodecId::ZSTD_DICT`] with
    /// any other codec (early files say 0). The bytes may come from a file. If they are not a
    /// dictionary, encoding does not use them and decoding reports an error.
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

    /// The model; `None` if the bytes are not a model.
    pub fn model(&self) -> Option<&Model> {
        if self.codec != CodecId::TYPED {
            return None;
        }
        self.model
            .get_or_init(|| Model::from_bytes(&self.bytes))
            .as_ref()
    }

    /// The bytes to store.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes to store, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The prepared form for decoding; `None` if the bytes are not a dictionary.
    pub(super) fn decoder(&self) -> Option<&DDict<'static>> {
        if self.codec != CodecId::ZSTD_DICT {
            return None;
        }
        self.decoder
            .get_or_init(|| DDict::try_create(&self.bytes))
            .as_ref()
    }

    /// The prepared form for encoding at `level`; `None` if the bytes are not a dictionary.
    pub(super) fn encoder(&self, level: i32) -> Option<&CDict<'static>> {
        if self.codec != CodecId::ZSTD_DICT {
            return None;
        }
        let (low, high) = LEVELS;
        let place = self
            .encoders
            .get(usize::try_from(level.clamp(low, high) - low).ok()?)?;
        // Level 0 is zstd's default level.
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
