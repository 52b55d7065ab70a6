//! How fast rows are applied to their table, and how long the applier holds the write lock.

use super::bare::Rate;
use super::running::{Running, rate};
use super::table::Shape;
use super::watch::{Applied, Watch};
use super::writers::{Side, Write};
use super::{Place, median};
use crate::outcome::{Compare, Figure};
use crate::result::Result;

/// Rows applied in a second / rows that plain SQLite writes in a second.
const TARGET: f64 = 12.0;
/// The longest time, in seconds, that the write lock is held.
const HELD: f64 = 0.5;

pub(super) fn measure(place: &Place<'_>, rounds: u64) -> Result<Vec<Figure>> {
    let (mut rates, mut probes) = ([Vec::new(), Vec::new()], Rate::default());
    let (mut meanwhile, mut held, mut wal) = (Vec::new(), 0.0f64, 0.0f64);
    let rows = place.rows(10_000_000);
    for round in 0..rounds {
        for side in super::turns(round, [Side::Full, Side::Ingest]) {
            let file = place.start(Shape::Votes, rows)?;
            probes.probe(place.work, side == Side::Full)?;
            if side == Side::Full {
                let time = place.time(15.0);
                let job = Write::new(&file, side, Shape::Votes, time.as_secs_f64());
                let running = Running::start(&job)?;
                running.written()?;
                rates[0].push(rate(&running.finish()?, job.batch, time));
                continue;
            }
            let time = place.time(10.0);
            let job = Write::new(&file, side, Shape::Votes, time.as_secs_f64());
            let running = Running::start(&job)?;
            let watch = Watch::start(&file)?;
            let applied = Applied::open(&file)?;
            running.written()?;
            let while_written = applied.now()? as f64 / time.as_secs_f64();
            let own = applied.rate(place.time(40.0))?;
            let seen = watch.seen()?;
            drop(applied);
            let acknowledged = running.finish()?.len() as u64 * job.batch;
            eprintln!(
                "{acknowledged} rows acknowledged; {own:.0} rows/s applied, {while_written:.0} while they were written; write lock held for {:.0?}",
                seen.held
            );
            meanwhile.push(while_written);
            rates[1].push(own);
            held = held.max(seen.held.as_secs_f64());
            wal = wal.max(
                seen.largest(std::time::Duration::ZERO, std::time::Duration::MAX)
                    .0,
            );
        }
    }
    place.clear()?;
    let [base, ours] = rates.map(median);
    let target = (!place.quick).then_some(TARGET);
    Ok(vec![
        Figure::new("rows/s", Compare::RatioAtLeast, base, ours, target),
        Figure::new(
            "rows/s while 8 threads write as fast as they can",
            Compare::RatioAtLeast,
            base,
            median(meanwhile),
            None,
        ),
        Figure::new(
            "longest time the write lock was held, s",
            Compare::Ours,
            0.0,
            held,
            Some(HELD),
        ),
        Figure::new("largest WAL, MiB", Compare::Ours, 0.0, wal, None),
        probes.figure(),
    ])
}
