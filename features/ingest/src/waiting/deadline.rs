//! Until when a function of SQL waits.

use densite_disk::wait::Deadline;
use densite_sqlite::ValueRef;
use std::time::Duration;

/// The longest accepted time, a year. More is a mistake.
const LONGEST: f64 = 366.0 * 86400.0;

/// Until when a function waits that is given this many seconds (no argument or NULL: without a
/// limit); `None` if they are no such number.
pub(crate) fn deadline(seconds: Option<&ValueRef<'_>>) -> Option<Deadline> {
    let seconds = match seconds {
        None | Some(ValueRef::Null) => return Some(Deadline::NEVER),
        Some(ValueRef::Integer(n)) => *n as f64,
        Some(ValueRef::Real(x)) => *x,
        Some(_) => return None,
    };
    let is_possible = (0.0..=LONGEST).contains(&seconds);
    is_possible.then(|| Deadline::after(Duration::from_secs_f64(seconds)))
}
