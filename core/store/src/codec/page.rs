//! Chooses the codec of a page by its size and the cost of decoding; see [`encode_pages`]. Sparse
//! pages that can share a frame are joined if `typed` would be taken for them without trying more.
//! No codec stores unallocated bytes: see `densite_typed::scrub`.

use super::encode::{Encoded, encode, is_zero};
use super::{CodecId, Dictionary, effort, linked, typed};
use crate::CodecChoice;
use densite_typed::PageContext;

/// Typed payloads of up to half of the page are good.
const GOOD: usize = 2;
/// Without a model: up to a quarter.
const GOOD_UNTRAINED: usize = 4;
/// zstd takes longer to decode, so it must save one part in so many of the page.
const SLOWER: usize = 128;

/// The settings that pages are encoded with.
#[derive(Debug, Clone, Copy)]
pub struct PageSettings<'a> {
    /// zstd level, -7 to 22.
    pub level: i32,
    /// Which codecs are allowed.
    pub choice: CodecChoice,
    /// The dictionaries and models of the pages' family.
    pub family: Option<&'a Dictionary>,
    /// Those for all families without a dictionary of their own.
    pub other: Option<&'a Dictionary>,
    /// The payload is decoded again and compared. If false, the caller does that before the pages
    /// are dropped.
    pub checked: bool,
}

/// Encodes `raw`, a page or a run of pages of `page_size` bytes, and appends the payload to `out`.
/// `context` is the place of the first page.
///
/// `kept` becomes what decoding it gives, which is `raw` without unallocated bytes. If
/// `settings.checked` is false, `kept` is unspecified. Never fails: bytes that do not become
/// smaller are stored raw.
///
/// The rule:
///
/// 1. All zeros: `zero`.
/// 2. A family that has a model, or nothing: `typed` is tried first. It decodes faster than zstd
///    and is nearly always smaller. A result of at most one `GOOD`th of the page is taken without
///    trying more (without a model: one `GOOD_UNTRAINED`th).
/// 3. Otherwise, a page of an FTS5 index is tried as `postings`. It is taken if it is smaller than
///    `typed`, and zstd is then not tried.
/// 4. Otherwise zstd is tried too, with the family's dictionary, or that of OTHER, or none. It is
///    taken if it saves more than one part in `SLOWER` of the page. In a run of overflow pages,
///    their links are taken out before: `linked`.
/// 5. A page that does not become smaller: `raw`.
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
    let coded = before + done.map_or(0, |(_, len)| len);
    if settings.tries_postings(raw.len() == page_size) && densite_typed::postings::encode(kept, out)
    {
        if done.is_some_and(|(_, len)| out.len() - coded >= len) {
            out.truncate(coded);
        } else {
            out.drain(before..coded);
            return Encoded {
                codec: CodecId::POSTINGS,
                dict_id: 0,
            };
        }
    }
    let dictionary = |d: &&Dictionary| d.codec() == CodecId::ZSTD_DICT;
    let dict = settings.family.filter(dictionary);
    let dict = dict.or(settings.other.filter(dictionary));
    let level = effort::level(kept, page_size, context.number, settings.level);
    let zstd = linked::encode_linked(kept, page_size, context.number, level, dict, out)
        .unwrap_or_else(|| encode(kept, level, dict, CodecChoice::Zstd, out));
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

/// Encodes `raw`, a run of sparse pages of `page_size` bytes, as joined pages, and appends the
/// payload to `out`. `context` is the place of the first page, and `kept` becomes what decoding it
/// gives. Returns `None` and appends nothing if they cannot be joined, or if other codecs may be
/// better.
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

    /// Whether postings are looked for in a page, if it has a frame of its own.
    fn tries_postings(&self, is_alone: bool) -> bool {
        is_alone && matches!(self.choice, CodecChoice::Auto | CodecChoice::Archive)
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
