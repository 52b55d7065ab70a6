//! What a replica has.

use crate::bucket::{Bucket, Listed};
use crate::error::{Error, Result};
use crate::format::{FOOTER_LEN, Footer, Generation};
use crate::gap::end_of;
use crate::headless::head_or_list;
use crate::names;
use crate::restore_plan::NEWEST;

/// What a replica has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaInfo {
    /// The generations, the oldest first.
    pub generations: Vec<GenerationInfo>,
    /// All objects of the replica.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects beside them, which are not of a replica.
    pub foreign: u64,
    /// What is wrong with the head, as the end of a sentence, if a list of the objects took its
    /// place.
    pub head_problem: Option<String>,
}

/// A base and what follows it without a break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationInfo {
    /// Its name.
    pub name: String,
    /// Its number, one more at each takeover.
    pub epoch: u64,
    /// The first restore point that can be restored, and when it was taken in milliseconds since
    /// 1970; `None` while the first base is being uploaded.
    pub first: Option<(u64, u64)>,
    /// The last one.
    pub last: Option<(u64, u64)>,
    /// The commit of the last one.
    pub commit: Option<u64>,
    /// Images of the whole file.
    pub bases: u64,
    /// Bytes of its objects.
    pub bytes: u64,
    /// The first missing object that others need. Restore points from it on cannot be restored.
    pub missing: Option<String>,
}

/// Looks at a replica: reads the head, the list of objects, and the newest delta of each
/// generation.
///
/// # Errors
/// [`Error::NoReplica`]; the bucket's.
pub fn replicas(bucket: &dyn Bucket) -> Result<ReplicaInfo> {
    let (head, head_problem) = head_or_list(bucket)?;
    let mut all = bucket.list("", "")?;
    let listed = all.len();
    all.retain(|o| o.name == names::HEAD || names::parsed(&o.name).is_some());
    let mut generations = Vec::new();
    for generation in head.earlier.iter().chain([&head.current]) {
        let own = |prefix: &str| format!("{}-{prefix}", generation.name);
        let bytes = all.iter().filter(|o| o.name.starts_with(&own("")));
        let bytes = bytes.map(|o| o.len).sum();
        let deltas = all.iter().rev().map(|o| o.name.as_str());
        let deltas = deltas.filter(|name| name.starts_with(&names::deltas(&generation.name)));
        let base = generation.bases.last();
        let mut last = base.map(|base| (base.n, base.time_ms, base.commit));
        // The last one can be an end, which is no restore point.
        for name in deltas.take(2) {
            let Some(stored) = bucket.get_end(name, FOOTER_LEN as u64)? else {
                continue;
            };
            let (footer, _) = Footer::decode(name, &stored.bytes)?;
            if let Some(to) = footer.to
                && last.is_none_or(|(n, ..)| n < footer.last)
            {
                last = Some((footer.last, footer.time_ms, to.commit()));
                break;
            }
        }
        generations.push(GenerationInfo {
            name: generation.name.clone(),
            epoch: generation.epoch,
            first: generation.bases.first().map(|base| (base.n, base.time_ms)),
            last: last.map(|(n, time_ms, _)| (n, time_ms)),
            commit: last.map(|(.., commit)| commit),
            bases: generation.bases.len() as u64,
            bytes,
            missing: missing(generation, &all),
        });
    }
    Ok(ReplicaInfo {
        generations,
        objects: all.len() as u64,
        bytes: all.iter().map(|o| o.len).sum(),
        foreign: (listed - all.len()) as u64,
        head_problem,
    })
}

/// The first missing one of the newest base, what is merged behind it, and the deltas behind that.
fn missing(generation: &Generation, all: &[Listed]) -> Option<String> {
    let names = all.iter().map(|object| object.name.as_str());
    let is_missing = |name: &str| all.iter().all(|object| object.name != name);
    let base = generation.bases.last()?;
    if is_missing(&base.name) {
        return Some(base.name.clone());
    }
    let mut n = base.n;
    while let Some(next) = generation.compacted_after(n, NEWEST) {
        let name = names::compacted(&generation.name, next.first, next.last);
        if is_missing(&name) {
            return Some(name);
        }
        n = next.last;
    }
    match end_of(&generation.name, n, names) {
        Err(Error::Gap { missing, .. }) => Some(missing),
        _ => None,
    }
}
