//! Decoding the blocks of a zstd frame, with a decoder that each thread keeps.

use super::Dictionary;
use super::frame_header::FrameHeader;
use std::cell::RefCell;
use zstd::zstd_safe::{self, DCtx};

/// The decoder and the buffer that a thread keeps.
struct Decoder {
    context: DCtx<'static>,
    frame: Vec<u8>,
}

thread_local! {
    static DECODER: RefCell<Option<Decoder>> = const { RefCell::new(None) };
}

/// Decodes the blocks of a zstd frame into `out`. They must fill it exactly.
///
/// # Errors
/// What is wrong with them, in a few words.
pub(super) fn decode_blocks(
    payload: &[u8],
    dict: Option<&Dictionary>,
    out: &mut [u8],
) -> Result<(), String> {
    with_decoder(|decoder| decoder.run(payload, dict, out))
}

/// Runs `job` with the decoder of this thread, or with a new one if that one is in use.
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
                    return Err(format!("dictionary {} is not a zstd dictionary", dict.id()));
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
