//! The objects behind a base that lead to a restore point, in their order.
//!
//! For the newest state, the head names the merged ones, and a list of the deltas behind them says
//! how far they go. For an earlier moment the head has few: it names the newest merge of each
//! delta, which often goes past the moment. Those that were merged before stay in the bucket with
//! the deltas, and a list finds them. They need no head: their footers prove that they follow.

use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::format::{Base, FOOTER_LEN, Footer, Generation};
use crate::gap::end_after;
use crate::names;
use crate::restore_plan::{Limit, NEWEST};
use std::collections::VecDeque;

/// So many bytes of merged objects are read at once.
const AT_ONCE: u64 = 32 << 20;

/// See the module's documentation.
pub(crate) struct Chain<'a> {
    bucket: &'a dyn Bucket,
    generation: String,
    limit: Limit,
    /// Names and lengths of merged objects that come next.
    merged: VecDeque<(String, u64)>,
    /// The delta behind them.
    next: u64,
    /// The last delta, if it is known.
    end: Option<u64>,
}

impl<'a> Chain<'a> {
    /// The objects behind a base.
    ///
    /// # Errors
    /// The bucket's; [`Error::Gap`].
    pub(crate) fn behind(
        bucket: &'a dyn Bucket,
        generation: &Generation,
        base: &Base,
        limit: Limit,
    ) -> Result<Chain<'a>> {
        let (merged, last) = match limit == NEWEST || !bucket.has_lists() {
            true => named(generation, base, limit),
            false => listed(bucket, generation, base, limit)?,
        };
        let end = match limit == NEWEST && bucket.has_lists() {
            true => Some(end_after(bucket, &generation.name, last)?),
            false => None,
        };
        Ok(Chain {
            bucket,
            generation: generation.name.clone(),
            limit,
            merged,
            next: last + 1,
            end,
        })
    }

    /// Bytes of the merged objects that come next.
    pub(crate) fn merged_bytes(&self) -> u64 {
        self.merged.iter().map(|(_, len)| len).sum()
    }

    /// The names of the next objects, at most so many. There are none behind the limit.
    pub(crate) fn next(&mut self, most: usize) -> Vec<String> {
        let mut names = Vec::new();
        let mut bytes = 0;
        while names.len() < most
            && let Some((_, len)) = self.merged.front()
        {
            bytes += len;
            if bytes > AT_ONCE && !names.is_empty() {
                return names;
            }
            names.extend(self.merged.pop_front().map(|(name, _)| name));
        }
        let end = self.end.unwrap_or(u64::MAX).min(self.limit.n);
        while names.len() < most && self.next <= end {
            names.push(names::delta(&self.generation, self.next));
            self.next += 1;
        }
        names
    }

    /// An object does not exist. That is the end, if no list said that it exists, and no later delta
    /// does.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Gap`]; the bucket's.
    pub(crate) fn ends_before(&self, name: &str) -> Result<()> {
        match (names::delta_number(&self.generation, name), self.end) {
            (Some(_), None) if !self.bucket.has_lists() => Ok(()),
            (Some(n), None) => end_after(self.bucket, &self.generation, n - 1).map(drop),
            _ => Err(Error::Missing(name.to_owned())),
        }
    }
}

/// Names and lengths of merged objects, and the last restore point in them.
type Merged = (VecDeque<(String, u64)>, u64);

/// Those that the head names.
fn named(generation: &Generation, base: &Base, limit: Limit) -> Merged {
    let (mut merged, mut last) = (VecDeque::new(), base.n);
    while let Some(next) = generation.compacted_after(last, limit) {
        let name = names::compacted(&generation.name, next.first, next.last);
        merged.push_back((name, next.bytes));
        last = next.last;
    }
    (merged, last)
}

/// Those that are in the bucket.
fn listed(
    bucket: &dyn Bucket,
    generation: &Generation,
    base: &Base,
    limit: Limit,
) -> Result<Merged> {
    let after = names::compacted(&generation.name, base.n + 1, 0);
    let all = bucket.list(&names::all_compacted(&generation.name), &after)?;
    let numbered: Vec<(u64, u64, String, u64)> = all
        .into_iter()
        .filter_map(|o| {
            let (first, last) = names::compacted_numbers(&o.name)?;
            (last <= limit.n).then_some((first, last, o.name, o.len))
        })
        .collect();
    let (mut merged, mut last) = (VecDeque::new(), base.n);
    loop {
        // In the order of their names: the one that reaches least comes first.
        let begin = numbered.partition_point(|(first, ..)| *first <= last);
        let from_here = numbered.get(begin..).unwrap_or_default();
        let count = from_here.partition_point(|(first, ..)| *first == last + 1);
        let (mut fit, mut too_far) = (0, count);
        while fit < too_far {
            let middle = fit + (too_far - fit) / 2;
            let candidate = from_here.get(middle);
            match candidate
                .map(|c| reaches(bucket, generation, c, limit))
                .transpose()?
            {
                Some(true) => fit = middle + 1,
                _ => too_far = middle,
            }
        }
        let Some((_, reached, name, len)) = fit.checked_sub(1).and_then(|i| from_here.get(i))
        else {
            return Ok((merged, last));
        };
        merged.push_back((name.clone(), *len));
        last = *reached;
    }
}

/// Whether a merged object does not go past the limit.
fn reaches(
    bucket: &dyn Bucket,
    generation: &Generation,
    (first, last, name, _): &(u64, u64, String, u64),
    limit: Limit,
) -> Result<bool> {
    if limit.time_ms == u64::MAX {
        return Ok(true);
    }
    let mut named = generation.compacted.iter();
    if let Some(known) = named.find(|c| (c.first, c.last) == (*first, *last)) {
        return Ok(known.time_ms <= limit.time_ms);
    }
    let stored = bucket.get_end(name, FOOTER_LEN as u64)?;
    // The deltas are there in the place of a damaged one.
    let footer = stored.and_then(|stored| Footer::decode(name, &stored.bytes).ok());
    Ok(footer.is_some_and(|(footer, _)| footer.time_ms <= limit.time_ms))
}
