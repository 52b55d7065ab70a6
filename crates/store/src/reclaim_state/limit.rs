//! The limit of what may be dead or free, and what it may cost to keep it.

/// Whether such a limit is for reclaiming while no connection writes.
pub(crate) fn is_at_rest(limit: u64) -> bool {
    limit < 10
}

/// How many units may be moved for one that is won.
pub(crate) fn targets(limit: u64) -> u64 {
    let all = (100 - limit) / limit;
    // At rest nothing is to be won by waiting, and the limit is for dead and free bytes together: half of it is left for those.
    if is_at_rest(limit) {
        2 * all
    } else {
        all.max(1)
    }
}
