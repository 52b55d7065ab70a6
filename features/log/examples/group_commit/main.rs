//! How fast the log acknowledges, compared with the syncs of the disk: `cargo run --release -p
//! densite-log --example group_commit [DIR [ROUNDS]]`.
//!
//! Bare syncs and the log alternate every tenth of a second in one run on one file system. A shared
//! disk can be twice as fast in one second as in the next. Ratios are medians over the rounds. The
//! files are in DIR and are removed at the end. Each acknowledgement is checked: at least one sync
//! must have ended since the transaction was handed over.

mod counted;

use counted::{Counted, Counters};
use densite_disk::{Dir, File, OpenMode, RealDir, SyncKind};
use densite_log::{Batch, Log, LogId, Op, Options, Table, Txn, Value};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TURN: Duration = Duration::from_millis(100);
/// Length of the file of bare syncs, bytes.
const BARE_LEN: u64 = 64 << 20;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Results of one measurement: rows, waits with their times, writes and syncs of segments.
#[derive(Default)]
struct Measure {
    rows: u64,
    elapsed: Duration,
    waits: Vec<Duration>,
    groups: u64,
    syncs: u64,
    /// Acknowledgements per second, of each turn.
    rates: Vec<f64>,
}

impl Measure {
    fn add(&mut self, turn: Measure) {
        self.rates.push(turn.rate());
        self.rows += turn.rows;
        self.elapsed += turn.elapsed;
        self.waits.extend(turn.waits);
        self.groups += turn.groups;
        self.syncs += turn.syncs;
    }

    fn rate(&self) -> f64 {
        self.waits.len() as f64 / self.elapsed.as_secs_f64()
    }

    fn print(&mut self, name: &str) {
        self.waits.sort_unstable();
        let at = |share: f64| {
            let i = (self.waits.len() as f64 * share) as usize;
            self.waits.get(i).copied().unwrap_or_default()
        };
        let seconds = self.elapsed.as_secs_f64();
        println!(
            "{name:26} {:>10.0} rows/s {:>6.0} acknowledged/s {:>6.0} syncs/s {:>6.1} rows in a sync  p50 {:>8.1?} p99 {:>8.1?}",
            self.rows as f64 / seconds,
            self.rate(),
            self.syncs as f64 / seconds,
            self.rows as f64 / self.syncs.max(1) as f64,
            at(0.5),
            at(0.99)
        );
    }

    /// The median over rounds of the ratio of this rate to the other's.
    fn against(&self, other: &Measure) -> f64 {
        let pairs = self.rates.iter().zip(&other.rates);
        let mut ratios: Vec<f64> = pairs.map(|(a, b)| a / b).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or_default()
    }
}

/// Writes this many bytes and syncs them repeatedly, within a file that was written before.
fn bare(file: &dyn File, bytes: usize) -> Outcome<Measure> {
    let (start, mut turn, mut at) = (Instant::now(), Measure::default(), 0);
    let buf = vec![7; bytes];
    while start.elapsed() < TURN {
        let began = Instant::now();
        file.write_at(&buf, at)?;
        file.sync(SyncKind::Data)?;
        turn.waits.push(began.elapsed());
        at = (at + bytes as u64) % (BARE_LEN - bytes as u64);
    }
    turn.elapsed = start.elapsed();
    (turn.rows, turn.syncs) = (turn.waits.len() as u64, turn.waits.len() as u64);
    Ok(turn)
}

fn append(log: &Log, counters: &Counters, threads: u64, rows: u64) -> Outcome<Measure> {
    let table = Table::new("vote", ["user", "article"], 2, "")?;
    let stop = AtomicBool::new(false);
    let (before, start) = (counters.now(), Instant::now());
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
            let txn = Txn::of(log.new_txn(), &batch)?;
            let (_, synced) = counters.now();
            log.append(txn)?;
            if counters.now().1 == synced {
                return Err("acknowledged without a sync".into());
            }
            waits.push(began.elapsed());
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
    let (elapsed, after) = (start.elapsed(), counters.now());
    let waits = waits.concat();
    Ok(Measure {
        rows: waits.len() as u64 * rows,
        elapsed,
        waits,
        groups: after.0 - before.0,
        syncs: after.1 - before.1,
        rates: Vec::new(),
    })
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let path = args
        .next()
        .unwrap_or_else(|| "target/group_commit-log".to_owned());
    let rounds: u64 = args.next().map_or(Ok(30), |s| s.parse())?;
    let counters = Arc::new(Counters::default());
    let dir = Arc::new(Counted {
        dir: RealDir::create(&path)?,
        counters: counters.clone(),
    });
    let file = dir.open("bare", OpenMode::CreateNew)?;
    file.write_at(&vec![0; BARE_LEN as usize], 0)?;
    file.sync(SyncKind::Full)?;
    let options = Options {
        create: true,
        ..Options::new(LogId::random()?)
    };
    let log = Log::open(dir.clone(), options)?;
    let names = [
        "bare sync of 128 bytes",
        "1 thread, batches of 1",
        "bare sync of 24 KiB",
        "8 threads, batches of 400",
        "32 threads, batches of 400",
    ];
    let mut measures: [Measure; 5] = Default::default();
    for _ in 0..rounds {
        let [small, one, large, eight, many] = &mut measures;
        small.add(bare(file.as_ref(), 128)?);
        one.add(append(&log, &counters, 1, 1)?);
        large.add(bare(file.as_ref(), 24 << 10)?);
        eight.add(append(&log, &counters, 8, 400)?);
        many.add(append(&log, &counters, 32, 400)?);
        log.prune(log.last()?)?;
    }
    for (name, measure) in names.iter().zip(&mut measures) {
        measure.print(name);
    }
    let [small, one, large, eight, many] = &measures;
    println!("1 thread / bare syncs: {:.2}", one.against(small));
    println!(
        "8 threads / bare syncs of 24 KiB, in batches: {:.2}",
        eight.against(large)
    );
    let log_groups = one.groups + eight.groups + many.groups;
    let log_syncs = one.syncs + eight.syncs + many.syncs;
    println!(
        "writes to segments {log_groups}, syncs of segments {log_syncs}; the difference: segments that grew or began"
    );
    drop(log);
    std::fs::remove_dir_all(path)?;
    Ok(())
}
