//! Compares the content of a disk with what the application was told.

use super::actors::SUBSCRIBER;
use super::ledger::{Ledger, Row, Told, Txn, is_refused};
use super::site::{LOG, Site, options};
use densite_log::{Log, LogDir, Seq, Value};
use densite_sim_disk::SimDisk;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A result, with the problem as text.
pub(super) type Checked<T> = Result<T, String>;

/// For each row, how often it is in its table and how often among the rejects.
type Places = BTreeMap<(String, i64, i64), (u64, u64)>;

/// The change at which the disk was captured. `None` if the run ended or was really cut: then the
/// returned results count.
#[derive(Debug, Clone, Copy)]
pub struct At(pub Option<u64>);

impl At {
    fn began(self, txn: &Txn) -> bool {
        self.0.is_none_or(|at| txn.when.began < at)
    }

    fn done(self, done: u64) -> bool {
        self.0.is_none_or(|at| done < at)
    }
}

fn said(e: rusqlite::Error) -> String {
    e.to_string()
}

/// Opens the database, waits until all rows are applied, and checks every row. Returns whether
/// there was an incomplete clustered apply.
///
/// # Errors
/// The first broken promise.
pub fn verify(site: &Site, disk: &SimDisk, at: At, ledger: &Ledger) -> Checked<bool> {
    site.boot(disk);
    let process = site.process();
    let clustered = process.plain().and_then(|con| {
        let done = "SELECT clustered_done FROM densite_applied";
        con.query_row(done, [], |row| row.get::<_, i64>(0))
    });
    let con = process
        .ingest()
        .map_err(|e| format!("it does not open: {e}"))?;
    con.query_row("SELECT densite_wait()", [], |_| Ok(()))
        .map_err(|e| format!("densite_wait: {e}"))?;
    rows_are_where_they_belong(&con, at, ledger)?;
    subscriber_lacks_nothing(disk, at, ledger)?;
    let sound: String = con
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(said)?;
    if sound != "ok" {
        return Err(sound);
    }
    // Ingest must continue.
    con.execute_batch("INSERT INTO t_in VALUES (-1, -1, -1, -1, 'after')")
        .and_then(|()| con.query_row("SELECT densite_wait()", [], |_| Ok(())))
        .map_err(|e| format!("afterwards: {e}"))?;
    let there = con.query_row("SELECT count(*) FROM t WHERE id = -1", [], |r| {
        r.get::<_, i64>(0)
    });
    match there.map_err(said)? {
        // Without this table the database has no log yet.
        1 => Ok(clustered.is_ok_and(|done| done > 0)),
        n => Err(format!(
            "a row that was added afterwards is there {n} times"
        )),
    }
}

fn places(con: &Connection) -> Checked<Places> {
    let mut places = Places::new();
    let sql = "SELECT 0, 't', w, n FROM t UNION ALL SELECT 0, 'bare', w, n FROM bare UNION ALL SELECT 0, 'clustered', w, n FROM clustered
        UNION ALL SELECT 1, \"table\", json_extract(\"row\", '$.w'), json_extract(\"row\", '$.n') FROM densite_rejects";
    let mut statement = con.prepare(sql).map_err(said)?;
    let mut rows = statement.query([]).map_err(said)?;
    while let Some(row) = rows.next().map_err(said)? {
        let get = |i| row.get::<_, i64>(i).map_err(said);
        let key = (row.get::<_, String>(1).map_err(said)?, get(2)?, get(3)?);
        let (table, rejects) = places.entry(key).or_default();
        match get(0)? {
            0 => *table += 1,
            _ => *rejects += 1,
        }
    }
    Ok(places)
}

fn rows_are_where_they_belong(con: &Connection, at: At, ledger: &Ledger) -> Checked<()> {
    let mut places = places(con)?;
    let mut take = |row: &Row| {
        places
            .remove(&(row.0.to_owned(), row.1, row.2))
            .unwrap_or((0, 0))
    };
    for txn in ledger.txns.lock().iter() {
        let wanted = |row: &Row| if is_refused(row) { (0, 1) } else { (1, 0) };
        let found: Vec<(u64, u64)> = txn.rows.iter().map(&mut take).collect();
        let all = txn.rows.iter().map(wanted).eq(found.iter().copied());
        let none = found.iter().all(|f| *f == (0, 0));
        let ended = at.done(txn.when.done);
        let right = match txn.told {
            Told::Committed(_) if ended => all,
            Told::Nothing if ended => none,
            Told::Unknown => all || none,
            // The cut can be between the log and the refusal of a COMMIT.
            _ if at.began(txn) => all || none,
            _ => none,
        };
        if !right {
            return Err(format!(
                "{txn:?}: (in the table, among the rejects) is {found:?}"
            ));
        }
        if let Some(row) = txn.taken_back.iter().find(|row| take(row) != (0, 0)) {
            return Err(format!(
                "{row:?} was taken back by a savepoint and is there"
            ));
        }
    }
    match places.is_empty() {
        true => Ok(()),
        false => Err(format!("rows that nobody wrote: {places:?}")),
    }
}

/// Checks that the subscriber is at its acknowledged position, and that all later rows are in the
/// log, once and in order.
fn subscriber_lacks_nothing(disk: &SimDisk, at: At, ledger: &Ledger) -> Checked<()> {
    let subscribed = *ledger.subscribed.lock();
    let dir = || -> LogDir { Arc::new(disk.dir(LOG)) };
    let told = |e: densite_log::Error| format!("the log: {e}");
    let id = densite_log::id_in(dir()).map_err(told)?.ok_or("no log")?;
    let log = Log::open(dir(), options(id)).map_err(told)?;
    let all = log.subscribers().map_err(told)?;
    let position = all
        .iter()
        .find(|s| s.name == SUBSCRIBER)
        .map(|s| s.position);
    let Some(position) = position else {
        return match subscribed.filter(|(_, when)| at.done(when.done)) {
            Some(_) => Err("the subscriber is gone".to_owned()),
            None => Ok(()),
        };
    };
    let acks = ledger.acks.lock();
    let sure = acks
        .iter()
        .filter(|(_, ok, when)| *ok && at.done(when.done));
    // If the machine failed during the subscription, its first position is unknown.
    let (from, to) = subscribed.map_or((0, position), |(begin, _)| (begin, begin));
    let least = sure.map(|(seq, ..)| *seq).max().unwrap_or(from).max(from);
    let asked = acks
        .iter()
        .filter(|(_, _, when)| at.0.is_none_or(|at| when.began < at));
    let most = asked.map(|(seq, ..)| *seq).max().unwrap_or(to).max(to);
    if !(least..=most).contains(&position) {
        return Err(format!(
            "the subscriber is at {position}, not from {least} to {most}"
        ));
    }
    let found = read(&log, position).map_err(told)?;
    for txn in ledger.txns.lock().iter() {
        let Told::Committed(last) = txn.told else {
            continue;
        };
        let first = (last + 1).saturating_sub(txn.rows.len() as u64);
        if first <= position || !at.done(txn.when.done) {
            continue;
        }
        let numbers = first..=last;
        let got: Vec<_> = numbers.filter_map(|seq| found.get(&seq).cloned()).collect();
        let wanted: BTreeSet<_> = txn
            .rows
            .iter()
            .map(|r| (r.0.to_owned(), r.1, r.2))
            .collect();
        if got.len() != txn.rows.len() || got.into_iter().collect::<BTreeSet<_>>() != wanted {
            return Err(format!(
                "the subscriber at {position} does not find {txn:?}"
            ));
        }
    }
    Ok(())
}

fn read(log: &Log, after: Seq) -> densite_log::Result<BTreeMap<Seq, (String, i64, i64)>> {
    let mut reader = log.read_after(after)?;
    let mut found = BTreeMap::new();
    while let Some(record) = reader.next()? {
        let place = |name: &str| record.table.columns().iter().position(|c| c == name);
        let number = |row: usize, name: &str| {
            let value = place(name).and_then(|c| record.rows.get(row, c));
            match value {
                Some(Value::Int(n)) => n,
                _ => 0,
            }
        };
        for row in record.skip..record.rows.len() {
            let key = (
                record.table.name().to_owned(),
                number(row, "w"),
                number(row, "n"),
            );
            found.insert(record.first + row as u64, key);
        }
    }
    Ok(found)
}
