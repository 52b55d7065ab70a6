//! The workload of a site for votes: each transaction has one vote, few articles get most votes,
//! and readers ask for the count of an article.
//!
//! It is compared with plain SQLite that is as durable (WAL, synchronous=FULL), and with plain
//! SQLite that is not (OFF). Each runs alone for the same time. A diagram shows throughput and 99th
//! percentile by second.

use std::time::Duration;

use super::bare::{Rate, millis};
use super::plot::{self, Panel, Series};
use super::record_pipe::{Kind, Record};
use super::running::Running;
use super::table::Shape;
use super::writers::{Side, Write};
use super::{Place, quantile};
use crate::outcome::{Compare, Figure};
use crate::result::Result;

const SIDES: [(Side, &str); 3] = [
    (Side::Ingest, "Densite ingest"),
    (Side::Full, "SQLite, WAL, synchronous=FULL"),
    (Side::Off, "SQLite, WAL, synchronous=OFF"),
];
/// Milliseconds that an acknowledgement can wait before it is sent. The process is not killed here.
const PATIENCE: u64 = 20;

pub(super) fn measure(place: &Place<'_>) -> Result<Vec<Figure>> {
    let time = place.time(30.0);
    let mut figures = Vec::new();
    let mut panels = Vec::new();
    let mut probes = Rate::default();
    for (reads, name) in [(0, "votes only"), (90, "90 % reads of counts")] {
        let mut rates = Panel::new(&format!("{name}: operations a second"), "operations/s");
        let mut tails = Panel::new(&format!("{name}: 99th percentile of all operations"), "ms");
        let mut sums = Vec::new();
        for (side, label) in SIDES {
            let file = place.start(Shape::Articles, 0)?;
            probes.probe(place.work, side != Side::Ingest)?;
            let mut job = Write::new(&file, side, Shape::Articles, time.as_secs_f64());
            (job.batch, job.reads, job.patience) = (1, reads, PATIENCE);
            let running = Running::start(&job)?;
            running.written()?;
            let records = running.finish()?;
            let seconds = by_second(&records, time);
            let point = |of: fn(&[f64]) -> f64| -> Vec<(f64, f64)> {
                let points = seconds
                    .iter()
                    .zip(1u32..)
                    .map(|(times, n)| (f64::from(n), of(times)));
                points.filter(|(_, v)| v.is_finite()).collect()
            };
            rates.series.push(Series {
                label,
                points: point(|times| times.len() as f64),
            });
            tails.series.push(Series {
                label,
                points: point(|times| quantile(times.to_vec(), 0.99)),
            });
            sums.push(Sum::of(&records, time));
        }
        panels.extend([rates, tails]);
        let [ours, full, off] = &sums[..] else {
            continue;
        };
        for (base, beside) in [(full, ""), (off, ", beside synchronous=OFF")] {
            let figure = |what: &str, compare, of: fn(&Sum) -> f64| {
                Figure::new(
                    &format!("{name}{beside}: {what}"),
                    compare,
                    of(base),
                    of(ours),
                    None,
                )
            };
            figures.push(figure("operations/s", Compare::RatioAtLeast, |s| s.rate));
            figures.push(figure("a vote, 99th percentile, ms", Compare::Ratio, |s| {
                s.votes
            }));
            if reads > 0 {
                figures.push(figure("a read, 99th percentile, ms", Compare::Ratio, |s| {
                    s.reads
                }));
            }
        }
    }
    place.clear()?;
    let file = if place.quick {
        "votes-quick.svg"
    } else {
        "votes.svg"
    };
    plot::draw(&place.results.join(file), &panels)?;
    figures.push(probes.figure());
    Ok(figures)
}

/// One run.
struct Sum {
    rate: f64,
    votes: f64,
    reads: f64,
}

impl Sum {
    fn of(records: &[Record], time: Duration) -> Sum {
        let p99 = |kind| {
            let times = records
                .iter()
                .filter(|r| r.kind == kind)
                .map(|r| millis(r.took));
            quantile(times.collect(), 0.99)
        };
        Sum {
            rate: records.iter().filter(|r| r.at <= time).count() as f64 / time.as_secs_f64(),
            votes: p99(Kind::Acknowledged),
            reads: p99(Kind::Read),
        }
    }
}

/// Times, in ms, of the operations that ended in each second. Only whole seconds count, or the only
/// one.
fn by_second(records: &[Record], time: Duration) -> Vec<Vec<f64>> {
    let mut seconds = vec![Vec::new(); usize::try_from(time.as_secs()).unwrap_or(0).max(1)];
    for record in records {
        let second = usize::try_from(record.at.as_secs()).unwrap_or(usize::MAX);
        if let Some(times) = seconds.get_mut(second) {
            times.push(millis(record.took));
        }
    }
    seconds
}
