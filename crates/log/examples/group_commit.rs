//! How fast the log acknowledges, next to what the disk can sync: `cargo run --release -p densite-log --example group_commit [DIR [SECONDS]]`.
//!
//! Bare syncs and the log take turns of a second in one run, on one file system; what is written lies in DIR and is removed at the end.

use densite_disk::{Dir, File, OpenMode, RealDir, SyncKind};
use densite_log::{Batch, Log, LogId, Op, Options, Table, Txn, Value};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TURN: Duration = Duration::from_secs(1);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What one measure did: rows, calls that were waited for, and how long each took.
#[derive(Default)]
struct Measure {
    rows: u64,
    elapsed: Duration,
    waits: Vec<Duration>,
}

impl Measure {
    fn add(&mut self, rows: u64, elapsed: Duration, waits: Vec<Duration>) {
        self.rows += rows;
        self.elapsed += elapsed;
        self.waits.extend(waits);
    }

    fn print(&mut self, name: &str) {
        self.waits.sort_unstable();
        let at = |share: f64| {
            let i = (self.waits.len() as f64 * share) as usize;
            self.waits.get(i).copied().unwrap_or_default()
        };
        let seconds = self.elapsed.as_secs_f64();
        println!(
            "{name:32} {:>11.0} rows/s  {:>8.0} acknowledged/s  p50 {:>9.2?}  p99 {:>9.2?}",
            self.rows as f64 / seconds,
            self.waits.len() as f64 / seconds,
            at(0.5),
            at(0.99)
        );
    }
}

/// Writes so many bytes and syncs them, over and over, within a file that was written before.
fn bare(file: &dyn File, len: u64, bytes: usize) -> Outcome<(u64, Duration, Vec<Duration>)> {
    let (start, mut waits, mut at) = (Instant::now(), Vec::new(), 0);
    let buf = vec![7; bytes];
    while start.elapsed() < TURN {
        let began = Instant::now();
        file.write_at(&buf, at)?;
        file.sync(SyncKind::Data)?;
        waits.push(began.elapsed());
        at = (at + bytes as u64) % (len - bytes as u64);
    }
    Ok((waits.len() as u64, start.elapsed(), waits))
}

fn append(log: &Log, threads: u64, rows: u64) -> Outcome<(u64, Duration, Vec<Duration>)> {
    let table = Table::new("vote", ["user", "article"], 2, "")?;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    let work = |thread: u64| -> Outcome<Vec<Duration>> {
        let mut waits = Vec::new();
        let mut x = thread;
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            let mut batch = Batch::new(&table, Op::Insert);
            for _ in 0..rows {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                batch.push(&[Value::Int((x >> 33) as i64), Value::Int((x >> 40) as i64)])?;
            }
            log.append(Txn::of(log.new_txn(), &batch)?)?;
            waits.push(began.elapsed());
            done.fetch_add(rows, Ordering::Relaxed);
        }
        Ok(waits)
    };
    let waits = std::thread::scope(|s| {
        let threads: Vec<_> = (0..threads).map(|t| s.spawn(move || work(t))).collect();
        std::thread::sleep(TURN);
        stop.store(true, Ordering::Relaxed);
        let all = threads
            .into_iter()
            .map(|t| t.join().map_err(|_| "a thread panicked")?);
        all.collect::<Outcome<Vec<_>>>()
    })?;
    Ok((
        done.load(Ordering::Relaxed),
        start.elapsed(),
        waits.concat(),
    ))
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let path = args
        .next()
        .unwrap_or_else(|| "target/group_commit-log".to_owned());
    let seconds: u64 = args.next().map_or(Ok(10), |s| s.parse())?;
    let dir = Arc::new(RealDir::create(&path)?);
    let len = 64 << 20;
    let file = dir.open("bare", OpenMode::CreateNew)?;
    file.write_at(&vec![0; len as usize], 0)?;
    file.sync(SyncKind::Full)?;
    let options = Options {
        create: true,
        ..Options::new(LogId::random()?)
    };
    let log = Log::open(dir.clone(), options)?;
    let mut measures: [Measure; 5] = Default::default();
    for _ in 0..seconds {
        let [small, large, one, eight, many] = &mut measures;
        let (n, t, w) = bare(file.as_ref(), len, 128)?;
        small.add(n, t, w);
        let (n, t, w) = append(&log, 1, 1)?;
        one.add(n, t, w);
        let (n, t, w) = bare(file.as_ref(), len, 24 << 10)?;
        large.add(n, t, w);
        let (n, t, w) = append(&log, 8, 400)?;
        eight.add(n, t, w);
        let (n, t, w) = append(&log, 32, 400)?;
        many.add(n, t, w);
        log.prune(log.last()?)?;
    }
    let names = [
        "bare sync of 128 bytes",
        "bare sync of 24 KiB",
        "1 thread, batches of 1",
        "8 threads, batches of 400",
        "32 threads, batches of 400",
    ];
    for (name, measure) in names.iter().zip(&mut measures) {
        measure.print(name);
    }
    println!("{:?}", log.status()?);
    drop(log);
    std::fs::remove_dir_all(path)?;
    Ok(())
}
