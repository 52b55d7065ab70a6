//! The typed codec for pages and for runs of them.
//!
//! The payload of a page is that of `densite_typed`. The payload of a run begins with the log2 of
//! its page size (1 byte) and the lengths of its pages' payloads (3 bytes each). The payloads
//! follow. The payload of an archive is the length of a run's payload (4 bytes) and its zstd form.
//! The payload of joined pages is that of `densite_typed`.

use super::{CodecId, Dictionary, blocks::decode_blocks, encode::encode};
use crate::CodecChoice;
use densite_typed::{Model, PageContext};
use std::sync::LazyLock;

/// The model for pages of a family without one.
static EMPTY: LazyLock<Model> = LazyLock::new(Model::empty);

/// Bytes of a length in a run.
const LEN: usize = 3;
/// log2 of the possible page sizes.
const PAGE_LOG2: std::ops::RangeInclusive<u8> = 9..=16;

/// Appends the payload of `raw` to `out`: pages of `page_size` bytes, the first of which is at
/// `context`. `kept` becomes what decoding it gives. Returns `None`, and leaves `out` as before, if
/// a page cannot be coded.
pub(super) fn encode_typed(
    raw: &[u8],
    page_size: usize,
    context: &PageContext,
    dict: Option<&Dictionary>,
    kept: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Option<CodecId> {
    let model = model_of(dict).ok()?;
    let before = out.len();
    let done = if raw.len() == page_size {
        densite_typed::encode(raw, context, model, kept, out).then_some(CodecId::TYPED)
    } else {
        encode_run(raw, page_size, context, model, kept, out).map(|()| CodecId::TYPED_RUN)
    };
    if done.is_none() {
        out.truncate(before);
    }
    done
}

/// Appends the payload of a page to `out`, without decoding it again. Returns `None`, and leaves
/// `out` as before, if it cannot be coded.
pub(super) fn encode_unchecked(
    page: &[u8],
    context: &PageContext,
    dict: Option<&Dictionary>,
    out: &mut Vec<u8>,
) -> Option<CodecId> {
    let model = model_of(dict).ok()?;
    densite_typed::encode_unchecked(page, context, model, out).then_some(CodecId::TYPED)
}

fn encode_run(
    raw: &[u8],
    page_size: usize,
    context: &PageContext,
    model: &Model,
    kept: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let pages = raw.len() / page_size;
    out.push(page_size.trailing_zeros() as u8);
    let lens = out.len();
    out.resize(lens + pages * LEN, 0);
    kept.clear();
    let mut page_kept = Vec::new();
    for (i, (page, number)) in raw.chunks(page_size).zip(context.number..).enumerate() {
        let context = PageContext { number, ..*context };
        let before = out.len();
        densite_typed::encode(page, &context, model, &mut page_kept, out).then_some(())?;
        let len = (out.len() - before) as u32;
        let at = lens + i * LEN;
        out.get_mut(at..at + LEN)?
            .copy_from_slice(len.to_le_bytes().get(..LEN)?);
        kept.extend_from_slice(&page_kept);
    }
    Some(())
}

/// Appends the payload of `raw`, sparse pages of `page_size` bytes, as joined pages. The first page
/// is at `context`, and `kept` becomes what decoding it gives. Returns `None`, and leaves `out` as
/// before, if they cannot be joined.
pub(super) fn encode_joined(
    raw: &[u8],
    page_size: usize,
    context: &PageContext,
    dict: Option<&Dictionary>,
    kept: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let model = model_of(dict).ok()?;
    densite_typed::encode_joined(raw, page_size, context, model, kept, out).then_some(())
}

/// Decodes the payload of joined pages.
pub(super) fn decode_joined(
    payload: &[u8],
    dict: Option<&Dictionary>,
    out: &mut [u8],
) -> Result<(), String> {
    densite_typed::decode_joined(payload, model_of(dict)?, out).map_err(|e| e.to_string())
}

/// Decodes a page's payload.
pub(super) fn decode_page(
    payload: &[u8],
    dict: Option<&Dictionary>,
    out: &mut [u8],
) -> Result<(), String> {
    densite_typed::decode(payload, model_of(dict)?, out).map_err(|e| e.to_string())
}

/// Decodes a run's payload.
pub(super) fn decode_run(
    payload: &[u8],
    dict: Option<&Dictionary>,
    out: &mut [u8],
) -> Result<(), String> {
    take_run(payload, model_of(dict)?, out)
        .ok_or_else(|| "typed payload that no run of pages has".to_owned())
}

/// Appends the archive form of the payload of a run or a page. If it is not smaller, appends
/// nothing and returns false.
pub(super) fn pack(payload: &[u8], level: i32, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    let coded = encode(payload, level, None, CodecChoice::Zstd, out);
    let smaller = coded.codec == CodecId::ZSTD && out.len() - before < payload.len();
    if !smaller {
        out.truncate(before);
    }
    smaller
}

/// Decodes an archive's payload.
pub(super) fn decode_archive(
    payload: &[u8],
    dict: Option<&Dictionary>,
    out: &mut [u8],
) -> Result<(), String> {
    let short = || "archive payload without its length".to_owned();
    let (len, packed) = payload.split_first_chunk().ok_or_else(short)?;
    let len = u32::from_le_bytes(*len) as usize;
    // A run's payload is never longer than its pages and their lengths together.
    if len > out.len() + out.len() / 64 + 64 {
        return Err(format!("archive payload of {len} bytes"));
    }
    let mut run = vec![0; len];
    decode_blocks(packed, None, &mut run)?;
    decode_run(&run, dict, out)
}

fn model_of(dict: Option<&Dictionary>) -> Result<&Model, String> {
    match dict {
        None => Ok(&*EMPTY),
        Some(dict) => dict
            .model()
            .ok_or_else(|| format!("dictionary {} is not a model", dict.id())),
    }
}

fn take_run(payload: &[u8], model: &Model, out: &mut [u8]) -> Option<()> {
    let (log2, rest) = payload.split_first()?;
    if !PAGE_LOG2.contains(log2) || !out.len().is_multiple_of(1 << log2) {
        return None;
    }
    let page_size = 1usize << log2;
    let (lens, mut rest) = rest.split_at_checked(out.len() / page_size * LEN)?;
    for (page, len) in out.chunks_mut(page_size).zip(lens.chunks(LEN)) {
        let mut wide = [0; 4];
        wide.get_mut(..LEN)?.copy_from_slice(len);
        let (now, later) = rest.split_at_checked(u32::from_le_bytes(wide) as usize)?;
        densite_typed::decode(now, model, page).ok()?;
        rest = later;
    }
    rest.is_empty().then_some(())
}
