//! The time of an acknowledgement during a run in which rows are also applied, compared with bare
//! syncs of the same size in the same process.

use super::bare::{Rate, millis};
use super::record_pipe::Kind;
use super::running::Running;
use super::table::Shape;
use super::writers::{Side, Write};
use super::{Place, quantile};
use crate::outcome::{Compare, Figure};
use crate::result::Result;

/// 99th percentile of an acknowledgement / of a bare sync.
const TARGET: f64 = 3.0;
/// Bytes in the log of a batch of 400 votes, and of a batch of 100.
const BYTES: [usize; 2] = [3072, 1024];
/// Rows in a second: fewer than can be applied, so that rows are applied all the time and do not
/// accumulate.
const PACE: f64 = 20_000.0;

/// The 99th percentiles of a turn, in ms.
struct Turn {
    commit: f64,
    whole: f64,
    bare: f64,
}

pub(super) fn measure(place: &Place<'_>) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut probes = Rate::default();
    let rows = place.rows(10_000_000);
    let mut files = Vec::new();
    for side in [Side::Full, Side::Ingest] {
        files.push((
            side,
            place.copy(Shape::Votes, rows, &crate::work::name(side))?,
        ));
    }
    for (at_full_speed, name) in [
        (false, "8 threads, 200 batches of 100 a second"),
        (true, "8 threads, batches of 400 at full speed"),
    ] {
        let mut turns = Vec::new();
        for (side, file) in &files {
            probes.probe(place.work, *side == Side::Full)?;
            let mut job = Write::new(file, *side, Shape::Votes, place.time(25.0).as_secs_f64());
            job.bare = BYTES[usize::from(!at_full_speed)];
            if !at_full_speed {
                (job.batch, job.pace) = (100, PACE);
            }
            // Row numbers that the previous turn did not use.
            job.first += u64::from(at_full_speed) << 24;
            turns.push(turn(&job)?);
        }
        let [base, ours] = &turns[..] else { continue };
        let figure = |what: &str, compare, base, ours, target| {
            Figure::new(&format!("{name}: {what}"), compare, base, ours, target)
        };
        figures.extend([
            figure(
                "COMMIT / a bare sync beside it, 99th percentiles",
                Compare::Ours,
                base.commit / base.bare,
                ours.commit / ours.bare,
                Some(TARGET),
            ),
            figure(
                "COMMIT, 99th percentile, ms",
                Compare::Ratio,
                base.commit,
                ours.commit,
                None,
            ),
            figure(
                "the whole transaction, 99th percentile, ms",
                Compare::Ratio,
                base.whole,
                ours.whole,
                None,
            ),
            figure(
                "the bare sync beside it, 99th percentile, ms",
                Compare::Ratio,
                base.bare,
                ours.bare,
                None,
            ),
        ]);
    }
    place.clear()?;
    figures.push(probes.figure());
    Ok(figures)
}

fn turn(job: &Write) -> Result<Turn> {
    let running = Running::start(job)?;
    running.written()?;
    let records = running.finish()?;
    let p99 = |kind, of: fn(&super::record_pipe::Record) -> std::time::Duration| {
        let times = records
            .iter()
            .filter(|r| r.kind == kind)
            .map(|r| millis(of(r)));
        quantile(times.collect(), 0.99)
    };
    let turn = Turn {
        commit: p99(Kind::Acknowledged, |r| r.commit),
        whole: p99(Kind::Acknowledged, |r| r.took),
        bare: p99(Kind::Bare, |r| r.took),
    };
    let count = |kind| records.iter().filter(|r| r.kind == kind).count();
    eprintln!(
        "{:?}: {} commits, p99 {:.2} ms, whole {:.2} ms; {} bare syncs, p99 {:.2} ms",
        job.side,
        count(Kind::Acknowledged),
        turn.commit,
        turn.whole,
        count(Kind::Bare),
        turn.bare
    );
    Ok(turn)
}
