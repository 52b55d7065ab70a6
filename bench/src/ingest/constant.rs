//! Constant load at 80 % of the rate at which rows can be applied. The WAL and the log must stop
//! growing.
//!
//! Rows are new states of a fixed number of keys, so the table and the rate stay the same. The rate
//! is measured while the same writers run, because without them the worker could use all
//! processors. The writers are limited by the unapplied rows (`max_unapplied_bytes`), so they write
//! as many rows as are applied.

use std::time::Duration;

use super::Place;
use super::bare::Rate;
use super::running::{Running, rate};
use super::table::Shape;
use super::watch::{Applied, Watch};
use super::writers::{Side, Write};
use crate::outcome::{Compare, Figure};
use crate::result::{About as _, Result};

/// Largest size in the last third of the time / in the first third.
const FLAT: f64 = 1.05;
/// In MiB. The WAL is checkpointed when it is as large as the database, within these bounds, and
/// stays below twice that (docs/decisions/ingest-pruning.md).
const WAL: (f64, f64) = (16.0, 512.0);
const WAL_TIMES: f64 = 2.0;
/// In MiB. The log: the current segment, one or two that are not yet applied or pruned, and two
/// free segments, of 64 MiB each.
const LOG: f64 = 5.0 * 64.0;
/// The load, as a part of the rate at which rows can be applied.
const LOAD: f64 = 0.8;
/// Unapplied bytes while that rate is measured. With fewer, the worker sorts fewer rows at once and
/// is slower.
const UNAPPLIED: u64 = 512 << 20;
/// Seconds to fill the log that far, and seconds of the measurement.
const FILLING: f64 = 40.0;
const SUSTAINED: f64 = 40.0;
/// Rows of a transaction, in a usual run and in a long run. A long run has more transactions.
const BATCH: u64 = 100;
const SMALL_BATCH: u64 = 20;
/// Seconds until sizes count: until there are free segments.
const WARM: f64 = 30.0;
/// Seconds in which sizes count.
const USUAL: f64 = 180.0;
/// A long run ends after this many batches, or after an hour. A thousand clients send as many if
/// each writes once a second for an hour.
const BATCHES: f64 = 3_600_000.0;
const HOUR: f64 = 3600.0;

pub(super) fn measure(place: &Place<'_>) -> Result<Vec<Figure>> {
    let mut probes = Rate::default();
    let rows = place.rows(1_000_000);
    // Plain SQLite, as fast as possible.
    probes.probe(place.work, true)?;
    let file = place.start(Shape::States, rows)?;
    let time = place.time(15.0);
    let mut job = Write::new(&file, Side::Full, Shape::States, time.as_secs_f64());
    let batch = if place.long { SMALL_BATCH } else { BATCH };
    job.batch = batch;
    let running = Running::start(&job)?;
    let watch = Watch::start(&file)?;
    running.written()?;
    let seen = watch.seen()?;
    let base = rate(&running.finish()?, batch, time);
    let base_wal = seen.largest(Duration::ZERO, Duration::MAX).0;

    probes.probe(place.work, false)?;
    let file = place.start(Shape::States, rows)?;
    let mut job = Write::new(
        &file,
        Side::Ingest,
        Shape::States,
        place.time(2.5).as_secs_f64(),
    );
    let running = Running::start(&job)?;
    let applied = Applied::open(&file)?;
    running.written()?;
    let alone = applied.rate(place.time(10.0))?;
    applied.rest(place.time(4.0))?;
    running.finish()?;

    let (filling, sustained) = (place.time(FILLING), place.time(SUSTAINED));
    job.seconds = (filling + sustained).as_secs_f64();
    (job.batch, job.unapplied, job.first) = (batch, UNAPPLIED, job.first + 1);
    let running = Running::start(&job)?;
    running.sleep_until(filling);
    let can = applied.rate(sustained)?;
    running.written()?;
    applied.rest(place.time(4.0))?;
    running.finish()?;

    let warm = place.time(WARM);
    let time = if place.long {
        Duration::from_secs_f64((BATCHES * batch as f64 / (can * LOAD)).min(HOUR))
    } else {
        place.time(USUAL)
    };
    job.seconds = (warm + time).as_secs_f64();
    (job.pace, job.unapplied, job.first) = (can * LOAD, 0, job.first + 1);
    let running = Running::start(&job)?;
    let watch = Watch::start(&file)?;
    running.written()?;
    let seen = watch.seen()?;
    let left = applied.now()?;
    let records = running.finish()?;
    let got = rate(&records, batch, warm + time);
    drop(applied);
    let size = std::fs::metadata(&file).about("read", &file)?.len() as f64 / 1_048_576.0;
    place.clear()?;
    let millions = got * time.as_secs_f64() / batch as f64 / 1e6;
    eprintln!(
        "{can:.0} rows/s can be applied, {alone:.0} without writers; {got:.0} were written, applied up to {left}"
    );
    let third = |n: u32| seen.largest(warm + time / 3 * n, warm + time / 3 * (n + 1));
    let (first, middle, last) = (third(0), third(1), third(2));
    let name = |what: &str| {
        format!(
            "for {:.0} s after {:.0}, {millions:.1} million batches of {batch}: {what}",
            time.as_secs_f64(),
            warm.as_secs_f64()
        )
    };
    let target = |t: f64| (!place.quick).then_some(t);
    Ok(vec![
        Figure::new(
            &name("largest WAL, MiB; base: plain SQLite as fast as it goes"),
            Compare::Ours,
            base_wal,
            first.0.max(middle.0).max(last.0),
            Some((size.clamp(WAL.0, WAL.1) * WAL_TIMES).round()),
        ),
        Figure::new(
            &name("largest WAL of the last third, MiB; base: of the first third"),
            Compare::Ratio,
            first.0,
            last.0,
            target(FLAT),
        ),
        Figure::new(
            &name("largest log, MiB"),
            Compare::Ours,
            0.0,
            first.1.max(middle.1).max(last.1),
            Some(LOG),
        ),
        Figure::new(
            &name("largest log of the last third, MiB; base: of the first third"),
            Compare::Ratio,
            first.1,
            last.1,
            target(FLAT),
        ),
        Figure::new(
            &name("rows/s written, keys replaced; base: plain SQLite"),
            Compare::RatioAtLeast,
            base,
            got,
            None,
        ),
        Figure::new(
            "rows/s that can be applied while as many are written; base: while none are",
            Compare::RatioAtLeast,
            alone,
            can,
            None,
        ),
        probes.figure(),
    ])
}
