//! The limit of dead and free bytes, and the cost of keeping it.

/// Whether this limit is for reclaiming while no connection writes.
pub(crate) fn is_at_rest(limit: u64) -> bool {
    limit < 10
}

/// How many units may be moved to win one.
pub(crate) fn targets(limit: u64) -> u64 {
    let all = (100 - limit) / limit;
    // At rest, waiting gains nothing, and the limit is for dead and free bytes together. Half of it
    // is left for the latter.
    if is_at_rest(limit) {
        2 * all
    } else {
        all.max(1)
    }
}
