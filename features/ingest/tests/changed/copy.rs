//! A copy of tables in another database, made of the changes alone.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use serde_json::{Map, Value as Json};

/// The value that a change has of a column.
fn value(json: &Json) -> Value {
    let bytes = |digits: &str| -> Vec<u8> {
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16);
        pairs.map(|pair| byte(pair).expect("hexadecimal")).collect()
    };
    match json {
        Json::Null => Value::Null,
        Json::Number(n) => match n.as_i64() {
            Some(n) => Value::Integer(n),
            None => Value::Real(n.as_f64().expect("a number")),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Object(map) => Value::Blob(bytes(map["hex"].as_str().expect("digits"))),
        other => panic!("{other}"),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The copy, which has the schema of the tables without constraints, and its position.
pub(super) struct Copy {
    con: Connection,
    pub(super) seq: i64,
}

impl Copy {
    /// Takes over the rows of `from`, before the first change.
    pub(super) fn new(tables: &[(&str, &str)], from: &Connection) -> Copy {
        let con = Connection::open_in_memory().expect("opens");
        for (table, columns) in tables {
            let sql = format!("CREATE TABLE {table}({columns})");
            con.execute_batch(&sql).expect("a table");
            let count = columns.split(',').count();
            let places = vec!["?"; count].join(", ");
            let mut read = from
                .prepare(&format!("SELECT {columns} FROM {table}"))
                .expect("the table");
            let mut rows = read.query([]).expect("rows");
            while let Some(row) = rows.next().expect("a row") {
                let values = (0..count).map(|i| row.get::<_, Value>(i).expect("a value"));
                con.execute(
                    &format!("INSERT INTO {table} VALUES ({places})"),
                    params_from_iter(values),
                )
                .expect("inserts");
            }
        }
        Copy { con, seq: 0 }
    }

    /// Applies the next changes of the subscriber `s`, up to a number of them.
    pub(super) fn follow(&mut self, con: &Connection, most: usize) {
        let sql = "SELECT seq, \"table\", old, new FROM densite_changes('s', ?1) WHERE seq > ?2";
        let mut changes = con.prepare_cached(sql).expect("the feed");
        let mut rows = changes
            .query(rusqlite::params![most as i64, self.seq])
            .expect("the feed");
        while let Some(row) = rows.next().expect("a change") {
            let object = |i: usize| -> Option<Map<String, Json>> {
                let text: Option<String> = row.get(i).expect("text");
                text.map(|text| serde_json::from_str(&text).expect("JSON"))
            };
            let seq: i64 = row.get(0).expect("a number");
            assert_eq!(seq, self.seq + 1, "a change is missing");
            self.seq = seq;
            let table: String = row.get(1).expect("a name");
            let (old, new) = (object(2), object(3));
            if let Some(old) = &old {
                self.delete(&table, old);
            }
            if let Some(new) = &new {
                let names: Vec<String> = new.keys().map(|name| quoted(name)).collect();
                let places = vec!["?"; names.len()].join(", ");
                let sql = format!(
                    "INSERT INTO {table}({}) VALUES ({places})",
                    names.join(", ")
                );
                let mut insert = self.con.prepare_cached(&sql).expect("the table");
                insert
                    .execute(params_from_iter(new.values().map(value)))
                    .expect("inserts");
            }
        }
    }

    /// Deletes the row with these values, which must be there.
    fn delete(&self, table: &str, old: &Map<String, Json>) {
        let is = |name: &String| format!("{} IS ?", quoted(name));
        let conditions: Vec<String> = old.keys().map(is).collect();
        let sql = format!(
            "DELETE FROM {table} WHERE rowid = (SELECT rowid FROM {table} WHERE {} LIMIT 1)",
            conditions.join(" AND ")
        );
        let mut delete = self.con.prepare_cached(&sql).expect("the table");
        let count = delete
            .execute(params_from_iter(old.values().map(value)))
            .expect("deletes");
        assert_eq!(count, 1, "{table} has no row {old:?}");
    }

    /// All rows of a table, in an order of their own.
    pub(super) fn rows(&self, table: &str) -> Vec<String> {
        rows(&self.con, table)
    }
}

/// All rows of a table with their types, sorted.
pub(super) fn rows(con: &Connection, table: &str) -> Vec<String> {
    let names = "SELECT group_concat('quote(\"' || name || '\")', ' || ''|'' || ') FROM pragma_table_info(?1)";
    let columns: String = con
        .query_row(names, [table], |r| r.get(0))
        .expect("columns");
    let sql = format!("SELECT {columns} FROM main.{table} ORDER BY 1");
    crate::common::all(con, &sql)
}
