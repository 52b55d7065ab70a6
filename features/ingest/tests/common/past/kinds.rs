//! Kinds of tables with ingest, by their special features.

use rand::RngExt;
use rand::rngs::StdRng;

/// Makes the values of a random row.
pub(super) type Row = Box<dyn Fn(&mut StdRng) -> Vec<String>>;

/// A table; `$` is replaced by its name.
pub(super) struct Kind {
    pub(super) schema: String,
    /// The columns that can be set, those of the key first.
    pub(super) columns: Vec<String>,
    pub(super) keys: usize,
    /// How each column of the key compares, if not as the column does.
    pub(super) compared: Vec<Option<&'static str>>,
    pub(super) row: Row,
    /// The table refuses nothing, so readers see exactly what it will have.
    pub(super) exact: bool,
}

impl Kind {
    /// One of the kinds below.
    pub(super) fn known(r: &mut StdRng) -> Kind {
        let known = &KINDS[r.random_range(0..KINDS.len())];
        Kind {
            schema: known.schema.to_owned(),
            columns: known.columns.iter().map(|c| (*c).to_owned()).collect(),
            keys: known.keys,
            compared: vec![None; known.keys],
            row: Box::new(known.row),
            exact: known.exact,
        }
    }
}

/// A table with a special feature.
struct Known {
    schema: &'static str,
    columns: &'static [&'static str],
    keys: usize,
    row: fn(&mut StdRng) -> Vec<String>,
    exact: bool,
}

pub(super) fn pick(r: &mut StdRng, of: &[&str]) -> String {
    of[r.random_range(0..of.len())].to_owned()
}

pub(super) fn n(r: &mut StdRng, to: i64) -> String {
    r.random_range(0..to).to_string()
}

pub(super) fn text(r: &mut StdRng) -> String {
    let letter = pick(r, &["a", "A", "b", "B ", "é", "É", "ÿ", "😀", "d  ", ""]);
    format!("'{letter}{}'", r.random_range(0..12))
}

pub(super) fn any(r: &mut StdRng) -> String {
    let n = r.random_range(0..25);
    match r.random_range(0..8) {
        0 => format!("{n}.0"),
        1 => format!("{n}.5"),
        2 => format!("x'{n:02x}'"),
        3 => format!("'{n}'"),
        4 => pick(
            r,
            &[
                "9223372036854775807",
                "-9223372036854775808",
                "9223372036854775807.0",
                "9223372036854775295.0",
                "-9223372036854775808.0",
                "1e300",
                "-1e300",
                "9e999",
                "0.1",
                "576460752303423488",
                "576460752303423489",
                "'long text that no word has A'",
                "'long text that no word has B'",
                "x''",
                "''",
            ],
        ),
        _ => n.to_string(),
    }
}

const KINDS: [Known; 12] = [
    Known {
        schema: "CREATE TABLE $(u INTEGER NOT NULL, s INTEGER NOT NULL, v, PRIMARY KEY(u, s)); CREATE INDEX $_s ON $(s)",
        columns: &["u", "s", "v"],
        keys: 2,
        row: |r| vec![n(r, 40), n(r, 8), n(r, 99)],
        exact: true,
    },
    Known {
        schema: "CREATE TABLE $(k TEXT COLLATE NOCASE PRIMARY KEY, v COLLATE NOCASE, x) WITHOUT ROWID; CREATE INDEX $_v ON $(v)",
        columns: &["k", "v", "x"],
        keys: 1,
        row: |r| vec![text(r), text(r), n(r, 99)],
        exact: true,
    },
    Known {
        schema: "CREATE TABLE $(id INTEGER PRIMARY KEY, v, x, CHECK (v % 9 <> 4)); CREATE INDEX $_v ON $(v, x)",
        columns: &["id", "v", "x"],
        keys: 1,
        row: |r| vec![(r.random_range(-80..80)).to_string(), n(r, 99), any(r)],
        exact: false,
    },
    Known {
        schema: "CREATE TABLE $(a, b, v, PRIMARY KEY(b DESC, a COLLATE RTRIM)) WITHOUT ROWID; CREATE INDEX $_v ON $(v DESC)",
        columns: &["b", "a", "v"],
        keys: 2,
        row: |r| vec![n(r, 12), text(r), n(r, 50)],
        exact: true,
    },
    Known {
        schema: "CREATE TABLE $(k BLOB PRIMARY KEY NOT NULL, v, w); CREATE INDEX $_w ON $(w)",
        columns: &["k", "v", "w"],
        keys: 1,
        row: |r| vec![any(r), n(r, 50), any(r)],
        exact: true,
    },
    Known {
        schema: "CREATE TABLE $(k PRIMARY KEY, v, u UNIQUE); CREATE INDEX $_v ON $(v)",
        columns: &["k", "v", "u"],
        keys: 1,
        row: |r| {
            vec![
                match r.random_bool(0.1) {
                    true => "NULL".to_owned(),
                    false => any(r),
                },
                n(r, 50),
                n(r, 300),
            ]
        },
        exact: false,
    },
    Known {
        schema: "CREATE TABLE $(v, x, id INTEGER, g AS (v || 'x') STORED, PRIMARY KEY(id)); CREATE INDEX $_g ON $(g)",
        columns: &["id", "v", "x"],
        keys: 1,
        row: |r| {
            let id = match r.random_range(0..6) {
                0 => pick(
                    r,
                    &[
                        "9223372036854775806",
                        "-9223372036854775808",
                        "576460752303423488",
                        "-576460752303423489",
                    ],
                ),
                _ => r.random_range(-60..60).to_string(),
            };
            vec![id, n(r, 50), any(r)]
        },
        exact: true,
    },
    Known {
        schema: "CREATE TABLE $(k REAL, v TEXT, x INTEGER, PRIMARY KEY(k, v)) WITHOUT ROWID; CREATE INDEX $_x ON $(x); CREATE INDEX $_xv ON $(v, x)",
        columns: &["k", "v", "x"],
        keys: 2,
        row: |r| {
            vec![
                format!("{}.{}", n(r, 20), pick(r, &["0", "25", "5"])),
                n(r, 3),
                n(r, 90),
            ]
        },
        exact: true,
    },
    Known {
        schema: "CREATE TABLE $(k TEXT PRIMARY KEY, v INTEGER, x ANY) STRICT; CREATE INDEX $_v ON $(v)",
        columns: &["k", "v", "x"],
        keys: 1,
        row: |r| vec![text(r), n(r, 50), "NULL".to_owned()],
        exact: true,
    },
    Known {
        schema: "CREATE TABLE $(k TEXT PRIMARY KEY COLLATE RTRIM, v, x); CREATE INDEX $_e ON $(v + 1); CREATE INDEX $_p ON $(x) WHERE v > 3",
        columns: &["k", "v", "x"],
        keys: 1,
        row: |r| vec![text(r), n(r, 50), any(r)],
        exact: true,
    },
    Known {
        schema: "CREATE TABLE $(a INTEGER NOT NULL, b TEXT COLLATE NOCASE NOT NULL, c BLOB NOT NULL, v, PRIMARY KEY(a, b, c)); CREATE INDEX $_c ON $(c)",
        columns: &["a", "b", "c", "v"],
        keys: 3,
        row: |r| vec![n(r, 5), text(r), any(r), n(r, 50)],
        exact: true,
    },
    Known {
        schema: "CREATE TABLE $(id INTEGER PRIMARY KEY AUTOINCREMENT, v, x UNIQUE ON CONFLICT REPLACE); CREATE TABLE $_child(id INTEGER PRIMARY KEY, p REFERENCES $(id) ON DELETE CASCADE); CREATE TRIGGER $_t AFTER INSERT ON $ WHEN new.id % 3 = 0 BEGIN INSERT OR IGNORE INTO $_child VALUES (new.id * 7 % 50, new.id); SELECT CASE WHEN new.v = 13 THEN RAISE(ABORT, 'no') WHEN new.v = 14 THEN RAISE(IGNORE) END; END",
        columns: &["id", "v", "x"],
        keys: 1,
        row: |r| vec![n(r, 90), n(r, 50), n(r, 120)],
        exact: false,
    },
];
