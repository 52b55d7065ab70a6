//! Random tables: types, keys, orders, collations, clauses, indexes, triggers, foreign keys.

use super::kinds::{Kind, any, n, pick, text};
use rand::RngExt;
use rand::rngs::StdRng;

/// The kind of values of a column.
#[derive(Clone, Copy)]
enum Values {
    Integers,
    Reals,
    Texts,
    Blobs,
    All,
}

struct Column {
    name: String,
    declared: &'static str,
    collation: Option<&'static str>,
    values: Values,
    may_be_null: bool,
}

const COLLATIONS: [&str; 3] = ["BINARY", "NOCASE", "RTRIM"];

fn one_in(r: &mut StdRng, some: u32) -> bool {
    r.random_range(0..some) == 0
}

fn collation(r: &mut StdRng) -> &'static str {
    COLLATIONS[r.random_range(0..COLLATIONS.len())]
}

fn order(r: &mut StdRng) -> &'static str {
    ["", " DESC", " ASC", " DESC"][r.random_range(0..4)]
}

impl Column {
    fn new(r: &mut StdRng, name: &str, strict: bool) -> Column {
        let strictly = [
            ("INT", Values::Integers),
            ("INTEGER", Values::Integers),
            ("REAL", Values::Reals),
            ("TEXT", Values::Texts),
            ("BLOB", Values::Blobs),
            ("ANY", Values::All),
        ];
        let loosely = [
            "",
            "INTEGER",
            "TEXT",
            "REAL",
            "NUMERIC",
            "BLOB",
            "VARCHAR(9)",
            "DOUBLE PRECISION",
        ];
        let (declared, values) = match strict {
            true => strictly[r.random_range(0..strictly.len())],
            false => {
                let values = [Values::Integers, Values::Texts, Values::All];
                (
                    loosely[r.random_range(0..loosely.len())],
                    values[r.random_range(0..values.len())],
                )
            }
        };
        Column {
            name: name.to_owned(),
            declared,
            collation: one_in(r, 3).then(|| collation(r)),
            values,
            may_be_null: true,
        }
    }

    fn value(&self, r: &mut StdRng, is_key: bool) -> String {
        if self.may_be_null && one_in(r, 6) {
            return "NULL".to_owned();
        }
        let few = if is_key { 30 } else { 60 };
        match self.values {
            Values::Integers => (r.random_range(-few..few)).to_string(),
            Values::Reals => format!("{}.{}", n(r, few), pick(r, &["0", "25", "5"])),
            Values::Texts => text(r),
            Values::Blobs => format!("x'{:02x}{}'", r.random_range(0..20), pick(r, &["", "00"])),
            Values::All => match r.random_range(0..3) {
                0 => text(r),
                _ => any(r),
            },
        }
    }

    fn definition(&self) -> String {
        let collation = self.collation.map(|c| format!(" COLLATE {c}"));
        format!(
            "{} {}{}",
            self.name,
            self.declared,
            collation.unwrap_or_default()
        )
    }

    /// A possible default value.
    fn default(&self) -> &'static str {
        match self.values {
            Values::Integers => "-5",
            Values::Reals => "2.5",
            Values::Texts => "'d'",
            Values::Blobs => "x'00'",
            Values::All => "'7'",
        }
    }
}

/// A table under construction.
struct Draft {
    strict: bool,
    without_rowid: bool,
    /// Nothing can refuse a row.
    exact: bool,
    has_triggers: bool,
    /// The columns that can be set, those of the key first.
    columns: Vec<Column>,
    keys: usize,
    compared: Vec<Option<&'static str>>,
    /// Definitions of columns, and table constraints.
    parts: Vec<String>,
    end: String,
}

/// A conflict clause of the declaration.
fn clause(r: &mut StdRng) -> &'static str {
    match r.random_range(0..8) {
        0 => " ON CONFLICT REPLACE",
        1 => " ON CONFLICT IGNORE",
        2 => " ON CONFLICT ROLLBACK",
        _ => "",
    }
}

impl Draft {
    fn new(r: &mut StdRng) -> Draft {
        Draft {
            strict: one_in(r, 4),
            without_rowid: one_in(r, 3),
            exact: !one_in(r, 3),
            has_triggers: one_in(r, 4),
            columns: Vec::new(),
            keys: 0,
            compared: Vec::new(),
            parts: Vec::new(),
            end: String::new(),
        }
    }

    /// A key that one column declares: a row id, or something similar.
    fn add_single_key(&mut self, r: &mut StdRng) {
        let mut column = Column::new(r, "k", self.strict);
        if one_in(r, 2) {
            (column.declared, column.values) = ("INTEGER", Values::Integers);
        }
        let order = order(r);
        let mut words = format!("PRIMARY KEY{order}{}", clause(r));
        let is_row_id = column.declared == "INTEGER" && !self.without_rowid && order != " DESC";
        if is_row_id {
            (column.values, column.collation) = (Values::Integers, None);
            if one_in(r, 3) {
                words.push_str(" AUTOINCREMENT");
            }
        }
        column.may_be_null = !is_row_id && !self.strict && !self.without_rowid;
        if column.may_be_null && one_in(r, 2) {
            column.may_be_null = false;
            words.push_str(" NOT NULL");
        }
        self.parts.push(format!("{} {words}", column.definition()));
        self.compared.push(None);
        self.columns.push(column);
    }

    /// A key of one or more columns, declared after the columns.
    fn add_key(&mut self, r: &mut StdRng) {
        let mut terms = Vec::new();
        for name in ["a", "b", "c"].iter().take(r.random_range(1..=3)) {
            let mut column = Column::new(r, name, self.strict);
            let is_never_null = one_in(r, 2);
            column.may_be_null = !self.strict && !self.without_rowid && !is_never_null;
            let not_null = if is_never_null { " NOT NULL" } else { "" };
            self.parts
                .push(format!("{}{not_null}", column.definition()));
            let how = one_in(r, 3).then(|| collation(r));
            let written = how.map(|how| format!(" COLLATE {how}"));
            terms.push(format!("{name}{}{}", written.unwrap_or_default(), order(r)));
            self.compared.push(how);
            self.columns.push(column);
        }
        // A single INTEGER column can be the row id, which has no collation.
        if let ([column], [how]) = (&mut self.columns[..], &mut self.compared[..])
            && column.declared == "INTEGER"
        {
            *how = None;
            column.values = Values::Integers;
            column.may_be_null = false;
        }
        self.end = format!(", PRIMARY KEY({}){}", terms.join(", "), clause(r));
    }

    fn add_others(&mut self, r: &mut StdRng) {
        self.keys = self.columns.len();
        // A dropped column takes its clause with it. Then the clauses in triggers count.
        let has_triggers = self.has_triggers;
        let clause = |r: &mut StdRng| if has_triggers { "" } else { clause(r) };
        for name in ["v", "x", "y"].iter().take(r.random_range(1..=3)) {
            let mut column = Column::new(r, name, self.strict);
            let mut words = String::new();
            if one_in(r, 4) {
                words.push_str(&format!(" DEFAULT {}", column.default()));
                // A NULL gets the default.
                column.may_be_null = false;
            }
            if one_in(r, 4) {
                words.push_str(&format!(" NOT NULL{}", clause(r)));
                column.may_be_null = false;
            }
            if !self.exact && one_in(r, 3) {
                words.push_str(&format!(
                    " CHECK (typeof({name}) <> 'blob' AND {name} IS NOT 7)"
                ));
            }
            if !self.exact && one_in(r, 3) {
                words.push_str(&format!(" UNIQUE{}", clause(r)));
            }
            if !self.exact && one_in(r, 4) {
                words.push_str(" REFERENCES $_parent(id)");
            }
            self.parts.push(format!("{}{words}", column.definition()));
            self.columns.push(column);
        }
        if one_in(r, 2) {
            // The order of the declarations does not matter.
            let at = r.random_range(0..self.parts.len());
            self.parts.rotate_left(at);
        }
    }

    fn schema(mut self, r: &mut StdRng) -> (String, Draft) {
        let mut indexed: Vec<String> = self.columns.iter().map(|c| c.name.clone()).collect();
        if one_in(r, 3) {
            let how = pick(r, &["STORED", "VIRTUAL"]);
            let at = r.random_range(0..=self.parts.len());
            let generated = format!("g TEXT AS (typeof(v) || length(v)) {how}");
            self.parts.insert(at, generated);
            indexed.push("g".to_owned());
        }
        let options = match (self.strict, self.without_rowid) {
            (true, true) => "STRICT, WITHOUT ROWID",
            (true, false) => "STRICT",
            (false, true) => "WITHOUT ROWID",
            (false, false) => "",
        };
        let columns = self.parts.join(", ");
        let mut schema = format!("CREATE TABLE $({columns}{}) {options}", self.end);
        if schema.contains("$_parent") {
            schema = format!(
                "CREATE TABLE IF NOT EXISTS $_parent(id PRIMARY KEY); INSERT INTO $_parent VALUES (1), (2), (3), (5), (8), ('a1'), ('b2'); {schema}"
            );
        }
        for i in 0..r.random_range(0..4) {
            schema.push_str(&index(r, i, &indexed, self.exact));
        }
        if self.has_triggers {
            schema.push_str(&triggers(r, &self.columns[0].name, self.exact));
        }
        (schema, self)
    }
}

/// A random table.
pub(super) fn kind(r: &mut StdRng) -> Kind {
    let mut draft = Draft::new(r);
    match one_in(r, 3) {
        true => draft.add_single_key(r),
        false => draft.add_key(r),
    }
    draft.add_others(r);
    let (schema, draft) = draft.schema(r);
    let (columns, keys) = (draft.columns, draft.keys);
    Kind {
        schema,
        columns: columns.iter().map(|c| c.name.clone()).collect(),
        keys,
        compared: draft.compared,
        row: Box::new(move |r| {
            let each = columns.iter().enumerate();
            each.map(|(i, c)| c.value(r, i < keys)).collect()
        }),
        exact: draft.exact,
    }
}

fn index(r: &mut StdRng, i: u32, columns: &[String], exact: bool) -> String {
    let term = |r: &mut StdRng| {
        let column = &columns[r.random_range(0..columns.len())];
        match r.random_range(0..6) {
            0 => format!("length({column}){}", order(r)),
            1 => format!("{column} IS NULL"),
            2 => format!("{column} COLLATE {}{}", collation(r), order(r)),
            _ => format!("{column}{}", order(r)),
        }
    };
    let terms: Vec<String> = (0..r.random_range(1..3)).map(|_| term(r)).collect();
    let unique = if !exact && one_in(r, 3) {
        "UNIQUE "
    } else {
        ""
    };
    let part = match one_in(r, 4) {
        true => format!(" WHERE {} > 3", columns[r.random_range(0..columns.len())]),
        false => String::new(),
    };
    format!(
        "; CREATE {unique}INDEX $_i{i} ON $({}){part}",
        terms.join(", ")
    )
}

fn triggers(r: &mut StdRng, key: &str, exact: bool) -> String {
    let mut sql = "; CREATE TABLE IF NOT EXISTS $_seen(what, k); CREATE TABLE IF NOT EXISTS $_kept(k UNIQUE, n DEFAULT 0)".to_owned();
    for i in 0..r.random_range(1..4) {
        let when = pick(r, &["BEFORE", "AFTER"]);
        let (what, row) =
            [("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old")][r.random_range(0..3)];
        let body = match r.random_range(0..4) {
            0 => format!("INSERT INTO $_seen VALUES ('{what}', {row}.{key})"),
            // The following statements have their own conflict clauses, and SQLite can use that of
            // the outer statement instead: DO UPDATE has ABORT.
            _ if exact => format!("DELETE FROM $_seen WHERE k IS {row}.{key}"),
            1 => format!(
                "INSERT OR IGNORE INTO $_kept(k) VALUES ({row}.v); UPDATE $_kept SET n = n + 1 WHERE k IS {row}.v"
            ),
            2 => format!("INSERT OR REPLACE INTO $_kept VALUES ({row}.v, {row}.{key})"),
            _ => {
                let how = pick(r, &["IGNORE", "ABORT, 'no'", "FAIL, 'no'"]);
                format!(
                    "INSERT INTO $_seen VALUES ('{what}', {row}.{key}); SELECT RAISE({how}) WHERE length({row}.v) = 2"
                )
            }
        };
        sql.push_str(&format!(
            "; CREATE TRIGGER $_t{i} {when} {what} ON $ BEGIN {body}; END"
        ));
    }
    sql
}
