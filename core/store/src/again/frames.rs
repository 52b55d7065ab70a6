//! Frames that may be encoded again, and which of them are.

use crate::codec::dictionary_choice::TrainedFamilies;
use crate::codec::family::Family;
use crate::codec::{self, CodecId, Dictionary};
use crate::encode::{EncodeSettings, Frame, Job, encode_batch};
use crate::format::record::{RECORD_LEN, Record, raw_check};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A frame among records that are in memory.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    /// Where its record begins, from the first one.
    pub(crate) at: usize,
    pub(crate) record: Record,
    /// The pages of its run that were not overwritten since: a bit for each.
    pub(crate) live: u64,
}

impl Held {
    /// Bytes of its record.
    pub(crate) fn record_len(&self) -> usize {
        self.record.total_len() as usize
    }

    /// Bytes of its live pages.
    pub(crate) fn raw_len(&self) -> usize {
        (self.live.count_ones() as usize) << self.record.page_log2
    }

    /// Its payload, in the records.
    pub(crate) fn payload<'a>(&self, records: &'a [u8]) -> &'a [u8] {
        let whole = records.get(self.at..self.at + self.record_len());
        whole
            .and_then(|it| it.get(RECORD_LEN..))
            .unwrap_or_default()
    }

    /// Its live pages. `None` if it cannot be decoded, or does not match its checksum.
    pub(crate) fn pages(
        &self,
        records: &[u8],
        dicts: &HashMap<u32, Arc<Dictionary>>,
    ) -> Option<Vec<(u32, Arc<[u8]>)>> {
        let record = &self.record;
        let dict = match record.model {
            0 => None,
            id => Some(&**dicts.get(&id)?),
        };
        let mut raw = vec![0; (1usize << record.page_log2) << record.run_log2];
        codec::decode(CodecId(record.codec), self.payload(records), dict, &mut raw).ok()?;
        if raw_check(&raw) != record.raw_check {
            return None;
        }
        let pages = raw.chunks(1 << record.page_log2).zip(0u8..);
        let live = pages.filter(|(_, slot)| self.live >> slot & 1 == 1);
        let numbered = |(page, slot): (&[u8], u8)| (record.number + u32::from(slot), page.into());
        Some(live.map(numbered).collect())
    }
}

/// Whether a frame is encoded again.
#[derive(PartialEq, Eq)]
enum Due {
    Yes,
    /// If its family has a new model.
    IfFresh,
    No,
}

/// Which frames are encoded again.
pub(crate) struct Outdated {
    /// The families of the dictionaries and models that pages are encoded with now.
    current: HashMap<u32, Family>,
    /// The families that have new ones.
    fresh: HashSet<Family>,
    quick: Quick,
}

/// Which frames were stored without much effort.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quick {
    None,
    /// Those by zstd, at a low level.
    Zstd,
    /// Raw ones.
    Raw,
}

impl Quick {
    fn has(self, codec: u8) -> bool {
        match self {
            Quick::None => false,
            Quick::Zstd => matches!(CodecId(codec), CodecId::ZSTD | CodecId::ZSTD_DICT),
            Quick::Raw => CodecId(codec) == CodecId::RAW,
        }
    }
}

impl Outdated {
    pub(crate) fn new(trained: &TrainedFamilies, fresh: HashSet<Family>, quick: Quick) -> Outdated {
        let of = |(family, dicts): (&Family, &Vec<Arc<Dictionary>>)| {
            let ids = dicts.iter().map(|dict| dict.id());
            ids.map(|id| (id, *family)).collect::<Vec<_>>()
        };
        Outdated {
            current: trained.iter().flat_map(of).collect(),
            fresh,
            quick,
        }
    }

    /// Whether a frame may have to be encoded again.
    pub(crate) fn may_be(&self, codec: u8, model: u32) -> bool {
        match self.due(codec, model) {
            Due::Yes => true,
            Due::IfFresh => !self.fresh.is_empty(),
            Due::No => false,
        }
    }

    /// Whether pages are encoded with the dictionary of this number now.
    pub(crate) fn is_current(&self, id: u32) -> bool {
        self.current.contains_key(&id)
    }

    fn due(&self, codec: u8, model: u32) -> Due {
        match self.current.get(&model) {
            _ if CodecId(codec) == CodecId::ZERO => Due::No,
            _ if self.quick.has(codec) => Due::Yes,
            None if model != 0 => Due::Yes,
            None | Some(&Family::OTHER) => Due::IfFresh,
            Some(_) => Due::No,
        }
    }
}

/// A frame to append.
pub(crate) enum Encoded {
    /// As it was.
    Kept(Held),
    /// Encoded again.
    New(Frame),
}

/// What the pool needs to encode frames again.
pub(crate) struct Again {
    /// The records that have the frames.
    pub(crate) records: Vec<u8>,
    /// The dictionaries of the frames.
    pub(crate) dicts: HashMap<u32, Arc<Dictionary>>,
    pub(crate) outdated: Arc<Outdated>,
    pub(crate) settings: EncodeSettings,
}

impl Again {
    /// Encodes those of the frames again that are outdated. Neighbours that do not become smaller
    /// together stay as they are.
    pub(crate) fn encode(&self, held: &[Held]) -> Vec<Encoded> {
        let mut encoded = Vec::with_capacity(held.len());
        let (mut old, mut jobs): (Vec<Held>, Vec<Job>) = Default::default();
        for held in held {
            let Some(pages) = self.outdated_pages(held) else {
                self.encode_neighbours(&mut old, &mut jobs, &mut encoded);
                encoded.push(Encoded::Kept(*held));
                continue;
            };
            old.push(*held);
            jobs.extend(pages.into_iter().map(|(page, bytes)| Job {
                page,
                seq: 0,
                family: Family::of(&bytes),
                bytes,
                preencoded: None,
            }));
        }
        self.encode_neighbours(&mut old, &mut jobs, &mut encoded);
        encoded
    }

    /// The pages of a frame, if it is encoded again.
    fn outdated_pages(&self, held: &Held) -> Option<Vec<(u32, Arc<[u8]>)>> {
        let outdated = &self.outdated;
        let due = outdated.due(held.record.codec, held.record.model);
        if due == Due::No {
            return None;
        }
        let pages = held.pages(&self.records, &self.dicts)?;
        let is_fresh = || {
            let mut families = pages.iter().map(|(_, page)| Family::of(page));
            families.any(|family| outdated.fresh.contains(&family))
        };
        (due == Due::Yes || is_fresh()).then_some(pages)
    }

    fn encode_neighbours(
        &self,
        old: &mut Vec<Held>,
        jobs: &mut Vec<Job>,
        encoded: &mut Vec<Encoded>,
    ) {
        let frames = encode_batch(std::mem::take(jobs), &self.settings);
        let before: usize = old.iter().map(Held::record_len).sum();
        let after: usize = frames.iter().map(Frame::record_len).sum();
        if after < before {
            encoded.extend(frames.into_iter().map(Encoded::New));
        } else {
            encoded.extend(old.iter().copied().map(Encoded::Kept));
        }
        old.clear();
    }
}
