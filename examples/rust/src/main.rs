//! Densite from Rust: `weather FOLDER`
//!
//! Makes FOLDER/weather.db, a Densite file. Every step checks its result. The first wrong one ends
//! the program with a sentence and code 1.

use densite::rusqlite::{self, Connection, params};
use densite::{Columns, IngestConflict, IngestOptions, QueryOptions};
use std::error::Error;
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const STATIONS: i64 = 20;
/// Of each station, one every ten minutes.
const READINGS: i64 = 2500;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder] = arguments.as_slice() else {
        eprintln!("usage: weather FOLDER");
        return ExitCode::from(2);
    };
    match weather(Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weather: {error}");
            ExitCode::FAILURE
        }
    }
}

fn weather(folder: &Path) -> Result {
    let path = folder.join("weather.db");
    let mut db = densite::open(&path)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    let version: String = db.query_row("SELECT densite_version()", [], |row| row.get(0))?;
    println!("Densite {version} in SQLite {}", rusqlite::version());
    write(&mut db)?;
    query(&db)?;
    let other = densite::open(&path)?;
    two_connections(&mut db, &other)?;
    ingest(&db, &other)?;
    drop((db, other));
    // The last close has copied the WAL into the file.
    size(&path)
}

/// Writes all tables in one transaction: single rows with statements, many rows as columns.
fn write(db: &mut Connection) -> Result {
    db.execute_batch(
        "CREATE TABLE station(id INTEGER PRIMARY KEY, name TEXT NOT NULL, about TEXT NOT NULL);
         CREATE TABLE reading(station INTEGER NOT NULL REFERENCES station, at TEXT NOT NULL, celsius REAL, PRIMARY KEY (station, at));
         CREATE VIRTUAL TABLE report USING fts5(text);",
    )?;
    let transaction = db.transaction()?;
    for id in 1..=STATIONS {
        let about = format!(r#"{{"height": {}}}"#, id * 150);
        transaction.execute(
            "INSERT INTO station VALUES (?, ?, ?)",
            params![id, format!("station {id}"), about],
        )?;
        densite::insert(&transaction, "reading", readings(id, READINGS))?;
    }
    transaction.execute("INSERT INTO report VALUES ('storm from the north'), ('clear, no wind'), ('the storm is over')", [])?;
    transaction.commit()?;
    Ok(())
}

/// The readings of a station, column by column.
fn readings(station: i64, count: i64) -> Columns {
    let at = |i| {
        format!(
            "2026-01-{:02} {:02}:{:02}",
            i / 144 + 1,
            i / 6 % 24,
            i % 6 * 10
        )
    };
    let celsius = |i| ((station * 37 + i * 17) % 400) as f64 / 10.0 - 5.0;
    Columns::new()
        .integers("station", (0..count).map(|_| station))
        .texts("at", (0..count).map(at))
        .reals("celsius", (0..count).map(celsius))
}

fn query(db: &Connection) -> Result {
    let (rows, places): (i64, i64) = db.query_row(
        "SELECT count(*), count(DISTINCT s.name) FROM reading r JOIN station s ON s.id = r.station
         WHERE json_extract(s.about, '$.height') > 1000",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    same("readings above 1000 m", rows, 14 * READINGS)?;
    same("stations above 1000 m", places, 14)?;
    same(
        "reports of a storm",
        number(db, "SELECT count(*) FROM report WHERE report MATCH 'storm'")?,
        2,
    )?;
    println!("{rows} readings of {places} stations above 1000 m");
    lookup(db)
}

/// Many values to look up at once are keys: rows of a table in the statement.
fn lookup(db: &Connection) -> Result {
    let keys = Columns::new()
        .integers("station", [7, 3, 99])
        .texts("at", ["2026-01-02 00:00"; 3]);
    let sql = "SELECT k.station, r.celsius FROM keys k JOIN reading r USING (station, at)";
    let mut found = Vec::new();
    for batch in QueryOptions::new().keys(keys).query(db, sql, [])? {
        let batch = batch?;
        let stations = batch.column("station").and_then(|column| column.integers());
        found.extend_from_slice(stations.unwrap_or_default());
    }
    same(
        "stations with a reading",
        format!("{found:?}").as_str(),
        "[3, 7]",
    )
}

/// WAL: another connection reads while this one writes, and sees only committed rows.
fn two_connections(db: &mut Connection, other: &Connection) -> Result {
    const COUNT: &str = "SELECT count(*) FROM station";
    let transaction = db.transaction()?;
    transaction.execute(
        r#"INSERT INTO station VALUES (21, 'station 21', '{"height": 5}')"#,
        [],
    )?;
    same(
        "stations seen before the commit",
        number(other, COUNT)?,
        STATIONS,
    )?;
    transaction.commit()?;
    same(
        "stations seen after the commit",
        number(other, COUNT)?,
        STATIONS + 1,
    )
}

/// Ingest: an append costs one sync of a log. The ingest table shows the rows at once, and the
/// table itself soon after.
fn ingest(db: &Connection, other: &Connection) -> Result {
    let log = IngestOptions::new()
        .on_conflict(IngestConflict::Replace)
        .ingest(db, "reading")?;
    let mut sub = densite::subscribe(other, "counter", densite::Start::Now)?.max_rows(600);
    log.append_columns(readings(21, 1000))?;
    same(
        "readings seen at once",
        number(
            db,
            "SELECT count(*) FROM temp.reading_in WHERE station = 21",
        )?,
        1000,
    )?;
    log.wait(Some(Duration::from_secs(60)))?;
    same(
        "readings in the table",
        number(other, "SELECT count(*) FROM reading WHERE station = 21")?,
        1000,
    )?;
    let mut changes = 0;
    while let Some(batch) = sub.next(Some(Duration::ZERO))? {
        changes += batch.changes.len();
        sub.ack(batch.seq)?;
    }
    same("readings that a subscriber saw", changes, 1000)?;
    Ok(sub.unsubscribe()?)
}

/// Prints the size of the file, and checks it.
fn size(path: &Path) -> Result {
    let info = densite::info(path)?;
    same(
        "kind of file",
        format!("{:?}", info.form).as_str(),
        "Compressed",
    )?;
    let (logical, stored) = (info.logical_bytes, info.stored_bytes);
    if stored * 2 > logical {
        return Err(format!(
            "{} has {stored} bytes for {logical}: more than half",
            path.display()
        )
        .into());
    }
    let checked = densite::check(path)?;
    same("check of the file", checked.ok(), true)?;
    println!(
        "{logical} bytes stored in {stored}: {} %",
        100 * stored / logical
    );
    Ok(())
}

fn number(db: &Connection, sql: &str) -> rusqlite::Result<i64> {
    db.query_row(sql, [], |row| row.get(0))
}

fn same<T: PartialEq + Display>(what: &str, got: T, expected: T) -> Result {
    if got == expected {
        Ok(())
    } else {
        Err(format!("{what}: {got}, expected {expected}").into())
    }
}
