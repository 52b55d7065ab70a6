//! A burst: what is acknowledged in 20 s by eight threads; then kill -9, and whether all of that is there.

use std::path::Path;

use super::bare::Rate;
use super::record::{Kind, Record};
use super::running::{Running, rate};
use super::table::{EACH, FIRST, Shape, key};
use super::writers::{Side, Write};
use super::{Place, median};
use crate::outcome::{Compare, Figure};
use crate::result::{About as _, Result};

/// Through ingest, of an empty table and of 10 million rows: rows/s over plain SQLite's.
const EMPTY: f64 = 15.0;
const LARGE: f64 = 100.0;

/// `rows`: those that the table has before.
pub(super) fn measure(place: &Place<'_>, rows: u64, rounds: u64) -> Result<Vec<Figure>> {
    let time = place.time(20.0);
    let (mut rates, mut probes) = ([Vec::new(), Vec::new()], Rate::default());
    let (mut missing, mut odd, mut more) = (0.0, 0.0, 0.0);
    for round in 0..rounds {
        for side in super::turns(round, [Side::Full, Side::Ingest]) {
            let file = place.start(Shape::Votes, rows)?;
            probes.probe(place.work, side == Side::Full)?;
            // It goes on until it is killed.
            let job = Write::new(&file, side, Shape::Votes, time.as_secs_f64() + 600.0);
            let running = Running::start(&job)?;
            running.sleep_until(time);
            let records = running.kill()?;
            let own = rate(&records, job.batch, time);
            eprintln!("{side:?}: {own:.0} rows/s");
            if side == Side::Full {
                rates[0].push(own);
            } else {
                rates[1].push(own);
                let found = recovered(&file, &job, &records, rows)?;
                missing += found.missing;
                odd += found.odd;
                more += found.more;
            }
        }
    }
    place.clear()?;
    let (name, target) = match rows {
        0 => ("into an empty table".to_owned(), EMPTY),
        _ => (format!("into a table of {rows} rows"), LARGE),
    };
    let target = (!place.quick).then_some(target);
    let [base, ours] = rates.map(median);
    let found = |what: &str, rows: f64, target| {
        Figure::new(
            &format!("{what}, after kill -9"),
            Compare::Ours,
            0.0,
            rows,
            target,
        )
    };
    Ok(vec![
        Figure::new(
            &format!("{name}: acknowledged rows/s; base: WAL, synchronous=FULL"),
            Compare::RatioAtLeast,
            base,
            ours,
            target,
        ),
        found(
            "acknowledged batches that are not there",
            missing,
            Some(0.0),
        ),
        found(
            "rows of batches that are there in part, or that nobody wrote",
            odd,
            Some(0.0),
        ),
        found(
            "rows that are there and were not acknowledged: of batches in flight",
            more,
            None,
        ),
        probes.figure(),
    ])
}

struct Found {
    /// Acknowledged batches of which a row is not there.
    missing: f64,
    /// Rows that belong to no whole batch in flight.
    odd: f64,
    /// Rows beyond those that were acknowledged.
    more: f64,
}

/// What is there after the process was killed, through ingest: rows of the log count.
fn recovered(file: &Path, job: &Write, records: &[Record], before: u64) -> Result<Found> {
    let con = job.open()?;
    let there: i64 = con.query_row("SELECT count(*) FROM vote_in", [], |row| row.get(0))?;
    let there = there.unsigned_abs();
    let acknowledged: Vec<&Record> = records
        .iter()
        .filter(|r| r.kind == Kind::Acknowledged)
        .collect();
    let expected = before + acknowledged.len() as u64 * job.batch;
    let mut missing = 0;
    let mut lookup =
        con.prepare("SELECT count(*) FROM vote_in WHERE user = ?1 AND article = ?2")?;
    for record in &acknowledged {
        // Another row of each batch; the count above tells of the rest.
        let batch = u64::from(record.number);
        let row = FIRST + u64::from(record.thread) * EACH + batch * job.batch + batch % job.batch;
        let found: i64 = lookup.query_row(key(job.shape, row), |row| row.get(0))?;
        missing += i64::from(found != 1);
    }
    let more = there as f64 - expected as f64;
    let in_flight = f64::from(job.threads) * job.batch as f64;
    let is_whole = more >= 0.0 && more <= in_flight && (more / job.batch as f64).fract() == 0.0;
    drop(lookup);
    con.close().map_err(|(_, e)| e).about("close", file)?;
    eprintln!(
        "{} batches acknowledged, {there} rows there, {expected} expected",
        acknowledged.len()
    );
    Ok(Found {
        missing: missing as f64,
        odd: if is_whole { 0.0 } else { more.abs() },
        more,
    })
}
