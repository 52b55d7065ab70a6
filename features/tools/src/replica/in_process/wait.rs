//! `densite_replicate_wait(seconds)`: until everything that is committed is in the bucket.

use super::databases::Member;
use super::shipping::{Shipping, Waited, ticket};
use densite_disk::wait::Deadline;
use densite_sqlite::{Code, Connection, Error, Result, TxnState, Value, ValueRef};
use std::sync::Arc;
use std::time::Duration;

/// The longest accepted time, a year. More is a mistake.
const LONGEST: f64 = 366.0 * 86400.0;
/// How often a wait asks whether its connection was interrupted. SQLite cannot interrupt a function
/// that waits.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Waits. Returns 1, or 0 after the time has passed.
pub(super) fn wait(
    member: &Member,
    connection: &Connection,
    given: &[ValueRef<'_>],
) -> Result<Value> {
    let seconds = match given.first() {
        Some(ValueRef::Integer(n)) => *n as f64,
        Some(ValueRef::Real(x)) => *x,
        _ => -1.0,
    };
    // A caller that waits in steps has a ticket of its first one. Otherwise commits of others could
    // keep it waiting for ever.
    let ticket = match given {
        [_] => Some(ticket()),
        [_, ValueRef::Integer(ticket)] => u64::try_from(*ticket).ok(),
        _ => None,
    };
    let ticket = ticket.filter(|_| (0.0..=LONGEST).contains(&seconds));
    let Some(ticket) = ticket else {
        return Err(Error::new(
            Code::ERROR,
            "densite_replicate_wait takes for how many seconds it waits at most, as in densite_replicate_wait(10)",
        ));
    };
    let until = Deadline::after(Duration::from_secs_f64(seconds));
    let shipping = member.shipping().ok_or_else(nothing_ships)?;
    holds_nothing(connection)?;
    loop {
        match shipping.wait(ticket, until.left().min(LOOK_EVERY)) {
            Waited::Acknowledged => return Ok(Value::Integer(1)),
            Waited::TimedOut if until.is_over() => return Ok(Value::Integer(0)),
            Waited::TimedOut => connection.check_interrupt()?,
            Waited::Ended(why) => return Err(ended(&shipping, why)),
        }
    }
}

fn nothing_ships() -> Error {
    Error::new(
        Code::ERROR,
        "densite_replicate_wait: nothing ships this database in this process; start it with SELECT densite_replicate('s3://BUCKET/PREFIX')",
    )
}

fn ended(shipping: &Arc<Shipping>, why: Option<String>) -> Error {
    match why {
        Some(why) => Error::new(
            Code::ERROR,
            format!(
                "shipping to {} has ended: {why}; then call densite_replicate again",
                shipping.url().display()
            ),
        ),
        None => nothing_ships(),
    }
}

/// The connection must hold no lock that the thread would wait for.
fn holds_nothing(connection: &Connection) -> Result<()> {
    if connection.txn_state(Some(c"main")) != TxnState::None || !connection.is_autocommit() {
        return Err(Error::new(
            Code::LOCKED,
            "densite_replicate_wait: this connection has a transaction open, which is not committed, and which shipping may have to wait for; end it first, and call the function in a statement of its own",
        ));
    }
    let mode = connection.query_string("PRAGMA main.locking_mode")?;
    match mode.as_deref() {
        Some("exclusive") => Err(Error::new(
            Code::LOCKED,
            "densite_replicate_wait: this connection keeps its locks (PRAGMA locking_mode = EXCLUSIVE), which shipping has to wait for; set it to NORMAL and read a table",
        )),
        _ => Ok(()),
    }
}
