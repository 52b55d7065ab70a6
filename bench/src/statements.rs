//! Schema and statements of `bench/tpch.sql`.

/// The file: the schema, then named statements, each below a comment `-- NAME: ...`.
const TPCH: &str = include_str!("../tpch.sql");

/// The statements that create the tables, with the page size before them.
pub(crate) fn schema() -> &'static str {
    TPCH.split_once("\n-- Q1:")
        .map_or(TPCH, |(schema, _)| schema)
}

/// The statement below the comment `-- NAME: ...`, without its semicolon.
///
/// # Panics
/// If there is no such statement. The names are constants of this program, and a test asks for each
/// of them.
pub(crate) fn statement(name: &str) -> &'static str {
    let start = format!("-- {name}: ");
    let mut rest = TPCH;
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if line.starts_with(&start)
            && let Some((statement, _)) = rest.split_once(';')
        {
            return statement;
        }
    }
    panic!("bench/tpch.sql has no statement named {name}")
}

/// The key of order `k`, from 1 to the number of orders. TPC-H leaves three quarters of the keys
/// unused.
pub(crate) fn order_key(k: i64) -> i64 {
    ((k >> 3) << 5) + (k & 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_exists_and_is_valid() {
        let con = rusqlite::Connection::open_in_memory().expect("a database in memory");
        con.execute_batch(schema()).expect("the schema is valid");
        for name in ["Q1", "Q8", "lookups", "updates"] {
            con.prepare(statement(name))
                .expect("the statement is valid");
        }
        assert!(!schema().contains("SELECT"));
    }

    #[test]
    fn order_keys_equal_those_of_the_generator() {
        for k in [1, 7, 8, 9, 1000, 150_000] {
            assert_eq!(
                order_key(k),
                tpchgen::generators::OrderGenerator::make_order_key(k)
            );
        }
    }
}
