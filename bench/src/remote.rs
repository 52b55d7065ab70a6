//! Reading from a web server: nginx behind a proxy that counts, and slows down where that is asked.
//!
//! Counts are exact and the same in each run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use densite_testing::{Fault, FaultProxy, Nginx};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rusqlite::{Connection, OpenFlags};

use crate::connect::sibling;
use crate::folder::clear;
use crate::machine::Machine;
use crate::measure::Measure;
use crate::outcome::{Compare, Figure, Outcome};
use crate::result::{About as _, Failure, Result};

/// Four orders with their 13 lines, parts, suppliers and customers.
const JOIN: &str = "SELECT count(*) FROM orders JOIN lineitem ON l_orderkey = o_orderkey
    JOIN part ON p_partkey = l_partkey JOIN supplier ON s_suppkey = l_suppkey
    JOIN customer ON c_custkey = o_custkey
    WHERE o_orderkey BETWEEN 300004 AND 300007 AND length(p_name || s_name || c_name) > 0";
const SCAN: &str = "SELECT sum(length(l_comment)) FROM lineitem";
const SCHEMA: &str = "SELECT count(*) FROM sqlite_schema";
/// Order keys of TPC-H: of 32 numbers, the first eight are used, and 0 is not.
const KEYS: (u64, u64) = (32, 8);
const LOOKUPS: u64 = 100;
/// Bytes in a second of a line of 100 Mbit/s, and the delay of each request.
const RATE: u64 = 100_000_000 / 8;
const DELAY: Duration = Duration::from_millis(30);

/// What a measured step has cost.
#[derive(Clone, Copy, Default)]
struct Cost {
    requests: u64,
    kib: f64,
}

/// The targets of a step for the published file: requests and KiB.
type Targets = (Option<f64>, Option<f64>);

const STEPS: [(&str, Targets); 6] = [
    ("open and schema", (Some(2.0), Some(256.0))),
    ("open and one lookup", (Some(3.0), Some(330.0))),
    ("then 100 lookups by row id", (Some(100.0), Some(2048.0))),
    ("open and 100 lookups by an index", (None, None)),
    ("join of five tables, 13 rows", (Some(12.0), Some(2048.0))),
    ("scan of LINEITEM", (Some(12.0), Some(13.0 * 1024.0))),
];

struct Site {
    proxy: FaultProxy,
    orders: u64,
}

impl Site {
    fn open(&self, name: &str) -> Result<Connection> {
        let url = self.proxy.http(name);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let uri = format!("file:{url}?vfs=densite");
        Connection::open_with_flags(uri, flags).about("open", Path::new(name))
    }

    fn cost(&self) -> Cost {
        let (requests, bytes) = self.proxy.take_counts();
        Cost {
            requests,
            kib: bytes as f64 / 1024.0,
        }
    }

    /// All steps on a file of the server.
    fn steps(&self, name: &str) -> Result<[Cost; 6]> {
        let _ = self.cost();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut key = || {
            let nth = random.random_range(1..=self.orders);
            (nth / KEYS.1 * KEYS.0 + nth % KEYS.1).cast_signed()
        };
        let one = |con: &Connection, sql: &str, key: i64| -> Result<()> {
            let mut found = con.prepare_cached(sql)?;
            let _: f64 = found.query_row([key], |row| row.get(0))?;
            Ok(())
        };
        let number = |sql: &str| -> Result<i64> {
            Ok(self.open(name)?.query_row(sql, [], |row| row.get(0))?)
        };
        number(SCHEMA)?;
        let schema = self.cost();
        let by_id = "SELECT o_totalprice FROM orders WHERE o_orderkey = ?";
        let con = self.open(name)?;
        one(&con, by_id, key())?;
        let first = self.cost();
        for _ in 0..LOOKUPS {
            one(&con, by_id, key())?;
        }
        drop(con);
        let lookups = self.cost();
        let by_index = "SELECT l_quantity FROM lineitem WHERE l_orderkey = ? AND l_linenumber = 1";
        let con = self.open(name)?;
        for _ in 0..LOOKUPS {
            one(&con, by_index, key())?;
        }
        drop(con);
        let indexed = self.cost();
        let rows = number(JOIN)?;
        let join = self.cost();
        if rows != 13 {
            return Err(Failure(format!("the join has {rows} rows instead of 13")));
        }
        number(SCAN)?;
        Ok([schema, first, lookups, indexed, join, self.cost()])
    }
}

/// Publishes the database, serves it and two other forms, and counts.
pub(crate) fn measure(
    plain: &Path,
    densite: &Path,
    work: &Path,
    label: &str,
    machine: &Machine,
) -> Result<Outcome> {
    clear(work)?;
    // nginx takes paths from its own folder on.
    let work = &std::fs::canonicalize(work).about("find", work)?;
    let root = work.join("root");
    let own = work.join("own");
    for dir in [&root, &own] {
        std::fs::create_dir(dir).about("create", dir)?;
    }
    let published = root.join("published.db");
    let mut command = std::process::Command::new(sibling("densite", "make ext")?);
    let done = command
        .args(["publish", "--quiet"])
        .args([densite, &published])
        .status()
        .about("run", Path::new("densite publish"))?;
    if !done.success() {
        return Err(Failure("densite publish failed".into()));
    }
    for (from, to) in [(plain, "plain.db"), (densite, "left.db")] {
        let to = root.join(to);
        std::fs::copy(from, &to).about("copy to", &to)?;
    }
    for name in ["published.db", "plain.db", "left.db"] {
        // A file that is younger than two seconds would be waited for.
        let path = root.join(name);
        let file = std::fs::File::options().write(true).open(&path);
        let older = SystemTime::now() - Duration::from_secs(60);
        file.and_then(|file| file.set_modified(older))
            .about("set the time of", &path)?;
    }
    let Some(nginx) = Nginx::start(&root, &own) else {
        return Err(Failure("nginx and openssl are not installed".into()));
    };
    let orders = Connection::open(plain)
        .about("open", plain)?
        .query_row("SELECT count(*) FROM orders", [], |row| {
            row.get::<_, i64>(0)
        })?
        .unsigned_abs();
    let site = Site {
        proxy: FaultProxy::start(nginx.port()),
        orders,
    };
    let base = site.steps("plain.db")?;
    let ours = site.steps("published.db")?;
    let left = site.steps("left.db")?;
    let mut figures = Vec::new();
    for (((step, targets), base), ours) in STEPS.iter().zip(base).zip(ours) {
        let (requests, kib) = *targets;
        let count = |cost: Cost| cost.requests as f64;
        let name = |unit: &str| format!("{step}, {unit}");
        figures.push(Figure::new(
            &name("requests"),
            Compare::Ours,
            count(base),
            count(ours),
            requests,
        ));
        figures.push(Figure::new(
            &name("KiB"),
            Compare::Ours,
            base.kib,
            ours.kib,
            kib,
        ));
    }
    // The same on a file as an application left it.
    for (step, target, cost) in [
        ("not published: open and schema", 6.0, left[0]),
        ("not published: open and one lookup", 8.0, left[1]),
    ] {
        let requests = cost.requests as f64;
        figures.push(Figure::new(
            &format!("{step}, requests"),
            Compare::Ours,
            requests,
            requests,
            Some(target),
        ));
    }
    figures.push(slow_scan(&site)?);
    drop(nginx);
    clear(work)?;
    Ok(Outcome {
        measure: "remote".into(),
        title: Measure::Remote.title().into(),
        data: label.into(),
        base_label: "plain SQLite".into(),
        ours_label: "Densite".into(),
        figures,
        base: Vec::new(),
        ours: Vec::new(),
        info: BTreeMap::new(),
        machine: machine.clone(),
    })
}

/// The scan through a line of 100 Mbit/s with a delay of 30 ms, compared with its bytes at that
/// rate and one delay.
fn slow_scan(site: &Site) -> Result<Figure> {
    site.proxy.always(Some(Fault::Line {
        delay: DELAY,
        rate: RATE,
    }));
    let mut sides = [f64::NAN; 2];
    for (side, name) in sides.iter_mut().zip(["plain.db", "published.db"]) {
        let _ = site.cost();
        let begin = Instant::now();
        let con = site.open(name)?;
        let _: i64 = con.query_row(SCAN, [], |row| row.get(0))?;
        let taken = begin.elapsed().as_secs_f64();
        *side = taken / (site.cost().kib * 1024.0 / RATE as f64 + DELAY.as_secs_f64());
    }
    site.proxy.always(None);
    let [base, ours] = sides;
    Ok(Figure::new(
        "scan at 100 Mbit/s and 30 ms: wall time over its bytes at that rate and one delay",
        Compare::Ours,
        base,
        ours,
        Some(1.5),
    ))
}
