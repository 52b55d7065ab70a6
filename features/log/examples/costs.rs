//! What rows cost in the log, and how much pruning slows writes: `cargo run --release -p
//! densite-log --example costs [DIR [BACKLOG_MIB]]`.
//!
//! The files are in DIR and are removed at the end.

use densite_disk::RealDir;
use densite_log::{Batch, Begin, Log, LogId, Op, Options, Reader, Table, Txn, Value};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Rows in each of the measured batches.
const BATCHES: [usize; 3] = [1, 400, 20_000];

fn open(path: &Path) -> Outcome<Log> {
    let options = Options {
        create: true,
        ..Options::new(LogId::random()?)
    };
    Ok(Log::open(Arc::new(RealDir::create(path)?), options)?)
}

/// Makes the values of a row from its number.
type Push<'a> = &'a mut dyn FnMut(&[Value<'_>]) -> densite_log::Result<()>;
type Shape = fn(&mut SmallRng, i64, Push<'_>) -> densite_log::Result<()>;

fn votes(
    rng: &mut SmallRng,
    _: i64,
    push: &mut dyn FnMut(&[Value<'_>]) -> densite_log::Result<()>,
) -> densite_log::Result<()> {
    let (user, article) = (rng.random_range(0..1 << 31), rng.random_range(0..1 << 24));
    push(&[Value::Int(user), Value::Int(article)])
}

fn measurements(
    rng: &mut SmallRng,
    i: i64,
    push: &mut dyn FnMut(&[Value<'_>]) -> densite_log::Result<()>,
) -> densite_log::Result<()> {
    let sensor = format!("sensor-{:03}", rng.random_range(0..500));
    let state = match rng.random_range(0..4) {
        0 => Value::Null,
        n => Value::Int(n),
    };
    let value = rng.random_range(0..40_000) as f64 / 100.0;
    push(&[
        Value::Int(1_700_000_000_000 + i),
        Value::Text(sensor.as_bytes()),
        Value::Real(value),
        state,
    ])
}

fn documents(
    rng: &mut SmallRng,
    i: i64,
    push: &mut dyn FnMut(&[Value<'_>]) -> densite_log::Result<()>,
) -> densite_log::Result<()> {
    let (user, price) = (rng.random_range(0..100_000), rng.random_range(100..100_000));
    let text = format!(
        r#"{{"id":{i},"user":"user{user}@example.org","items":[{{"sku":"A-{:05}","price":{price}}}],"state":"open","note":"please ring twice"}}"#,
        price % 7919
    );
    push(&[Value::Int(i), Value::Text(text.as_bytes())])
}

fn blobs(
    rng: &mut SmallRng,
    i: i64,
    push: &mut dyn FnMut(&[Value<'_>]) -> densite_log::Result<()>,
) -> densite_log::Result<()> {
    let mut key = [0; 16];
    rng.fill_bytes(&mut key);
    push(&[Value::Blob(&key), Value::Int(i)])
}

/// Encodes, appends and reads rows of one shape in batches of one size.
fn rows(path: &Path, name: &str, columns: usize, shape: Shape, batch_rows: usize) -> Outcome<()> {
    let log = open(path)?;
    let table = Table::new(name, (0..columns).map(|i| format!("c{i}")), 1, "")?;
    let mut rng = SmallRng::seed_from_u64(1);
    let total = 200_000.min(batch_rows * 2_000);
    let (mut made, mut encoded, mut n) = (Duration::ZERO, Duration::ZERO, 0i64);
    let mut raw = 0;
    while (n as usize) < total {
        // Making the values also takes time. It is measured separately, without a batch.
        let mut again = rng.clone();
        let start = Instant::now();
        for i in 0..batch_rows {
            shape(&mut again, n + i as i64, &mut |row| {
                std::hint::black_box(row);
                Ok(())
            })?;
        }
        made += start.elapsed();
        let start = Instant::now();
        let mut batch = Batch::new(&table, Op::Insert);
        for i in 0..batch_rows {
            shape(&mut rng, n + i as i64, &mut |row| batch.push(row))?;
        }
        let txn = Txn::of(log.new_txn(), &batch)?;
        encoded += start.elapsed();
        raw += batch.bytes_max();
        n += batch_rows as i64;
        log.append(txn)?;
    }
    let bytes = log.read_after(0)?.bytes_left()?;
    let start = Instant::now();
    let mut reader: Reader = log.read_after(0)?;
    let mut seen = 0;
    while let Some(record) = reader.next()? {
        for i in 0..record.rows.len() {
            seen += record.rows.row(i).map(std::hint::black_box).count();
        }
    }
    let read = start.elapsed();
    let each = |t: Duration| t.as_nanos() as f64 / n as f64;
    println!(
        "{name:14} batches of {batch_rows:>6}: encode {:>6.0} ns, read {:>6.0} ns, {:>6.1} bytes a row in the log ({:.1} as values)",
        each(encoded.saturating_sub(made)),
        each(read),
        bytes as f64 / n as f64,
        raw as f64 / n as f64
    );
    assert_eq!(seen, n as usize * columns);
    drop((reader, log));
    std::fs::remove_dir_all(path)?;
    Ok(())
}

fn quantile(waits: &mut [Duration], share: f64) -> Duration {
    waits.sort_unstable();
    let i = (waits.len() as f64 * share) as usize;
    waits.get(i).copied().unwrap_or_default()
}

/// Writes a backlog that a subscriber holds. Then appends batches of 400 rows, alternately while
/// the backlog is pruned and while it is not.
fn pruning(path: &Path, backlog: u64) -> Outcome<()> {
    let log = open(path)?;
    log.subscribe("slow", Begin::Start)?;
    let table = Table::new("vote", ["user", "payload"], 1, "")?;
    let mut rng = SmallRng::seed_from_u64(2);
    let mut payload = vec![0; 1 << 20];
    rng.fill_bytes(&mut payload);
    let mut ends = Vec::new();
    while log.status()?.bytes < backlog {
        let mut batch = Batch::new(&table, Op::Insert);
        batch.push(&[Value::Int(0), Value::Blob(&payload)])?;
        ends.push(log.append(Txn::of(log.new_txn(), &batch)?)?.last);
    }
    let begun = log.status()?;
    let mut small = Batch::new(&table, Op::Insert);
    for _ in 0..400 {
        small.push(&[
            Value::Int(rng.random_range(0..1 << 31)),
            Value::Blob(b"01234567"),
        ])?;
    }
    let is_pruning = AtomicBool::new(false);
    let stop = AtomicBool::new(false);
    let (mut quiet, mut busy) = (Vec::new(), Vec::new());
    let mut times = Vec::new();
    std::thread::scope(|s| -> Outcome<()> {
        let writer = s.spawn(|| -> Outcome<(Vec<Duration>, Vec<Duration>)> {
            let (mut quiet, mut busy) = (Vec::new(), Vec::new());
            while !stop.load(Ordering::Relaxed) {
                let txn = Txn::of(log.new_txn(), &small)?;
                let (before, start) = (is_pruning.load(Ordering::Relaxed), Instant::now());
                log.append(txn)?;
                let wait = start.elapsed();
                let after = is_pruning.load(Ordering::Relaxed);
                if before || after {
                    busy.push(wait);
                } else {
                    quiet.push(wait);
                }
            }
            Ok((quiet, busy))
        });
        let looks = Instant::now();
        for _ in 0..100 {
            log.auto_prune(u64::MAX)?;
        }
        println!(
            "a prune that finds nothing, {} segments there: {:.1?}",
            begun.segments,
            looks.elapsed() / 100
        );
        // As an applier does after each part that it has applied.
        for end in ends.chunks(64).filter_map(|c| c.last()) {
            std::thread::sleep(Duration::from_millis(100));
            log.ack("slow", *end)?;
            is_pruning.store(true, Ordering::Relaxed);
            let start = Instant::now();
            log.auto_prune(u64::MAX)?;
            times.push(start.elapsed());
            is_pruning.store(false, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        (quiet, busy) = writer.join().map_err(|_| "the writer panicked")??;
        Ok(())
    })?;
    for (name, waits) in [
        ("without pruning", &mut quiet),
        ("while pruning", &mut busy),
    ] {
        println!(
            "append of 400 rows, {name:16} n {:>6}  p50 {:>8.1?}  p99 {:>8.1?}  p99.9 {:>8.1?}  max {:>8.1?}",
            waits.len(),
            quantile(waits, 0.5),
            quantile(waits, 0.99),
            quantile(waits, 0.999),
            quantile(waits, 1.0 - f64::EPSILON),
        );
    }
    let mut all = [quiet, busy].concat();
    println!("all of them together: p99 {:.1?}", quantile(&mut all, 0.99));
    println!(
        "a prune of a segment: p50 {:.1?}, max {:.1?}",
        quantile(&mut times, 0.5),
        quantile(&mut times, 1.0 - f64::EPSILON)
    );
    println!(
        "backlog {} MiB, left {} MiB",
        begun.bytes >> 20,
        log.status()?.bytes >> 20
    );
    drop(log);
    std::fs::remove_dir_all(path)?;
    Ok(())
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "target/costs-log".to_owned());
    let backlog: u64 = args.next().map_or(Ok(512), |s| s.parse())?;
    let shapes: [(&str, usize, Shape); 4] = [
        ("votes", 2, votes),
        ("measurements", 4, measurements),
        ("documents", 2, documents),
        ("16-byte blobs", 2, blobs),
    ];
    for (name, columns, shape) in shapes {
        for batch in BATCHES {
            rows(Path::new(&path), name, columns, shape, batch)?;
        }
    }
    pruning(Path::new(&path), backlog << 20)
}
