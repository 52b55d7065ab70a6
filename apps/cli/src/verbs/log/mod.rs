//! `densite log status|subscribe|unsubscribe|prune|tail|check DB …`

mod change;
mod check;
mod repair;
mod status;
mod stream_status;
mod tail;

use crate::args::{Common, LogVerb};
use crate::failure::Outcome;

pub(crate) fn run(common: Common, verb: &LogVerb) -> Outcome {
    crate::sqlite::api()?;
    match verb {
        LogVerb::Status(args) => status::run(common, args),
        LogVerb::Subscribe(args) => change::subscribe(common, args),
        LogVerb::Unsubscribe(args) => change::unsubscribe(common, args),
        LogVerb::Prune(args) => change::prune(common, args),
        LogVerb::Tail(args) => tail::run(common, args),
        LogVerb::Check(args) => check::run(common, args),
    }
}
