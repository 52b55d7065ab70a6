//! The databases that are mutated, and their contents.

use super::content::{Content, content};
use densite_tools::{Api, ConvertOptions, Silent};
use rusqlite::{Connection, OpenFlags, Result};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A database as it is on the disk.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) file: Vec<u8>,
    pub(crate) wal: Option<Vec<u8>>,
    /// The last connection closed it, so its newest slot names the last state.
    pub(crate) is_closed: bool,
    /// The WAL is mutated, not the database.
    pub(crate) is_wal_damaged: bool,
    /// The states of the database, oldest first. A reader finds the last one, or an earlier one if
    /// the file was not closed, or if its newest slot and another place are damaged.
    pub(crate) states: Vec<Content>,
}

fn api() -> Api {
    static API: OnceLock<Api> = OnceLock::new();
    *API.get_or_init(|| {
        let api = densite_linked::api().expect("the linked SQLite");
        densite_vfs::register(api, densite_vfs::NAME, None, false).expect("the VFS");
        api
    })
}

pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// A connection through Densite that does nothing in the background.
pub(crate) fn open(path: &Path) -> Result<Connection> {
    api();
    let uri = format!("file:{}?vfs=densite&threads=0&maintain=off", path.display());
    let con = Connection::open_with_flags(uri, OpenFlags::default())?;
    con.execute_batch("PRAGMA synchronous = OFF")?;
    Ok(con)
}

/// Whether a check of these bytes reports that the last commits are lost.
pub(crate) fn check_reports_a_cut(file: &[u8], path: &Path) -> bool {
    std::fs::write(path, file).expect("written");
    let checked = densite_tools::check(api(), path, &mut Silent);
    checked.is_ok_and(|checked| checked.cut.is_some())
}

/// Orders and their lines as in TPC-H: dates, decimals, codes, short texts.
const TRADE: &str = "
    CREATE TABLE orders(o_orderkey INTEGER PRIMARY KEY, o_custkey INT, o_orderstatus TEXT, o_totalprice REAL, o_orderdate TEXT, o_comment TEXT);
    CREATE TABLE lineitem(l_orderkey INT, l_linenumber INT, l_partkey INT, l_quantity INT, l_extendedprice REAL, l_discount REAL, l_shipdate TEXT, l_shipmode TEXT,
        PRIMARY KEY (l_orderkey, l_linenumber)) WITHOUT ROWID;
    CREATE INDEX o_date ON orders(o_orderdate);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
      INSERT INTO orders SELECT i * 4, i * 7919 % 300, substr('FOP', i % 3 + 1, 1), (i * 104729 % 1000000) / 100.0, date('1992-01-01', (i * 31 % 2400) || ' days'),
        'carefully final deposits ' || hex(i * 2654435761 % 65536) || ' sleep' FROM n;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
      INSERT INTO lineitem SELECT i / 3 * 4, i % 3, i * 48271 % 2000, i % 50 + 1, (i * 7919 % 900000) / 100.0, (i % 11) / 100.0, date('1992-01-01', (i * 17 % 2500) || ' days'),
        CASE i % 4 WHEN 0 THEN 'AIR' WHEN 1 THEN 'TRUCK' WHEN 2 THEN 'RAIL' ELSE 'SHIP' END FROM n;";
/// Text, also long enough for overflow pages, in UTF-8; NULLs and blobs.
const TEXT: &str = "
    CREATE TABLE article(id INTEGER PRIMARY KEY, title TEXT, body TEXT, image BLOB);
    CREATE TABLE word(word TEXT PRIMARY KEY, n INT) WITHOUT ROWID;
    CREATE INDEX by_title ON article(title);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150)
      INSERT INTO article SELECT i, 'Über ' || (i * 7919 % 997) || ' Dinge', replace(hex(zeroblob(20 + i % 9 * 150)), '00', 'word' || (i % 13) || ' '),
        CASE i % 10 WHEN 0 THEN CAST(hex(i * 2654435761) || hex(i * 40503) AS BLOB) END FROM n;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) INSERT INTO word SELECT 'w' || (i * 48271 % 65537), i FROM n;";
/// Measurements: REALs of many kinds, and integers that grow.
const FLOATS: &str = "
    CREATE TABLE sample(at INTEGER PRIMARY KEY, x REAL, y REAL, z REAL, flag INT);
    CREATE INDEX by_z ON sample(z);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
      INSERT INTO sample SELECT 1700000000000 + i * 1000 + i % 7, i / 3.0, 20.0 + (i * 7919 % 1000) / 1000.0, CASE i % 20 WHEN 0 THEN NULL WHEN 1 THEN 1e300 / i ELSE (i * i % 10007) * 1e-9 END, i % 2 FROM n;";
/// Changes, each a transaction of its own.
const CHANGES: [&str; 3] = [
    "UPDATE orders SET o_orderstatus = 'X' WHERE o_orderkey % 5 = 0; DELETE FROM lineitem WHERE l_partkey % 7 = 0",
    "INSERT INTO orders SELECT o_orderkey + 100000, o_custkey, 'N', o_totalprice * 2, o_orderdate, 'new ' || o_comment FROM orders WHERE o_orderkey % 3 = 0",
    "UPDATE lineitem SET l_discount = 0.5 WHERE l_linenumber = 1; DELETE FROM orders WHERE o_custkey < 20",
];

pub(crate) fn kinds() -> Vec<Kind> {
    let all = format!("{TRADE}{TEXT}{FLOATS}");
    let archive = ConvertOptions {
        archive: true,
        ..ConvertOptions::default()
    };
    let usual = ConvertOptions::default;
    vec![
        compressed("trade, pages of 4096", TRADE, 4096, &usual()),
        compressed("text, pages of 1024", TEXT, 1024, &usual()),
        compressed("floats, pages of 8192", FLOATS, 8192, &usual()),
        compressed("all, pages of 512", &all, 512, &usual()),
        compressed("all, pages of 65536", &all, 65_536, &usual()),
        compressed("archive of all", &all, 4096, &archive),
        written("written and closed", true),
        written("written and not closed", false),
        with_wal("a mutated WAL", true),
    ]
}

/// A database that was not closed, with an undamaged WAL.
pub(crate) fn below_a_wal() -> Kind {
    with_wal("not closed, with a WAL", false)
}

/// A database from `densite compress`.
fn compressed(name: &'static str, sql: &str, page: u32, options: &ConvertOptions) -> Kind {
    let dir = tempfile::tempdir().expect("a directory");
    let (plain, path) = (dir.path().join("plain.db"), dir.path().join("a.db"));
    let con = Connection::open(&plain).expect("opens");
    con.execute_batch(&format!("PRAGMA page_size = {page}; BEGIN; {sql}; COMMIT"))
        .expect("made");
    let state = content(&con);
    con.close().expect("closes");
    densite_tools::compress(api(), &plain, Some(&path), options, &mut Silent).expect("compressed");
    Kind {
        name,
        file: std::fs::read(&path).expect("read"),
        wal: None,
        is_closed: true,
        is_wal_damaged: false,
        states: vec![state],
    }
}

/// A database from transactions in a rollback mode.
fn written(name: &'static str, close: bool) -> Kind {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let con = open(&path).expect("opens");
    con.execute_batch("PRAGMA synchronous = FULL").expect("set");
    let mut states = Vec::new();
    for sql in [TRADE].iter().chain(&CHANGES) {
        con.execute_batch(&format!("BEGIN; {sql}; COMMIT"))
            .expect("written");
        states.push(content(&con));
    }
    let mut file = std::fs::read(&path).expect("read");
    con.close().expect("closes");
    if close {
        file = std::fs::read(&path).expect("read");
    }
    Kind {
        name,
        file,
        wal: None,
        is_closed: close,
        is_wal_damaged: false,
        states,
    }
}

/// Changes of a few pages.
const SMALL: [&str; 2] = [
    "UPDATE orders SET o_comment = 'changed' WHERE o_orderkey = 400",
    "DELETE FROM lineitem WHERE l_orderkey = 800; INSERT INTO orders VALUES (-1, 1, 'F', 0.5, '2000-01-01', NULL)",
];

/// A database as a killed process leaves it: large changes are checkpointed, small ones are in the
/// WAL.
fn with_wal(name: &'static str, is_wal_damaged: bool) -> Kind {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.db");
    let con = open(&path).expect("opens");
    con.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0",
    )
    .expect("set");
    let write = |sql: &str| {
        con.execute_batch(&format!("BEGIN; {sql}; COMMIT"))
            .expect("written");
    };
    let checkpoint = || {
        con.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .expect("a checkpoint");
    };
    for sql in [TRADE].iter().chain(&CHANGES) {
        write(sql);
        checkpoint();
    }
    let mut states = vec![content(&con)];
    for sql in SMALL {
        write(sql);
        states.push(content(&con));
    }
    if !is_wal_damaged {
        // Transactions in an undamaged WAL are always read.
        states.drain(..2);
    }
    Kind {
        name,
        file: std::fs::read(&path).expect("read"),
        wal: Some(std::fs::read(beside(&path, "-dwal")).expect("read")),
        is_closed: false,
        is_wal_damaged,
        states,
    }
}
