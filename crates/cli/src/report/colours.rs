//! Which uses of the file have a colour of their own, in the map and its legend.

use densite_tools::{Info, Object, ObjectKind, SpaceUse};
use std::collections::BTreeMap;

/// The colours of objects, as classes of the style.
const COLOURS: [&str; 5] = ["o0", "o1", "o2", "o3", "o4"];

/// A line of the legend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shown {
    /// A table or index with a colour of its own, by its index.
    Object(usize),
    /// All other tables and indexes.
    Others,
    /// Overflow pages.
    Overflow,
    /// The store's own.
    Store,
    Dead,
    Free,
}

/// How the uses of a file are shown.
pub(super) struct Colours<'a> {
    objects: &'a [Object],
    /// The objects with their own colour, most bytes of the file first.
    largest: Vec<usize>,
    others: usize,
}

impl<'a> Colours<'a> {
    pub(super) fn new(info: &'a Info) -> Colours<'a> {
        let objects = info.objects.all.as_slice();
        let mut bytes: BTreeMap<usize, u64> = BTreeMap::new();
        for (known, n) in info.objects.layout.parts.iter().flatten() {
            if let SpaceUse::Object(i) = known
                && objects.get(*i).is_some_and(|o| o.name.is_some())
            {
                *bytes.entry(*i).or_default() += n;
            }
        }
        let mut largest: Vec<usize> = bytes.keys().copied().collect();
        largest.sort_by_key(|i| (std::cmp::Reverse(bytes.get(i)), *i));
        let others = largest.len().saturating_sub(COLOURS.len());
        largest.truncate(COLOURS.len());
        Colours {
            objects,
            largest,
            others,
        }
    }

    pub(super) fn of(&self, known: SpaceUse) -> Shown {
        match known {
            SpaceUse::Object(i) => match self.objects.get(i).map(|o| o.kind) {
                Some(ObjectKind::Free) => Shown::Free,
                Some(ObjectKind::Overflow) | None => Shown::Overflow,
                Some(_) if self.largest.contains(&i) => Shown::Object(i),
                Some(_) => Shown::Others,
            },
            SpaceUse::Store => Shown::Store,
            SpaceUse::Dead => Shown::Dead,
            _ => Shown::Free,
        }
    }

    /// The class of the style.
    pub(super) fn class(&self, shown: Shown) -> &'static str {
        match shown {
            Shown::Object(i) => {
                let place = self.largest.iter().position(|l| *l == i);
                place
                    .and_then(|p| COLOURS.get(p))
                    .copied()
                    .unwrap_or("other")
            }
            Shown::Others => "other",
            Shown::Overflow => "over",
            Shown::Store => "store",
            Shown::Dead => "dead",
            Shown::Free => "free",
        }
    }

    /// The name, as text.
    pub(super) fn name(&self, shown: Shown) -> String {
        match shown {
            Shown::Object(i) => {
                let object = self.objects.get(i);
                let name = object.and_then(|o| o.name.clone()).unwrap_or_default();
                match object.map(|o| o.kind) {
                    Some(ObjectKind::Index) => format!("{name} (index)"),
                    _ => name,
                }
            }
            Shown::Others if self.others == 1 => "1 other table or index".into(),
            Shown::Others => format!("{} other tables and indexes", self.others),
            Shown::Overflow => "long values (overflow pages)".into(),
            Shown::Store => "page map, models and headers".into(),
            Shown::Dead => "dead: replaced, not reused yet".into(),
            Shown::Free => "free".into(),
        }
    }

    /// The lines of the legend: objects by size, then the rest.
    pub(super) fn legend(&self) -> Vec<Shown> {
        let objects = self.largest.iter().map(|i| Shown::Object(*i));
        let rest = [
            Shown::Others,
            Shown::Overflow,
            Shown::Store,
            Shown::Dead,
            Shown::Free,
        ];
        objects.chain(rest).collect()
    }
}
