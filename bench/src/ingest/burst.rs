//! A burst: the rows that eight threads get acknowledged in 20 s. Then the process is killed with
//! SIGKILL, and all acknowledged rows must be found.

use super::bare::Rate;
use super::recovered::recovered;
use super::running::{Running, rate};
use super::table::Shape;
use super::writers::{Side, Write};
use super::{Place, median};
use crate::outcome::{Compare, Figure};
use crate::result::Result;

/// Rows/s through ingest / rows/s of plain SQLite, with an empty table and with 10 million rows.
const EMPTY: f64 = 15.0;
const LARGE: f64 = 100.0;

/// `rows`: the number of rows that the table already has.
pub(super) fn measure(place: &Place<'_>, rows: u64, rounds: u64) -> Result<Vec<Figure>> {
    let time = place.time(20.0);
    let (mut rates, mut probes) = ([Vec::new(), Vec::new()], Rate::default());
    let (mut missing, mut odd, mut more) = (0, 0, 0);
    for round in 0..rounds {
        for side in super::turns(round, [Side::Full, Side::Ingest]) {
            let file = place.start(Shape::Votes, rows)?;
            probes.probe(place.work, side == Side::Full)?;
            // The process writes until it is killed.
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
    let found = |what: &str, rows: u64, target| {
        let name = format!("{name}, after kill -9: {what}");
        Figure::new(&name, Compare::Ours, 0.0, rows as f64, target)
    };
    Ok(vec![
        Figure::new(
            &format!("{name}: acknowledged rows/s; base: WAL, synchronous=FULL"),
            Compare::RatioAtLeast,
            base,
            ours,
            target,
        ),
        found("acknowledged rows that are not there", missing, Some(0.0)),
        found(
            "rows that are there twice, or without the rest of their batch",
            odd,
            Some(0.0),
        ),
        found(
            "rows of whole batches that had not been acknowledged yet",
            more,
            None,
        ),
        probes.figure(),
    ])
}
