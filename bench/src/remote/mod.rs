//! Reading from a web server: nginx behind a proxy that counts, and slows down where that is asked.
//!
//! Counts are exact and the same in each run.

mod demo;
mod demo_table;
mod job;
mod peers;
mod reader;
mod servers;
mod site;
mod steps;
mod talk;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use densite_testing::{Fault, FaultProxy, Nginx};
use rusqlite::{Connection, OpenFlags};

use crate::connect;
use crate::folder::clear;
use crate::machine::Machine;
use crate::measure::Measure;
use crate::outcome::{Compare, Figure, Outcome};
use crate::result::{About as _, Failure, Result};
pub(crate) use demo::{Choice as Demo, run as demo};
pub(crate) use job::{Job, run};
use steps::{Step, steps};

/// How much more data the larger scale factor has.
const LARGER: f64 = 10.0;
/// Bytes in a second of a line of 100 Mbit/s, and the delay of each request.
const RATE: u64 = 100_000_000 / 8;
const DELAY: Duration = Duration::from_millis(30);
const LINE: Fault = Fault::Line {
    delay: DELAY,
    rate: RATE,
};

/// What a measured step has cost, and its answer.
struct Cost {
    requests: u64,
    kib: f64,
    seconds: f64,
    answer: i64,
}

/// The targets of a step for the published file: requests and KiB.
type Targets = (Option<f64>, Option<f64>);

/// The targets of each step for TPC-H at scale factor 0.1.
const TARGETS: [Targets; 6] = [
    (Some(2.0), Some(256.0)),
    (Some(3.0), Some(330.0)),
    (Some(100.0), Some(2048.0)),
    (None, None),
    (Some(12.0), Some(2048.0)),
    (Some(12.0), Some(13.0 * 1024.0)),
];

/// What the figures of a database should be at most.
struct Wanted {
    steps: [Targets; 6],
    /// For the plain file: requests and KiB of one lookup, and requests of the scan.
    plain: [Option<f64>; 3],
}

/// A TPC-H database in two forms.
pub(crate) struct Source<'a> {
    pub(crate) plain: &'a Path,
    pub(crate) densite: &'a Path,
    /// What reports call it.
    pub(crate) label: String,
}

struct Site {
    proxy: FaultProxy,
    steps: [Step; 6],
}

impl Site {
    fn open(&self, name: &str) -> Result<Connection> {
        self.open_with(name, "")
    }

    /// Opens a file with these parameters, each with an `&` before it.
    fn open_with(&self, name: &str, parameters: &str) -> Result<Connection> {
        let url = self.proxy.http(name);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let uri = format!("file:{url}?vfs=densite{parameters}");
        Connection::open_with_flags(uri, flags).about("open", Path::new(name))
    }

    /// All steps on a file of the server.
    fn measure(&self, name: &str) -> Result<Vec<Cost>> {
        let _ = self.proxy.take_counts();
        let mut costs = Vec::new();
        let mut con = None;
        for (i, step) in self.steps.iter().enumerate() {
            let begin = Instant::now();
            let opened = match con.take() {
                Some(con) => con,
                None => self.open(name)?,
            };
            let answer = step.answer(&opened)?;
            let seconds = begin.elapsed().as_secs_f64();
            // What closing costs belongs to the last step of a connection.
            con = self
                .steps
                .get(i + 1)
                .is_some_and(|next| !next.opens)
                .then_some(opened);
            let (requests, bytes) = self.proxy.take_counts();
            costs.push(Cost {
                requests,
                kib: bytes as f64 / 1024.0,
                seconds,
                answer,
            });
        }
        Ok(costs)
    }

    /// The seconds of all steps, with a delay of each request.
    fn delayed(&self, name: &str) -> Result<Vec<f64>> {
        self.proxy.always(Some(Fault::Late(DELAY)));
        let costs = self.measure(name)?;
        self.proxy.always(None);
        Ok(costs.iter().map(|cost| cost.seconds).collect())
    }

    /// The requests of one lookup by a connection that finds everything in the cache on the disk.
    fn cached(&self, name: &str, cache: &Path) -> Result<u64> {
        let [_, lookup, ..] = &self.steps;
        let parameters = format!("&cache_dir={}", cache.display());
        lookup.answer(&self.open_with(name, &parameters)?)?;
        let _ = self.proxy.take_counts();
        lookup.answer(&self.open_with(name, &parameters)?)?;
        Ok(self.proxy.take_counts().0)
    }
}

/// Measures a database, and a larger one: there, requests and bytes may grow as the data.
pub(crate) fn measure(
    small: &Source<'_>,
    large: Option<&Source<'_>>,
    work: &Path,
    machine: &Machine,
) -> Result<Vec<Outcome>> {
    let wanted = Wanted {
        steps: TARGETS,
        plain: [Some(4.0), Some(525.0), Some(16.0)],
    };
    let mut small = at(small, work, machine, &wanted)?;
    small.figures.push(library_size(work)?);
    let mut outcomes = vec![small];
    if let Some(large) = large {
        let figures = outcomes.iter().flat_map(|outcome| &outcome.figures);
        let value = |step: &Step, unit: &str| {
            let name = format!("{}, {unit}", step.title);
            let found = figures.clone().find(|figure| figure.name == name);
            found.map(|figure| (LARGER * figure.ours).round())
        };
        let wanted = Wanted {
            steps: steps(1).map(|step| (value(&step, "requests"), value(&step, "KiB"))),
            plain: [None; 3],
        };
        let outcome = at(large, work, machine, &wanted)?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Publishes the database, serves it and two other forms, and counts.
fn at(source: &Source<'_>, work: &Path, machine: &Machine, wanted: &Wanted) -> Result<Outcome> {
    let (plain, densite) = (source.plain, source.densite);
    clear(work)?;
    // nginx takes paths from its own folder on.
    let work = &std::fs::canonicalize(work).about("find", work)?;
    let root = work.join("root");
    let own = work.join("own");
    for dir in [&root, &own] {
        std::fs::create_dir(dir).about("create", dir)?;
    }
    let published = root.join("published.db");
    site::publish(densite, published.as_os_str(), &[])?;
    for (from, to) in [(plain, "plain.db"), (densite, "left.db")] {
        let to = root.join(to);
        std::fs::copy(from, &to).about("copy to", &to)?;
    }
    for name in ["published.db", "plain.db", "left.db"] {
        site::make_older(&root.join(name))?;
    }
    let Some(nginx) = Nginx::start(&root, &own) else {
        return Err(Failure("nginx and openssl are not installed".into()));
    };
    let site = Site {
        proxy: FaultProxy::start(nginx.port()),
        steps: steps(site::orders(plain)?),
    };
    let base = site.measure("plain.db")?;
    let ours = site.measure("published.db")?;
    let left = site.measure("left.db")?;
    let delayed = [site.delayed("plain.db")?, site.delayed("published.db")?];
    for ((step, base), others) in site.steps.iter().zip(&base).zip(ours.iter().zip(&left)) {
        let answers = [base.answer, others.0.answer, others.1.answer];
        if answers != [base.answer; 3] {
            let title = step.title;
            return Err(Failure(format!(
                "{title}: the plain, the published and the other file answer {answers:?}"
            )));
        }
    }
    let mut figures = Vec::new();
    let mut add = |name: &str, base: f64, ours: f64, target: Option<f64>| {
        figures.push(Figure::new(name, Compare::Ours, base, ours, target));
    };
    let sides = base
        .iter()
        .zip(&ours)
        .zip(delayed[0].iter().zip(&delayed[1]));
    for ((step, targets), ((base, ours), late)) in site.steps.iter().zip(wanted.steps).zip(sides) {
        let title = step.title;
        let counts = (base.requests as f64, ours.requests as f64);
        add(&format!("{title}, requests"), counts.0, counts.1, targets.0);
        add(&format!("{title}, KiB"), base.kib, ours.kib, targets.1);
        for (delay, base, ours) in [(0, base.seconds, ours.seconds), (30, *late.0, *late.1)] {
            let name = format!("{title}, ms, each request delayed by {delay} ms");
            add(&name, 1000.0 * base, 1000.0 * ours, None);
        }
    }
    let [_, lookup, .., scan] = base.as_slice() else {
        return Err(Failure("there are no steps".into()));
    };
    for ((name, value), target) in [
        ("open and one lookup, requests", lookup.requests as f64),
        ("open and one lookup, KiB", lookup.kib),
        ("scan of LINEITEM, requests", scan.requests as f64),
    ]
    .into_iter()
    .zip(wanted.plain)
    .filter(|(_, target)| target.is_some())
    {
        add(&format!("plain file: {name}"), value, value, target);
    }
    let cache = work.join("cache");
    let cached = |name: &str| site.cached(name, &cache).map(|requests| requests as f64);
    add(
        "opened again with cache_dir: open and one lookup, requests",
        cached("plain.db")?,
        cached("published.db")?,
        Some(1.0),
    );
    // The same on a file as an application left it.
    for (step, target, cost) in [
        ("open and schema", 6.0, &left[0]),
        ("open and one lookup", 8.0, &left[1]),
    ] {
        let (name, requests) = (
            format!("not published: {step}, requests"),
            cost.requests as f64,
        );
        add(&name, requests, requests, Some(target));
    }
    figures.push(slow_scan(&site)?);
    drop(nginx);
    clear(work)?;
    Ok(Outcome {
        measure: "remote".into(),
        title: Measure::Remote.title().into(),
        data: source.label.clone(),
        base_label: "plain SQLite".into(),
        ours_label: "Densite".into(),
        figures,
        base: Vec::new(),
        ours: Vec::new(),
        info: BTreeMap::new(),
        machine: machine.clone(),
    })
}

/// The size of the library without symbols, which has grown by what HTTP and TLS need.
fn library_size(work: &Path) -> Result<Figure> {
    let library = connect::extension()?;
    std::fs::create_dir_all(work).about("create", work)?;
    let stripped = work.join("stripped.so");
    let status = Command::new("strip")
        .arg("--strip-unneeded")
        .arg("-o")
        .args([&stripped, &library])
        .status()
        .about("run", Path::new("strip"))?;
    if !status.success() {
        let library = library.display();
        return Err(Failure(format!("strip failed on {library}: {status}")));
    }
    let size = stripped.metadata().about("find", &stripped)?.len() as f64 / 1e6;
    std::fs::remove_file(&stripped).about("remove", &stripped)?;
    Ok(Figure::new(
        "the loadable library, stripped, MB",
        Compare::Ours,
        size,
        size,
        Some(13.0),
    ))
}

/// The scan through a line of 100 Mbit/s with a delay of 30 ms, compared with its bytes at that
/// rate and one delay.
fn slow_scan(site: &Site) -> Result<Figure> {
    let [.., scan] = &site.steps;
    site.proxy.always(Some(LINE));
    let mut sides = [f64::NAN; 2];
    for (side, name) in sides.iter_mut().zip(["plain.db", "published.db"]) {
        let _ = site.proxy.take_counts();
        let begin = Instant::now();
        let con = site.open(name)?;
        scan.answer(&con)?;
        let taken = begin.elapsed().as_secs_f64();
        let (_, bytes) = site.proxy.take_counts();
        *side = taken / (bytes as f64 / RATE as f64 + DELAY.as_secs_f64());
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
