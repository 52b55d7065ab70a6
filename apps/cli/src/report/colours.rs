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
    /// The colour of each.
    classes: BTreeMap<usize, &'static str>,
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
        let name = |i: &usize| objects.get(*i)?.name.as_deref().map(|name| (*i, name));
        let classes = classes(largest.iter().filter_map(name).collect());
        Colours {
            objects,
            largest,
            classes,
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
            Shown::Object(i) => self.classes.get(&i).copied().unwrap_or("other"),
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

/// The colours of these objects, at most as many as there are. The name decides, so that an object
/// keeps its colour from one report to the next; of two with one colour, the second by name gets the
/// next one that is free.
fn classes(mut named: Vec<(usize, &str)>) -> BTreeMap<usize, &'static str> {
    named.sort_by_key(|(_, name)| *name);
    let mut free: Vec<Option<&'static str>> = COLOURS.map(Some).to_vec();
    let mut found = BTreeMap::new();
    for (i, name) in named {
        // Fowler, Noll and Vo's hash: it only has to differ.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let first = usize::try_from(hash % COLOURS.len() as u64).unwrap_or(0);
        let mut places = (0..COLOURS.len()).map(|n| (first + n) % COLOURS.len());
        let place = places.find(|place| free.get(*place).is_some_and(Option::is_some));
        let class = place.and_then(|place| free.get_mut(place)?.take());
        if let Some(class) = class {
            found.insert(i, class);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_colour_when_its_size_changes() {
        let names = ["lines", "orders", "visits", "photos", "customers"];
        let named = |order: [usize; 5]| order.map(|i| (i, names[i])).to_vec();
        let before = classes(named([0, 1, 2, 3, 4]));
        assert_eq!(classes(named([4, 2, 0, 3, 1])), before);
        let distinct: std::collections::BTreeSet<&str> = before.values().copied().collect();
        assert_eq!(distinct.len(), COLOURS.len());
    }
}
