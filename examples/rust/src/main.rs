//! Densite from Rust with rusqlite: `weather LIBRARY FOLDER`
//!
//! Makes FOLDER/weather.db, a Densite file. Every step checks what it got; the first surprise ends the program with a sentence and code 1.

use rusqlite::{Connection, LoadExtensionGuard, Result as Sqlite, params};
use std::error::Error;
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

type Result = std::result::Result<(), Box<dyn Error>>;

const STATIONS: i64 = 20;
/// Of each station, one every ten minutes.
const READINGS: i64 = 2500;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, folder] = arguments.as_slice() else {
        eprintln!("usage: weather LIBRARY FOLDER");
        return ExitCode::from(2);
    };
    match weather(Path::new(library), Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weather: {error}");
            ExitCode::FAILURE
        }
    }
}

fn weather(library: &Path, folder: &Path) -> Result {
    load(library)?;
    let path = folder.join("weather.db");
    // rusqlite reads names that begin with `file:` as URIs; `?`, `#` and `%` in a path would have to be written as %XX.
    let uri = format!("file:{}?vfs=densite", path.display());
    let mut db = Connection::open(&uri)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    write(&mut db)?;
    query(&db)?;
    let other = Connection::open(&uri)?;
    two_connections(&mut db, &other)?;
    ingest(&mut db, &other)?;
    drop((db, other));
    // The last close has checkpointed: what was in the WAL is in the file now.
    size(&Connection::open(&uri)?, &path)
}

/// The library stays in SQLite when the connection that loaded it is gone, and serves all later ones of the process.
fn load(library: &Path) -> Result {
    let loader = Connection::open_in_memory()?;
    // SAFETY: loading runs the library's code, which is Densite's.
    unsafe {
        let _allowed = LoadExtensionGuard::new(&loader)?;
        loader.load_extension(library.canonicalize()?, None::<&str>)?;
    }
    let version: String = loader.query_row("SELECT densite_version()", [], |row| row.get(0))?;
    println!("Densite {version} in SQLite {}", rusqlite::version());
    Ok(())
}

fn write(db: &mut Connection) -> Sqlite<()> {
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
        insert_readings(&transaction, "reading", id, READINGS)?;
    }
    transaction.execute("INSERT INTO report VALUES ('storm from the north'), ('clear, no wind'), ('the storm is over')", [])?;
    transaction.commit()
}

fn insert_readings(db: &Connection, table: &str, station: i64, count: i64) -> Sqlite<()> {
    let mut insert = db.prepare(&format!("INSERT INTO {table} VALUES (?, ?, ?)"))?;
    for i in 0..count {
        let at = format!(
            "2026-01-{:02} {:02}:{:02}",
            i / 144 + 1,
            i / 6 % 24,
            i % 6 * 10
        );
        let celsius = ((station * 37 + i * 17) % 400) as f64 / 10.0 - 5.0;
        insert.execute(params![station, at, celsius])?;
    }
    Ok(())
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
    Ok(())
}

/// WAL: another connection reads while this one writes, and sees what is committed.
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

/// Ingest: a commit costs one sync of a log; the rows are there at once through the ingest table, and soon after in the table itself.
fn ingest(db: &mut Connection, other: &Connection) -> Result {
    db.execute_batch(
        "CREATE VIRTUAL TABLE temp.reading_in USING densite_ingest(reading, on_conflict=replace)",
    )?;
    let transaction = db.transaction()?;
    insert_readings(&transaction, "temp.reading_in", 21, 1000)?;
    transaction.commit()?;
    same(
        "readings seen at once",
        number(
            db,
            "SELECT count(*) FROM temp.reading_in WHERE station = 21",
        )?,
        1000,
    )?;
    number(db, "SELECT densite_wait()")?;
    same(
        "readings in the table",
        number(other, "SELECT count(*) FROM reading WHERE station = 21")?,
        1000,
    )
}

fn size(db: &Connection, path: &Path) -> Result {
    let kind: String = db.query_row(
        "SELECT value FROM densite_info('main') WHERE name = 'kind'",
        [],
        |row| row.get(0),
    )?;
    same("kind of file", kind.as_str(), "densite")?;
    let logical = number(
        db,
        "SELECT value FROM densite_info('main') WHERE name = 'logical_bytes'",
    )?;
    let stored = i64::try_from(path.metadata()?.len())?;
    if stored * 2 > logical {
        return Err(format!(
            "{} has {stored} bytes for {logical}: not half as many",
            path.display()
        )
        .into());
    }
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    same("integrity_check", integrity.as_str(), "ok")?;
    println!(
        "{logical} bytes stored in {stored}: {} %",
        100 * stored / logical
    );
    Ok(())
}

fn number(db: &Connection, sql: &str) -> Sqlite<i64> {
    db.query_row(sql, [], |row| row.get(0))
}

fn same<T: PartialEq + Display>(what: &str, got: T, expected: T) -> Result {
    if got == expected {
        Ok(())
    } else {
        Err(format!("{what}: {got}, expected {expected}").into())
    }
}
