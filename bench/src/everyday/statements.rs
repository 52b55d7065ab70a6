//! What users ask the everyday databases: five statements for each, and lookups by key.
//!
//! The targets are of CPU time divided by plain SQLite's. A statement without a target is measured
//! too.

use crate::result::{Failure, Result};

/// A statement of one database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement {
    pub(super) database: &'static str,
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
    pub(super) form: Form,
    /// The largest ratio of a first run, and of a second run on the same connection
    pub(super) targets: [Option<f64>; 2],
}

/// How a statement is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Once
    Query,
    /// For [`LOOKUPS`] random keys of those that this statement selects
    Lookups {
        keys: &'static str,
        in_one_transaction: bool,
    },
}

/// The number of lookups in a run.
pub(super) const LOOKUPS: u64 = 10_000;

const fn query(
    database: &'static str,
    name: &'static str,
    targets: [Option<f64>; 2],
    sql: &'static str,
) -> Statement {
    Statement {
        database,
        name,
        sql,
        form: Form::Query,
        targets,
    }
}

const fn lookups(
    database: &'static str,
    keys: &'static str,
    sql: &'static str,
    in_one_transaction: bool,
) -> Statement {
    Statement {
        database,
        name: if in_one_transaction {
            "10,000 lookups in one transaction"
        } else {
            "10,000 lookups in autocommit"
        },
        sql,
        form: Form::Lookups {
            keys,
            in_one_transaction,
        },
        targets: [Some(if in_one_transaction { 1.4 } else { 1.1 }), None],
    }
}

/// The first and the second run of a scan.
const SCAN: [Option<f64>; 2] = [Some(1.5), Some(1.05)];
/// The same of rows that an index finds on pages far apart.
const SCATTERED: [Option<f64>; 2] = [Some(2.2), Some(1.05)];
const NONE: [Option<f64>; 2] = [None, None];

const PACKAGE: [&str; 2] = [
    "SELECT package FROM package ORDER BY package",
    "SELECT version, depends, description, sha256 FROM package WHERE package = ?",
];
const DOCUMENT: [&str; 2] = [
    "SELECT id FROM document ORDER BY id",
    "SELECT path, text FROM document WHERE id = ?",
];
const VECTOR: [&str; 2] = [
    "SELECT chunk FROM embedding ORDER BY chunk",
    "SELECT vector FROM embedding WHERE chunk = ?",
];
const READING: [&str; 2] = [
    "SELECT id FROM reading ORDER BY id",
    "SELECT sensor, at, value FROM reading WHERE id = ?",
];
const EVENT: [&str; 2] = [
    "SELECT id FROM event ORDER BY id",
    "SELECT kind, data FROM event WHERE id = ?",
];
const PAGE: [&str; 2] = [
    "SELECT rowid FROM page ORDER BY rowid",
    "SELECT title FROM page WHERE rowid = ?",
];
const FLIGHT: [&str; 2] = [
    "SELECT id FROM flight ORDER BY id",
    "SELECT carrier, flight, tailnum, dest, arr_delay FROM flight WHERE id = ?",
];

/// All statements, in the order of the report.
pub(super) const ALL: [Statement; 49] = [
    query(
        "packages",
        "LIKE over text",
        SCAN,
        "SELECT count(*), sum(length(depends)) FROM package WHERE description LIKE '%library%'",
    ),
    query(
        "packages",
        "average by group",
        SCAN,
        "SELECT priority, count(*), avg(size), avg(installed_size) FROM package GROUP BY priority",
    ),
    query(
        "packages",
        "one section by index",
        NONE,
        "SELECT count(*), sum(size), max(filename) FROM package WHERE section = 'libdevel'",
    ),
    query(
        "packages",
        "largest sections, by index",
        NONE,
        "SELECT section, count(*), sum(size) FROM package GROUP BY section ORDER BY 3 DESC LIMIT 10",
    ),
    query(
        "packages",
        "join by text key",
        NONE,
        "SELECT count(*), sum(b.size) FROM package a JOIN package b ON b.package = a.source
         WHERE a.section = 'libs'",
    ),
    lookups("packages", PACKAGE[0], PACKAGE[1], true),
    lookups("packages", PACKAGE[0], PACKAGE[1], false),
    query(
        "sources",
        "LIKE over text",
        SCAN,
        "SELECT count(*) FROM document WHERE text LIKE '%unsafe impl%'",
    ),
    query(
        "sources",
        "length of all texts by group",
        NONE,
        "SELECT language, count(*), sum(length(text)) FROM document GROUP BY language",
    ),
    query(
        "sources",
        "documents that have a word",
        NONE,
        "SELECT crate, count(*) FROM document WHERE instr(text, 'TODO') > 0 GROUP BY crate",
    ),
    query(
        "sources",
        "one crate by index",
        NONE,
        "SELECT path, text FROM document WHERE crate >= 'tokio' AND crate < 'tokip'",
    ),
    query(
        "sources",
        "beginnings of all documents",
        NONE,
        "SELECT substr(text, 1, 80) FROM document WHERE language = 'Rust'",
    ),
    lookups("sources", DOCUMENT[0], DOCUMENT[1], true),
    lookups("sources", DOCUMENT[0], DOCUMENT[1], false),
    query(
        "embeddings",
        "all vectors, read",
        SCAN,
        "SELECT chunk, vector FROM embedding",
    ),
    query(
        "embeddings",
        "all vectors through a function",
        SCAN,
        "SELECT count(*), sum(length(vector)), max(vector) FROM embedding",
    ),
    query(
        "embeddings",
        "vectors of a range of documents",
        NONE,
        "SELECT vector FROM chunk JOIN embedding ON chunk = id WHERE document BETWEEN 1000 AND 2000",
    ),
    query(
        "embeddings",
        "vectors of paths that match",
        NONE,
        "SELECT path, max(vector) FROM chunk JOIN embedding ON chunk = id
         WHERE path LIKE '%error%' GROUP BY path",
    ),
    query(
        "embeddings",
        "chunks by document",
        NONE,
        "SELECT document, count(*), max(start) FROM chunk GROUP BY document",
    ),
    lookups("embeddings", VECTOR[0], VECTOR[1], true),
    lookups("embeddings", VECTOR[0], VECTOR[1], false),
    query(
        "sensors",
        "REAL by time range",
        SCAN,
        "SELECT count(*), avg(value), max(value) FROM reading
         WHERE at BETWEEN 1465344000 AND 1465948800",
    ),
    query(
        "sensors",
        "one sensor by index",
        SCATTERED,
        "SELECT count(*), avg(value), max(value) FROM reading WHERE sensor = 30",
    ),
    query(
        "sensors",
        "average by group",
        SCAN,
        "SELECT at / 86400, avg(value) FROM reading GROUP BY 1",
    ),
    query(
        "sensors",
        "maximum of sensors by join",
        NONE,
        "SELECT station, quantity, max(value) FROM sensor JOIN reading ON sensor = sensor.id
         WHERE quantity LIKE 'temp%' GROUP BY sensor.id",
    ),
    query(
        "sensors",
        "count above a limit",
        SCAN,
        "SELECT count(*) FROM reading WHERE value > 900",
    ),
    lookups("sensors", READING[0], READING[1], true),
    lookups("sensors", READING[0], READING[1], false),
    query(
        "events",
        "LIKE over JSON",
        SCAN,
        r#"SELECT count(*) FROM event WHERE data LIKE '%"tail":"N328AA"%'"#,
    ),
    query(
        "events",
        "json_extract by group",
        SCAN,
        "SELECT json_extract(data, '$.flight.carrier'), count(*), avg(json_extract(data, '$.delay'))
         FROM event GROUP BY 1",
    ),
    query(
        "events",
        "documents by time range",
        NONE,
        "SELECT at, data FROM event WHERE at BETWEEN 1359676800 AND 1360886400",
    ),
    query(
        "events",
        "one kind by index",
        NONE,
        "SELECT count(*), max(data) FROM event WHERE kind = 'weather.observed'",
    ),
    query(
        "events",
        "lengths by kind, by index",
        NONE,
        "SELECT kind, count(*), sum(length(data)) FROM event GROUP BY kind",
    ),
    lookups("events", EVENT[0], EVENT[1], true),
    lookups("events", EVENT[0], EVENT[1], false),
    query(
        "search",
        "texts with any of two words, ranked",
        NONE,
        "SELECT title FROM page WHERE page MATCH 'memory OR iterator' ORDER BY rank LIMIT 20",
    ),
    query(
        "search",
        "phrase or prefix",
        NONE,
        r#"SELECT count(*) FROM page WHERE page MATCH '"thread safe" OR seriali*'"#,
    ),
    query(
        "search",
        "snippets",
        NONE,
        "SELECT title, snippet(page, 1, '[', ']', '...', 12) FROM page WHERE page MATCH 'deadlock'",
    ),
    query(
        "search",
        "LIKE over text",
        SCAN,
        "SELECT count(*) FROM page WHERE body LIKE '%lock-free%'",
    ),
    query(
        "search",
        "titles",
        NONE,
        "SELECT count(*), max(title) FROM page WHERE title LIKE 'tokio%'",
    ),
    lookups("search", PAGE[0], PAGE[1], true),
    lookups("search", PAGE[0], PAGE[1], false),
    query(
        "flights",
        "average by group",
        SCAN,
        "SELECT carrier, count(*), avg(arr_delay), avg(dep_delay) FROM flight GROUP BY carrier",
    ),
    query(
        "flights",
        "one destination by index",
        SCATTERED,
        "SELECT count(*), avg(arr_delay), max(temp) FROM flight WHERE dest = 'LAX'",
    ),
    query(
        "flights",
        "REAL by time range",
        SCAN,
        "SELECT count(*), avg(temp), max(wind_speed) FROM flight
         WHERE time_hour BETWEEN '2013-07-01' AND '2013-07-29'",
    ),
    query(
        "flights",
        "join of three tables",
        NONE,
        "SELECT p.manufacturer, a.name, avg(f.arr_delay) FROM flight f
         JOIN plane p ON p.tailnum = f.tailnum JOIN airport a ON a.faa = f.dest
         WHERE f.month = 7 GROUP BY 1, 2",
    ),
    query(
        "flights",
        "repeated text keys, by index alone",
        NONE,
        "SELECT tailnum, count(*) FROM flight GROUP BY tailnum",
    ),
    lookups("flights", FLIGHT[0], FLIGHT[1], true),
    lookups("flights", FLIGHT[0], FLIGHT[1], false),
];

/// The statement of a database with this name.
pub(super) fn find(database: &str, name: &str) -> Result<&'static Statement> {
    let is = |statement: &&Statement| statement.database == database && statement.name == name;
    ALL.iter()
        .find(is)
        .ok_or_else(|| Failure(format!("{database} has no statement named {name}")))
}
