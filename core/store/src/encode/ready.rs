//! Frames made before their commit, and when a commit may use them.

use super::encode_settings::{EncodeSettings, Frame};
use crate::codec::family::Family;
use crate::codec::{self, CodecId, Dictionary};
use crate::format::MAX_DICT;
use crate::format::record::Record;

use densite_typed::PageContext;
use std::sync::Arc;

/// How many pages the database may have grown by since a page was encoded. Scrubbing allows for
/// 2^24 (`densite_typed::scrub`). This is the share of pre-encoded frames.
const GROWTH_PAGES: u32 = 1 << 20;

/// Numbers from here on belong to dictionaries that no commit has named yet. A stored dictionary
/// never has one.
pub(crate) const UNNAMED: u32 = MAX_DICT;

/// A page encoded before its commit.
pub(crate) struct PreEncodedFrame {
    pub(crate) record: Record,
    pub(crate) payload: Vec<u8>,
    pub(crate) family: Family,
    /// The dictionary or model that it was encoded with, if any.
    dict: Option<Arc<Dictionary>>,
    pages: u32,
    reserved: usize,
}

/// A frame that was found for a page.
pub(crate) struct ReadyFrame {
    pub(crate) frame: Arc<PreEncodedFrame>,
    /// The page that it was made from was still in memory, and is the same. If false, the frame
    /// must be decoded and compared.
    pub(crate) compared: bool,
}

/// The dictionary of that number, if pages of the family are encoded with it.
fn dictionary(set: &EncodeSettings, family: Family, id: u32) -> Option<&Arc<Dictionary>> {
    dictionaries(set, family).find(|d| d.id() == id)
}

/// The dictionaries that pages of the family can be encoded with.
fn dictionaries(set: &EncodeSettings, family: Family) -> impl Iterator<Item = &Arc<Dictionary>> {
    let of = |family| set.dicts.get(&family).into_iter().flatten();
    of(family).chain(of(Family::OTHER))
}

impl PreEncodedFrame {
    /// A frame of one page that was encoded with these settings.
    pub(crate) fn of(frame: Frame, set: &EncodeSettings) -> PreEncodedFrame {
        PreEncodedFrame {
            dict: dictionary(set, frame.family, frame.record.model).cloned(),
            record: frame.record,
            payload: frame.payload,
            family: frame.family,
            pages: set.pages,
            reserved: set.reserved,
        }
    }

    /// Whether a commit with these settings can use the frame unchanged. Its dictionary must still
    /// be one of its family's, and the size of the database must not matter for scrubbing.
    /// Comparing numbers is not enough: if the commit of a dictionary was given up, its number can
    /// now belong to another one.
    pub(crate) fn holds(&self, set: &EncodeSettings) -> bool {
        let named = self.named(set);
        named.is_some_and(|dict| dict.map_or(0, |d| d.id()) == self.record.model)
    }

    /// The dictionary that it was encoded with, as a commit with these settings names it, possibly
    /// by another number. `None` if the commit cannot use the frame.
    pub(crate) fn named<'a>(&self, set: &'a EncodeSettings) -> Option<Option<&'a Arc<Dictionary>>> {
        if self.reserved != set.reserved || set.pages > self.pages.saturating_add(GROWTH_PAGES) {
            return None;
        }
        if self.record.model == 0 {
            return Some(None);
        }
        let mine = self.dict.as_ref()?;
        let same = |now: &&'a Arc<Dictionary>| {
            let alike = now.codec() == mine.codec() && now.bytes() == mine.bytes();
            Arc::ptr_eq(now, mine) || alike && (now.id() == mine.id() || mine.id() >= UNNAMED)
        };
        dictionaries(set, self.family).find(same).map(Some)
    }

    /// The dictionary that it was encoded with, if no commit has named that yet.
    pub(crate) fn unnamed(&self) -> Option<&Arc<Dictionary>> {
        self.dict.as_ref().filter(|dict| dict.id() >= UNNAMED)
    }

    /// Whether this is the frame of that page: decoded with `dict` it gives the page, except for
    /// unallocated bytes that need not be kept. `decoded` becomes the decoded page.
    pub(crate) fn is_of(
        &self,
        (number, page): (u32, &[u8]),
        dict: Option<&Dictionary>,
        set: &EncodeSettings,
        decoded: &mut Vec<u8>,
    ) -> bool {
        decoded.resize(page.len(), 0);
        let context = PageContext {
            number,
            pages: set.pages,
            reserved: set.reserved,
        };
        codec::decode(CodecId(self.record.codec), &self.payload, dict, decoded).is_ok()
            && densite_typed::is_scrubbed(page, &context, decoded)
    }
}
