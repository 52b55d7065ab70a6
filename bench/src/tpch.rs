//! Generates TPC-H into a plain SQLite file: the tables of `bench/tpch.sql`, with rows in the
//! generator's order, and then VACUUM.

use std::fmt::{Display, Write as _};
use std::path::Path;

use rusqlite::{Connection, Statement};
use tpchgen::decimal::TPCHDecimal;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

use crate::result::{About as _, Failure, Result};
use crate::statements;

/// File sizes in bytes of the scale factors with published figures. Another size means other data.
const KNOWN_SIZES: [(f64, u64); 2] = [(0.1, 122_494_976), (1.0, 1_239_670_784)];

/// The number of orders at this scale factor.
pub(crate) fn orders(sf: f64) -> i64 {
    OrderGenerator::calculate_row_count(sf, 1, 1)
}

/// Generates scale factor `sf` into the new file `out`. The file appears only when it is complete.
///
/// # Errors
/// If `out` exists or cannot be written, or its size differs from the known size of `sf`.
pub(crate) fn generate(sf: f64, out: &Path) -> Result<()> {
    if !(sf > 0.0 && sf <= 1000.0) {
        return Err(Failure(format!(
            "the scale factor {sf} is out of range: choose one above 0, at most 1000"
        )));
    }
    if out.exists() {
        return Err(Failure(format!(
            "{} exists already: remove it or choose another name",
            out.display()
        )));
    }
    let part = out.with_extension("part");
    if part.exists() {
        std::fs::remove_file(&part).about("remove", &part)?;
    }
    {
        let con = Connection::open(&part).about("create", &part)?;
        // The file is deleted if anything fails, so it needs no journal and no sync.
        con.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA foreign_keys=OFF; PRAGMA cache_size=-262144;")?;
        con.execute_batch(statements::schema())?;
        con.execute_batch("BEGIN")?;
        fill(&con, sf)?;
        con.execute_batch("COMMIT; VACUUM;")?;
        con.close().map_err(|(_, e)| e)?;
    }
    let size = std::fs::metadata(&part).about("read", &part)?.len();
    if let Some((_, known)) = KNOWN_SIZES.iter().find(|(f, _)| *f == sf)
        && *known != size
    {
        return Err(Failure(format!(
            "TPC-H at scale factor {sf} should come out as {known} bytes but {} has {size}: the generator or SQLite has changed, and figures would not be comparable",
            part.display()
        )));
    }
    std::fs::rename(&part, out).about("rename a finished file to", out)
}

/// Inserts rows into one table. Columns are bound from left to right.
struct Inserter<'c> {
    statement: Statement<'c>,
    column: usize,
    text: String,
}

impl<'c> Inserter<'c> {
    fn new(con: &'c Connection, table: &str, columns: usize) -> Result<Self> {
        let marks = vec!["?"; columns].join(",");
        Ok(Inserter {
            statement: con.prepare(&format!("INSERT INTO {table} VALUES ({marks})"))?,
            column: 0,
            text: String::new(),
        })
    }

    fn int(&mut self, value: impl Into<i64>) -> Result<&mut Self> {
        self.column += 1;
        self.statement
            .raw_bind_parameter(self.column, value.into())?;
        Ok(self)
    }

    /// Binds a decimal as NUMERIC affinity stores its text: 17.00 as an integer, 17.50 as the
    /// nearest REAL.
    fn decimal(&mut self, value: TPCHDecimal) -> Result<&mut Self> {
        let hundredths = value.into_inner();
        if hundredths % 100 == 0 {
            return self.int(hundredths / 100);
        }
        self.column += 1;
        self.statement
            .raw_bind_parameter(self.column, value.as_f64())?;
        Ok(self)
    }

    fn text(&mut self, value: &str) -> Result<&mut Self> {
        self.column += 1;
        self.statement.raw_bind_parameter(self.column, value)?;
        Ok(self)
    }

    fn shown(&mut self, value: impl Display) -> Result<&mut Self> {
        self.column += 1;
        self.text.clear();
        write!(self.text, "{value}")
            .map_err(|_| Failure("a value could not be formatted".into()))?;
        self.statement
            .raw_bind_parameter(self.column, self.text.as_str())?;
        Ok(self)
    }

    fn end(&mut self) -> Result<()> {
        self.column = 0;
        self.statement.raw_execute()?;
        Ok(())
    }
}

fn fill(con: &Connection, sf: f64) -> Result<()> {
    let mut t = Inserter::new(con, "nation", 4)?;
    for r in NationGenerator::new(sf, 1, 1).iter() {
        t.int(r.n_nationkey)?
            .text(r.n_name)?
            .int(r.n_regionkey)?
            .text(r.n_comment)?
            .end()?;
    }
    let mut t = Inserter::new(con, "region", 3)?;
    for r in RegionGenerator::new(sf, 1, 1).iter() {
        t.int(r.r_regionkey)?
            .text(r.r_name)?
            .text(r.r_comment)?
            .end()?;
    }
    let mut t = Inserter::new(con, "part", 9)?;
    for r in PartGenerator::new(sf, 1, 1).iter() {
        t.int(r.p_partkey)?
            .shown(&r.p_name)?
            .shown(r.p_mfgr)?
            .shown(r.p_brand)?
            .text(r.p_type)?;
        t.int(r.p_size)?
            .text(r.p_container)?
            .decimal(r.p_retailprice)?
            .text(r.p_comment)?
            .end()?;
    }
    let mut t = Inserter::new(con, "supplier", 7)?;
    for r in SupplierGenerator::new(sf, 1, 1).iter() {
        t.int(r.s_suppkey)?
            .shown(r.s_name)?
            .shown(&r.s_address)?
            .int(r.s_nationkey)?
            .shown(&r.s_phone)?;
        t.decimal(r.s_acctbal)?.text(&r.s_comment)?.end()?;
    }
    let mut t = Inserter::new(con, "partsupp", 5)?;
    for r in PartSuppGenerator::new(sf, 1, 1).iter() {
        t.int(r.ps_partkey)?
            .int(r.ps_suppkey)?
            .int(r.ps_availqty)?
            .decimal(r.ps_supplycost)?
            .text(r.ps_comment)?
            .end()?;
    }
    let mut t = Inserter::new(con, "customer", 8)?;
    for r in CustomerGenerator::new(sf, 1, 1).iter() {
        t.int(r.c_custkey)?
            .shown(r.c_name)?
            .shown(&r.c_address)?
            .int(r.c_nationkey)?
            .shown(&r.c_phone)?;
        t.decimal(r.c_acctbal)?
            .text(r.c_mktsegment)?
            .text(r.c_comment)?
            .end()?;
    }
    let mut t = Inserter::new(con, "orders", 9)?;
    for r in OrderGenerator::new(sf, 1, 1).iter() {
        t.int(r.o_orderkey)?
            .int(r.o_custkey)?
            .text(r.o_orderstatus.as_str())?
            .decimal(r.o_totalprice)?
            .shown(r.o_orderdate)?;
        t.text(r.o_orderpriority)?
            .shown(r.o_clerk)?
            .int(r.o_shippriority)?
            .text(r.o_comment)?
            .end()?;
    }
    let mut t = Inserter::new(con, "lineitem", 16)?;
    for r in LineItemGenerator::new(sf, 1, 1).iter() {
        t.int(r.l_orderkey)?
            .int(r.l_partkey)?
            .int(r.l_suppkey)?
            .int(r.l_linenumber)?
            .int(r.l_quantity)?;
        t.decimal(r.l_extendedprice)?
            .decimal(r.l_discount)?
            .decimal(r.l_tax)?
            .text(r.l_returnflag)?
            .text(r.l_linestatus)?;
        t.shown(r.l_shipdate)?
            .shown(r.l_commitdate)?
            .shown(r.l_receiptdate)?
            .text(r.l_shipinstruct)?
            .text(r.l_shipmode)?;
        t.text(r.l_comment)?.end()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_stored_like_their_text() {
        let con = Connection::open_in_memory().expect("a database in memory");
        con.execute_batch(
            "CREATE TABLE bound(v DECIMAL(15,2)); CREATE TABLE texts(v DECIMAL(15,2))",
        )
        .expect("tables");
        for hundredths in [0, 1, 4, 10, 1700, 1750, 3_485_016, -9_999, -100] {
            let value = TPCHDecimal::new(hundredths);
            let mut insert = Inserter::new(&con, "bound", 1).expect("an insert");
            insert
                .decimal(value)
                .expect("a value")
                .end()
                .expect("a row");
            con.execute("INSERT INTO texts VALUES (?)", [value.to_string()])
                .expect("a row");
        }
        let different: i64 = con
            .query_row(
                "SELECT count(*) FROM bound b JOIN texts t ON t.rowid = b.rowid WHERE b.v IS NOT t.v OR typeof(b.v) <> typeof(t.v)",
                [],
                |r| r.get(0),
            )
            .expect("a count");
        assert_eq!(different, 0);
    }

    #[test]
    fn a_small_scale_factor_is_consistent() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("t.db");
        generate(0.01, &path).expect("the data are generated");
        let con = Connection::open(&path).expect("the file opens");
        let count = |sql: &str| {
            con.query_row(sql, [], |r| r.get::<_, i64>(0))
                .expect("a count")
        };
        assert_eq!(count("SELECT count(*) FROM orders"), orders(0.01));
        assert_eq!(count("SELECT count(*) FROM pragma_foreign_key_check"), 0);
        assert!(
            generate(0.01, &path)
                .expect_err("an existing file is refused")
                .0
                .contains("exists already")
        );
        assert!(generate(-1.0, &dir.path().join("u.db")).is_err());
    }
}
