//! Which codec a page gets.
//!
//! The rule, which weighs size against the cost of decoding:
//!
//! 1. All zeros: `zero`.
//! 2. A family that has a model, or nothing: `typed` is tried first. It decodes faster than zstd and is nearly always
//!    smaller: what it makes smaller than [`GOOD`] of the page is taken without trying more (without a model:
//!    than [`GOOD_UNTRAINED`]).
//! 3. Otherwise zstd is tried too, with the family's dictionary, or that of OTHER, or none; it is taken if it saves more than
//!    one part in [`SLOWER`] of the page.
//! 4. What does not shrink: `raw`.
//!
//! Sparse pages that may share a frame are joined if `typed` would be taken for them, without trying more.
//!
//! Unallocated bytes are not stored, whichever it is: see `densite_typed::scrub`.

use super::encode::{Encoded, encode, is_zero};
use super::{CodecId, Dictionary, typed};
use crate::CodecChoice;
use densite_typed::PageContext;

/// Typed payloads up to a half of the page are good.
const GOOD: usize = 2;
/// Without a model: up to a quarter.
const GOOD_UNTRAINED: usize = 4;
/// zstd takes longer to decode; it must save one part in so many of the page.
const SLOWER: usize = 128;

/// What pages are encoded by.
#[derive(Debug, Clone, Copy)]
pub struct PageSettings<'a> {
    /// zstd level, -7 to 22.
    pub level: i32,
    /// Which codecs may be used.
    pub choice: CodecChoice,
    /// The dictionaries and models of the pages' family.
    pub family: Option<&'a Dictionary>,
    /// Those for all families without a dictionary of their own.
    pub other: Option<&'a Dictionary>,
    /// What comes out is decoded again and compared. Else the caller does that before the pages are gone.
    pub checked: bool,
}

/// Encodes `raw`, a page or a run of pages of `page_size` bytes, the first of which is at `context`, appending the payload to `out`. `kept`
/// becomes what decoding it gives: `raw` without unallocated bytes (anything, if that is not to be checked). Never fails: what cannot be made smaller is stored as it is.
pub fn encode_pages(
    raw: &[u8],
    page_size: usize,
    context: &PageContext,
    settings: &PageSettings<'_>,
    kept: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Encoded {
    let choice = settings.choice;
    if choice == CodecChoice::Raw || is_zero(raw) {
        scrub(raw, page_size, context, kept);
        return encode(kept, settings.level, None, choice, out);
    }
    let model = settings.model();
    let before = out.len();
    let mut done = None;
    if settings.tries_typed()
        && let Some(codec) = settings.encode_typed(raw, page_size, context, kept, out)
        && out.len() - before < raw.len()
    {
        let mut coded = Encoded {
            codec,
            dict_id: model.map_or(0, Dictionary::id),
        };
        if choice == CodecChoice::Archive && codec == CodecId::TYPED_RUN {
            let run = out.split_off(before);
            if typed::pack(&run, settings.level, out) {
                coded.codec = CodecId::ARCHIVE;
            } else {
                out.extend_from_slice(&run);
            }
        }
        let len = out.len() - before;
        if settings.is_good(len, raw.len()) {
            return coded;
        }
        if !settings.checked {
            scrub(raw, page_size, context, kept);
        }
        done = Some((coded, len));
    } else {
        out.truncate(before);
        scrub(raw, page_size, context, kept);
    }
    let dictionary = |d: &&Dictionary| d.codec() == CodecId::ZSTD_DICT;
    let dict = settings.family.filter(dictionary);
    let dict = dict.or(settings.other.filter(dictionary));
    let zstd = encode(kept, settings.level, dict, CodecChoice::Zstd, out);
    let Some((typed, len)) = done else {
        return zstd;
    };
    let zstd_len = out.len() - before - len;
    if zstd_len + raw.len() / SLOWER < len {
        out.drain(before..before + len);
        return zstd;
    }
    out.truncate(before + len);
    typed
}

/// Encodes `raw`, a run of sparse pages of `page_size` bytes, the first of which is at `context`, joined, appending the payload to `out`. `kept` becomes
/// what decoding it gives. `None`, with nothing appended, if they cannot be joined, or if other codecs may be better for them.
pub fn encode_joined(
    raw: &[u8],
    page_size: usize,
    context: &PageContext,
    settings: &PageSettings<'_>,
    kept: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Option<Encoded> {
    if !settings.tries_typed() {
        return None;
    }
    let (before, model) = (out.len(), settings.model());
    typed::encode_joined(raw, page_size, context, model, kept, out)?;
    if !settings.is_good(out.len() - before, raw.len()) {
        out.truncate(before);
        return None;
    }
    Some(Encoded {
        codec: CodecId::JOINED,
        dict_id: model.map_or(0, Dictionary::id),
    })
}

impl<'a> PageSettings<'a> {
    /// The family's model.
    fn model(&self) -> Option<&'a Dictionary> {
        self.family.filter(|d| d.codec() == CodecId::TYPED)
    }

    fn encode_typed(
        &self,
        raw: &[u8],
        page_size: usize,
        context: &PageContext,
        kept: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Option<CodecId> {
        if self.checked || raw.len() != page_size {
            return typed::encode_typed(raw, page_size, context, self.model(), kept, out);
        }
        typed::encode_unchecked(raw, context, self.model(), out)
    }

    fn tries_typed(&self) -> bool {
        match self.choice {
            CodecChoice::Zstd | CodecChoice::Raw => false,
            CodecChoice::Typed => true,
            CodecChoice::Auto | CodecChoice::Archive => {
                self.family.map(Dictionary::codec) != Some(CodecId::ZSTD_DICT)
            }
        }
    }

    /// Whether a typed payload of `len` bytes is small enough to be taken without trying more.
    fn is_good(&self, len: usize, raw: usize) -> bool {
        let good = if self.model().is_some() {
            GOOD
        } else {
            GOOD_UNTRAINED
        };
        len * good <= raw || self.choice == CodecChoice::Typed
    }
}

fn scrub(raw: &[u8], page_size: usize, context: &PageContext, kept: &mut Vec<u8>) {
    kept.clear();
    let mut page_kept = Vec::new();
    for (page, number) in raw.chunks(page_size.max(1)).zip(context.number..) {
        let context = PageContext { number, ..*context };
        densite_typed::scrub(page, &context, &mut page_kept);
        kept.extend_from_slice(&page_kept);
    }
}
