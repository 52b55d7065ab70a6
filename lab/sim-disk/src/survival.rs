//! Decides which unsynced changes survive a power cut, and in what form.
//!
//! A [`Survival`] is drawn once for each cut. In addition to deciding each write on its own, it has
//! modes that random choices almost never produce, and that find most bugs: no change survives; all
//! survive; exactly the first n changes of the whole disk survive; one file loses all its changes
//! while another keeps all; the late writes survive without the early ones.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt};

use super::fate::{Fate, Torn, below};
use super::pending::{Change, Pending};
use super::policy::{MetadataOrder, Policy, WriteOrder};

/// How one power cut treats the whole disk.
#[derive(Debug, Clone)]
pub(super) struct Survival {
    mood: Mood,
    /// Unit of tearing, bytes.
    sector: usize,
    in_order: bool,
    /// With a journal of metadata: changes of metadata survive before this place in the order
    /// of the whole disk.
    metadata_end: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum Mood {
    /// Nothing that was not synced.
    Nothing,
    /// All of it.
    Everything,
    /// The changes before this place in the order of the whole disk, the next one torn.
    UpTo(u64),
    /// Each file has its own mood.
    EachFile,
}

impl Survival {
    /// `first..next` are the places of the pending changes in the order of the disk.
    pub(super) fn draw(
        first: u64,
        next: u64,
        policy: &Policy,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Survival {
        let next = next.max(first);
        let mood = match rng.random_range(0..8u32) {
            0 => Mood::Nothing,
            1 => Mood::Everything,
            2 => Mood::UpTo(rng.random_range(first..=next)),
            _ => Mood::EachFile,
        };
        let metadata_end = match mood {
            _ if policy.metadata == MetadataOrder::Any => None,
            Mood::Nothing => Some(first),
            Mood::Everything => Some(next),
            Mood::UpTo(end) => Some(end),
            Mood::EachFile => Some(rng.random_range(first..=next)),
        };
        Survival {
            mood,
            sector: policy.sector,
            in_order: policy.writes == WriteOrder::InFile,
            metadata_end,
        }
    }

    /// For a failed sync of one file.
    pub(super) fn each_file(policy: &Policy) -> Survival {
        Survival {
            mood: Mood::EachFile,
            sector: policy.sector,
            in_order: policy.writes == WriteOrder::InFile,
            metadata_end: None,
        }
    }

    /// The fates of the pending changes of one file, which are drawn in their order.
    pub(super) fn for_file(&self, pending: &[Pending], rng: &mut Xoshiro256PlusPlus) -> FileFates {
        let style = match self.mood {
            Mood::Nothing => Style::Nothing,
            Mood::Everything => Style::Everything,
            Mood::UpTo(seq) => Style::UpTo(seq),
            Mood::EachFile => {
                let place = pending.get(below(rng, pending.len().max(1)));
                let seq = place.map_or(0, |p| p.seq);
                match rng.random_range(0..8u32) {
                    0 => Style::Nothing,
                    1 => Style::Everything,
                    2 => Style::UpTo(seq),
                    _ if self.in_order => Style::UpTo(seq),
                    3 => Style::From(seq),
                    n => Style::Each {
                        keep: [0.1, 0.5, 0.5, 0.9]
                            .get(n as usize - 4)
                            .copied()
                            .unwrap_or(0.5),
                        tear: 0.25,
                    },
                }
            }
        };
        FileFates {
            style,
            sector: self.sector,
            metadata_end: self.metadata_end,
        }
    }

    /// Whether a change of a directory survives, without regard to the order within a name.
    pub(super) fn keeps_entry(&self, seq: u64, rng: &mut Xoshiro256PlusPlus) -> bool {
        match (self.metadata_end, self.mood) {
            (Some(end), _) => seq < end,
            (None, Mood::Nothing) => false,
            (None, Mood::Everything) => true,
            (None, Mood::UpTo(end)) => seq < end,
            (None, Mood::EachFile) => rng.random_bool(0.5),
        }
    }
}

/// How one power cut treats one file.
pub(super) struct FileFates {
    style: Style,
    sector: usize,
    metadata_end: Option<u64>,
}

enum Style {
    Nothing,
    Everything,
    UpTo(u64),
    /// The later changes survive, the earlier ones do not.
    From(u64),
    /// Each on its own: torn, or else kept with this probability.
    Each {
        keep: f64,
        tear: f64,
    },
}

impl FileFates {
    /// The fate of one change.
    pub(super) fn draw(&mut self, p: &Pending, rng: &mut Xoshiro256PlusPlus) -> Fate {
        let is_metadata = matches!(p.change, Change::SetLen { .. });
        let kept = match self.style {
            _ if is_metadata && let Some(end) = self.metadata_end => p.seq < end,
            Style::Nothing => false,
            Style::Everything => true,
            Style::UpTo(seq) if p.seq == seq => return self.tear(p, rng),
            Style::UpTo(seq) => p.seq < seq,
            Style::From(seq) if p.seq == seq => return self.tear(p, rng),
            Style::From(seq) => p.seq > seq,
            Style::Each { keep, tear } => {
                if rng.random_bool(tear) {
                    return self.tear(p, rng);
                }
                rng.random_bool(keep)
            }
        };
        if kept { Fate::Kept } else { Fate::Lost }
    }

    /// A length is set or not: only writes can be torn.
    fn tear(&self, p: &Pending, rng: &mut Xoshiro256PlusPlus) -> Fate {
        match &p.change {
            Change::Write { offset, bytes } => {
                Fate::Torn(Torn::draw(*offset, bytes.len(), self.sector, rng))
            }
            Change::SetLen { .. } if rng.next_u32() & 1 == 0 => Fate::Lost,
            Change::SetLen { .. } => Fate::Kept,
        }
    }
}
