//! Until when a function of SQL waits.

use densite_sqlite::ValueRef;
use std::time::{Duration, Instant};

/// The longest accepted time, a year. More is a mistake.
const LONGEST: f64 = 366.0 * 86400.0;

/// Until when a function waits that is given this many seconds; `Some(None)` without a limit (no
/// argument or NULL), `None` if they are no such number.
pub(crate) fn deadline(seconds: Option<&ValueRef<'_>>) -> Option<Option<Instant>> {
    let seconds = match seconds {
        None | Some(ValueRef::Null) => return Some(None),
        Some(ValueRef::Integer(n)) => *n as f64,
        Some(ValueRef::Real(x)) => *x,
        Some(_) => return None,
    };
    let is_possible = (0.0..=LONGEST).contains(&seconds);
    is_possible.then(|| Instant::now().checked_add(Duration::from_secs_f64(seconds)))
}
