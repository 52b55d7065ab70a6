//! The steps of reading a remote database: statements over TPC-H, the same for every reader.
//!
//! Each answer is one number, so that the answers of different programs can be compared.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rusqlite::Connection;

use crate::result::Result;

/// Without the tables that Litestream adds, whose names begin so.
const SCHEMA: &str = "SELECT count(*) AS answer FROM sqlite_schema WHERE substr(name, 1, 1) <> '_'";
const BY_ID: &str = "SELECT CAST(round(o_totalprice * 100) AS INTEGER) AS answer
    FROM orders WHERE o_orderkey = ?";
const BY_INDEX: &str = "SELECT CAST(l_quantity AS INTEGER) AS answer
    FROM lineitem WHERE l_orderkey = ? AND l_linenumber = 1";
/// Four orders with their 13 lines, parts, suppliers and customers.
const JOIN: &str = "SELECT count(*) AS answer FROM orders JOIN lineitem ON l_orderkey = o_orderkey
    JOIN part ON p_partkey = l_partkey JOIN supplier ON s_suppkey = l_suppkey
    JOIN customer ON c_custkey = o_custkey
    WHERE o_orderkey BETWEEN 300004 AND 300007 AND length(p_name || s_name || c_name) > 0";
const SCAN: &str = "SELECT sum(length(l_comment)) AS answer FROM lineitem";
/// Order keys of TPC-H: of 32 numbers, the first eight are used, and 0 is not.
const KEYS: (u64, u64) = (32, 8);
const LOOKUPS: usize = 100;
/// Which step is one lookup.
pub(crate) const LOOKUP: usize = 1;
/// Which step has lookups by an index.
pub(crate) const INDEXED: usize = 3;

/// One step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) title: &'static str,
    /// Whether the database is opened for it; otherwise, the connection of the step before is used
    pub(crate) opens: bool,
    /// A statement whose result is one row with the column `answer`
    pub(crate) sql: &'static str,
    /// The parameters of its runs; the answer of the step is the sum of all answers
    pub(crate) keys: Vec<i64>,
}

/// All steps, for a database with this number of orders.
pub(crate) fn steps(orders: u64) -> [Step; 6] {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut keys = |count: usize| -> Vec<i64> {
        let key = |_| {
            let nth = random.random_range(1..=orders);
            (nth / KEYS.1 * KEYS.0 + nth % KEYS.1).cast_signed()
        };
        (0..count).map(key).collect()
    };
    let step = |title, opens, sql, keys| Step {
        title,
        opens,
        sql,
        keys,
    };
    [
        step("open and schema", true, SCHEMA, Vec::new()),
        step("open and one lookup", true, BY_ID, keys(1)),
        step("then 100 lookups by row id", false, BY_ID, keys(LOOKUPS)),
        step(
            "open and 100 lookups by an index",
            true,
            BY_INDEX,
            keys(LOOKUPS),
        ),
        step("join of five tables, 13 rows", true, JOIN, Vec::new()),
        step("scan of LINEITEM", true, SCAN, Vec::new()),
    ]
}

impl Step {
    /// The answer of a connection.
    pub(crate) fn answer(&self, con: &Connection) -> Result<i64> {
        let mut statement = con.prepare_cached(self.sql)?;
        if self.keys.is_empty() {
            return Ok(statement.query_row([], |row| row.get(0))?);
        }
        let mut sum = 0;
        for key in &self.keys {
            sum += statement.query_row([key], |row| row.get::<_, i64>(0))?;
        }
        Ok(sum)
    }

    /// The statements with their parameters, each in one line, for programs that read SQL.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line: Vec<_> = self.sql.split_whitespace().collect();
        let line = line.join(" ");
        if self.keys.is_empty() {
            return vec![line];
        }
        let keys = self.keys.iter();
        keys.map(|key| line.replace('?', &key.to_string()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Orders 1 to 15000 with a price that tells the key, and one line each.
    fn database() -> Connection {
        let con = Connection::open_in_memory().expect("it opens");
        con.execute_batch(
            "CREATE TABLE _other(a);
             CREATE TABLE orders(o_orderkey INTEGER PRIMARY KEY, o_totalprice REAL);
             CREATE TABLE lineitem(l_orderkey INT, l_linenumber INT, l_quantity REAL);
             WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 15000)
             INSERT INTO orders SELECT (i >> 3 << 5) + (i & 7), (i >> 3 << 5) + (i & 7) FROM n;
             INSERT INTO lineitem SELECT o_orderkey, 1, o_orderkey FROM orders;
             CREATE INDEX by_order ON lineitem(l_orderkey, l_linenumber)",
        )
        .expect("it is filled");
        con
    }

    #[test]
    fn lines_and_parameters_give_the_same_answer() {
        let con = database();
        let [schema, one, by_id, by_index, ..] = steps(15000);
        for (step, expected) in [
            (&schema, 3),
            (&one, 100 * one.keys.iter().sum::<i64>()),
            (&by_id, 100 * by_id.keys.iter().sum::<i64>()),
            (&by_index, by_index.keys.iter().sum()),
        ] {
            assert_eq!(step.answer(&con).expect("an answer"), expected);
            let lines = step.lines();
            assert_eq!(lines.len(), step.keys.len().max(1));
            let sum: i64 = lines
                .iter()
                .map(|sql| con.query_row(sql, [], |row| row.get::<_, i64>("answer")))
                .sum::<rusqlite::Result<_>>()
                .expect("all answers");
            assert_eq!(sum, expected, "{}", step.title);
        }
    }

    #[test]
    fn statements_of_other_programs_are_single_lines_without_parameters() {
        for step in steps(1000) {
            for line in step.lines() {
                assert!(!line.contains(['\n', '?']), "{line}");
            }
        }
    }
}
