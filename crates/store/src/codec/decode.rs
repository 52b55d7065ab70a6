//! Decoding: the page back from its payload.

use std::cell::RefCell;

use zstd::zstd_safe::{self, DCtx};

use super::frame_header::FrameHeader;
use super::{CodecId, Dictionary, typed};

/// What a thread keeps to decode with.
struct Decoder {
    context: DCtx<'static>,
    frame: Vec<u8>,
}

thread_local! {
    static DECODER: RefCell<Option<Decoder>> = const { RefCell::new(None) };
}

/// Decodes `payload` into `out`, which must be filled exactly. An error says in a few words what is wrong with the
/// payload; `out` then holds anything. Any bytes may be given.
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
            "payload of {} bytes where there should be none",
            payload.len()
        )),
        CodecId::ZSTD => with_decoder(|decoder| decoder.run(payload, None, out)),
        CodecId::ZSTD_DICT => match dict {
            Some(dict) => with_decoder(|decoder| decoder.run(payload, Some(dict), out)),
            None => Err("the payload needs a dictionary and none is known".to_owned()),
        },
        CodecId::TYPED => typed::decode_page(payload, dict, out),
        CodecId::TYPED_RUN => typed::decode_run(payload, dict, out),
        CodecId::ARCHIVE => typed::decode_archive(payload, dict, out),
        CodecId::JOINED => typed::decode_joined(payload, dict, out),
        CodecId(number) => Err(format!("codec {number} is not known to this program")),
    }
}

/// Runs `job` with the decoder of this thread, or with one of its own where that one is not to be had.
fn with_decoder(mut job: impl FnMut(&mut Decoder) -> Result<(), String>) -> Result<(), String> {
    let mut with = |slot: &mut Option<Decoder>| {
        if slot.is_none() {
            *slot = DCtx::try_create().map(|context| Decoder {
                context,
                frame: Vec::new(),
            });
        }
        match slot {
            Some(decoder) => job(decoder),
            None => Err("no memory for a decoder".to_owned()),
        }
    };
    let here = DECODER.try_with(|cell| cell.try_borrow_mut().ok().map(|mut slot| with(&mut slot)));
    match here {
        Ok(Some(result)) => result,
        _ => with(&mut None),
    }
}

impl Decoder {
    fn run(
        &mut self,
        payload: &[u8],
        dict: Option<&Dictionary>,
        out: &mut [u8],
    ) -> Result<(), String> {
        self.frame.clear();
        self.frame
            .extend_from_slice(FrameHeader::new(out.len()).bytes());
        self.frame.extend_from_slice(payload);
        let result = match dict {
            Some(dict) => {
                let Some(prepared) = dict.decoder() else {
                    return Err(format!("dictionary {} is no dictionary", dict.id()));
                };
                self.context
                    .decompress_using_ddict(out, &self.frame, prepared)
            }
            None => self.context.decompress(out, &self.frame),
        };
        match result {
            Ok(len) if len == out.len() => Ok(()),
            Ok(len) => Err(format!(
                "zstd gave {len} bytes for {} bytes of page",
                out.len()
            )),
            Err(code) => Err(format!("zstd: {}", zstd_safe::get_error_name(code))),
        }
    }
}
