//! Decoding: from a payload to its page.

use super::blocks::decode_blocks;
use super::{CodecId, Dictionary, linked, typed};

/// Decodes `payload`, which can be any bytes, into `out`, and must fill it exactly. An error says
/// in a few words what is wrong with the payload; `out` is then unspecified.
pub fn decode(
    codec: CodecId,
    payload: &[u8],
    dict: Option<&Dictionary>,
    out: &mut [u8],
) -> Result<(), String> {
    match codec {
        CodecId::RAW if payload.len() == out.len() => {
            out.copy_from_slice(payload);
            Ok(())
        }
        CodecId::RAW => Err(format!(
            "raw payload of {} bytes for {} bytes of page",
            payload.len(),
            out.len()
        )),
        CodecId::ZERO if payload.is_empty() => {
            out.fill(0);
            Ok(())
        }
        CodecId::ZERO => Err(format!(
            "a zero page has a payload of {} bytes",
            payload.len()
        )),
        CodecId::ZSTD => decode_blocks(payload, None, out),
        CodecId::ZSTD_DICT => match dict {
            Some(dict) => decode_blocks(payload, Some(dict), out),
            None => Err("the payload needs a dictionary, and there is none".to_owned()),
        },
        CodecId::TYPED => typed::decode_page(payload, dict, out),
        CodecId::TYPED_RUN => typed::decode_run(payload, dict, out),
        CodecId::ARCHIVE => typed::decode_archive(payload, dict, out),
        CodecId::JOINED => typed::decode_joined(payload, dict, out),
        CodecId::LINKED => linked::decode_linked(payload, dict, out),
        CodecId::POSTINGS => {
            densite_typed::postings::decode(payload, out).map_err(|e| e.to_string())
        }
        CodecId(number) => Err(format!("codec {number} is not known to this program")),
    }
}
