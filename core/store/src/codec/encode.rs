//! Encoding: the smallest form that the chosen codecs give.

use std::cell::RefCell;

use zstd::zstd_safe::{self, CCtx};

use super::{CodecId, Dictionary, dictionary, frame_header};
use crate::CodecChoice;

/// The level for frames that must be stored quickly, in place of the level of the settings.
pub const HURRY_LEVEL: i32 = 1;

/// A payload that does not save one byte in so many is stored raw: decoding it would cost more than
/// it saves.
const WORTH: usize = 64;

/// How a payload was encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// The codec.
    pub codec: CodecId,
    /// The number of its dictionary, 0 without one.
    pub dict_id: u32,
}

/// The encoder and the buffer that a thread keeps.
struct Encoder {
    context: CCtx<'static>,
    frame: Vec<u8>,
}

thread_local! {
    static ENCODER: RefCell<Option<Encoder>> = const { RefCell::new(None) };
}

/// Encodes `raw` by one of the general codecs and appends the payload to `out`. `level` is zstd's,
/// -7 to 22; other levels are clamped. Never fails: bytes that do not become smaller are stored
/// raw.
pub fn encode(
    raw: &[u8],
    level: i32,
    dict: Option<&Dictionary>,
    choice: CodecChoice,
    out: &mut Vec<u8>,
) -> Encoded {
    let codec = match choice {
        CodecChoice::Raw => CodecId::RAW,
        _ if is_zero(raw) => {
            return Encoded {
                codec: CodecId::ZERO,
                dict_id: 0,
            };
        }
        _ => {
            let (low, high) = dictionary::LEVELS;
            let level = level.clamp(low, high);
            let here = ENCODER.try_with(|cell| match cell.try_borrow_mut() {
                Ok(mut slot) => zstd(&mut slot, raw, level, dict, out),
                Err(_) => zstd(&mut None, raw, level, dict, out),
            });
            // The thread is ending and has dropped its encoder: use one for this page alone.
            here.unwrap_or_else(|_| zstd(&mut None, raw, level, dict, out))
        }
    };
    if codec == CodecId::RAW {
        out.extend_from_slice(raw);
    }
    Encoded {
        codec,
        dict_id: if codec == CodecId::ZSTD_DICT {
            dict.map_or(0, Dictionary::id)
        } else {
            0
        },
    }
}

/// Appends the zstd payload of `raw` to `out` and returns its codec. If it saves too little,
/// appends nothing and returns RAW.
fn zstd(
    slot: &mut Option<Encoder>,
    raw: &[u8],
    level: i32,
    dict: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> CodecId {
    if slot.is_none() {
        *slot = CCtx::try_create().map(|context| Encoder {
            context,
            frame: Vec::new(),
        });
    }
    let Some(Encoder { context, frame }) = slot else {
        return CodecId::RAW;
    };
    frame.clear();
    // Room for any outcome, so that zstd does not have to check for the end.
    frame.reserve(zstd_safe::compress_bound(raw.len()));
    let (codec, result) = match dict.and_then(|dict| dict.encoder(level)) {
        Some(dict) => (
            CodecId::ZSTD_DICT,
            context.compress_using_cdict(frame, raw, dict),
        ),
        None => (CodecId::ZSTD, context.compress(frame, raw, level)),
    };
    if result.is_err() {
        return CodecId::RAW;
    }
    match frame_header::blocks(frame) {
        Some(blocks) if blocks.len() + raw.len() / WORTH < raw.len() => {
            out.extend_from_slice(blocks);
            codec
        }
        _ => CodecId::RAW,
    }
}

/// Whether every byte is zero.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes
        .chunks(64)
        .all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}
