//! Checks a database after its writer was killed. Each acknowledged row must be in the table or in
//! the log, once. Other rows can be there only as whole batches.
//!
//! The log is opened as usual, with its recovery, and read from the table's position on. The write
//! lock is held meanwhile, so that no rows are applied.

use std::path::Path;
use std::sync::Arc;

use densite_disk::RealDir;
use densite_log::{Log, LogId, Options, Value};

use super::record_pipe::{Kind, Record};
use super::table::{EACH, key};
use super::watch::beside;
use super::writers::Write;
use crate::connect::Vfs;
use crate::result::{Failure, Result};

/// Counts of rows.
pub(super) struct Found {
    /// Acknowledged rows that are missing.
    pub(super) missing: u64,
    /// Rows that exist twice, or that are not acknowledged and in an incomplete batch.
    pub(super) odd: u64,
    /// Rows of whole batches whose acknowledgement was not reported yet.
    pub(super) more: u64,
}

/// `before`: the rows that the table already had. They have the first row ids.
pub(super) fn recovered(
    file: &Path,
    job: &Write,
    records: &[Record],
    before: u64,
) -> Result<Found> {
    let con = Vfs::Plain.open(file)?;
    con.execute_batch("BEGIN IMMEDIATE")?;
    let users = "SELECT user FROM vote WHERE rowid > ?1";
    let mut there: Vec<i64> = con
        .prepare(users)?
        .query_map([before as i64], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let applied = there.len();
    let position = "SELECT log, seq, clustered_last, clustered_done, (SELECT permutation FROM densite_clustered WHERE densite_clustered.id = clustered) FROM densite_applied";
    let (id, seq, last, done, places): ([u8; 16], i64, i64, u32, Option<Vec<u8>>) =
        con.query_row(position, [], |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        })?;
    let seq = seq.unsigned_abs();
    // The table has those rows behind `seq` whose places in the permutation are done.
    let places = places.unwrap_or_default();
    let is_there = |number: u64| {
        let at = usize::try_from(number - seq - 1).unwrap_or(usize::MAX);
        let place = places.chunks_exact(4).nth(at);
        let place = place.and_then(|bytes| bytes.try_into().ok());
        place.is_some_and(|bytes| u32::from_le_bytes(bytes) < done)
    };
    let options = Options {
        above: last.unsigned_abs().max(seq),
        ..Options::new(LogId(id))
    };
    let log = Log::open(Arc::new(RealDir::new(beside(file, "-log"))), options)?;
    let mut reader = log.read_after(seq)?;
    while let Some(record) = reader.next()? {
        for row in record.skip..record.rows.len() {
            if is_there(record.first + row as u64) {
                continue;
            }
            match record.rows.get(row, 0) {
                Some(Value::Int(user)) => there.push(user),
                other => return Err(Failure(format!("the log has {other:?} for a user"))),
            }
        }
    }
    there.sort_unstable();
    let rows = there.len() as u64;
    there.dedup();
    let twice = rows - there.len() as u64;
    let of_batch = |thread: u64, number: u64| {
        let first = job.first + thread * EACH + number * job.batch;
        (first..first + job.batch).map(|n| key(job.shape, n).0)
    };
    let mut acknowledged = Vec::new();
    let mut next = vec![0; usize::from(job.threads)];
    for record in records.iter().filter(|r| r.kind == Kind::Acknowledged) {
        let number = u64::from(record.number);
        acknowledged.extend(of_batch(u64::from(record.thread), number));
        if let Some(next) = next.get_mut(usize::from(record.thread)) {
            *next = number + 1;
        }
    }
    acknowledged.sort_unstable();
    let is_there = |user: &i64| there.binary_search(user).is_ok();
    let mut ends = there.iter().peekable();
    // Both lists are sorted.
    let missing = acknowledged.iter().filter(|user| {
        while ends.next_if(|there| there < user).is_some() {}
        ends.peek() != Some(user)
    });
    let missing = missing.count() as u64;
    let (mut more, mut whole) = (0, 0);
    for (next, thread) in next.into_iter().zip(0..) {
        let found = of_batch(thread, next).filter(is_there).count() as u64;
        more += found;
        whole += if found == job.batch { found } else { 0 };
    }
    let known = acknowledged.len() as u64 - missing + more;
    let found = Found {
        missing,
        odd: twice + (more - whole) + (there.len() as u64).saturating_sub(known),
        more: whole,
    };
    eprintln!(
        "{} rows acknowledged; {applied} in the table, {} in the log",
        acknowledged.len(),
        rows - applied as u64
    );
    Ok(found)
}
