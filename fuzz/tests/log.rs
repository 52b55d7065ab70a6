//! Mutants of a log's files, with repaired checksums. No mutant causes a panic, an endless wait or
//! an unlimited allocation. Rows that the log acknowledges after damage can be read.
//!
//! `make test` runs ten thousand mutants; `long_fuzz_log` runs for DENSITE_MINUTES from
//! DENSITE_SEED.

#[path = "log/mutant.rs"]
mod mutant;

use densite_log::{
    Batch, Begin, Error, Log, LogDir, LogId, Op, Options, Salvage, Table, Txn, Value, check, id_in,
};
use densite_sim_disk::SimDisk;
use densite_testing::Effort;
use mutant::Files;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ID: LogId = LogId([7; 16]);
const DIR: &str = "/app.db-log";
/// Mutants of a test.
const MUTANTS: u64 = 10_000;
/// Limit of this process's memory in bytes: more than one record can have, and less than a length
/// in a file can claim.
const MEMORY: u64 = 6 << 30;
/// The longest time of a mutant.
const LATE: Duration = Duration::from_secs(20);

fn options() -> Options {
    Options {
        create: true,
        segment_bytes: 8 << 10,
        grow_bytes: 2 << 10,
        group_bytes_max: 2 << 10,
        background: false,
        ..Options::new(ID)
    }
}

fn dir(disk: &SimDisk) -> LogDir {
    Arc::new(disk.dir(DIR))
}

fn txn(log: &Log, id: i64, text: &[u8]) -> Txn {
    let table = Table::new("t", ["id", "text", "any"], 1, b"note".as_slice()).expect("a table");
    let mut batch = Batch::new(&table, Op::Insert);
    for n in 0..3 {
        let any = [Value::Null, Value::Real(0.5), Value::Blob(text)][n];
        let row = [Value::Int(id), Value::Text(text), any];
        batch.push(&row).expect("push");
    }
    Txn::of(log.new_txn(), &batch).expect("a transaction")
}

/// A log with several segments, all kinds of records, a free segment, a subscriber, rollbacks, and
/// a prepared transaction.
fn original() -> Files {
    let disk = SimDisk::new(1);
    let log = Log::open(dir(&disk), options()).expect("opens");
    log.subscribe("s", Begin::Start).expect("subscribes");
    for id in 0..60u64 {
        let noise: Vec<u8> = (0..id * 7)
            .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15 + id) >> 56) as u8)
            .collect();
        let text = if id % 3 == 0 { vec![b'x'; 900] } else { noise };
        let txn = Arc::new(txn(&log, id as i64, &text));
        log.prepare(&txn).expect("appends");
        match id % 20 {
            7 => log.cancel(txn.id()).expect("rolls back"),
            _ => log.commit(txn.id()),
        }
        if id == 40 {
            log.ack("s", 60).expect("acknowledges");
            log.prune(60).expect("prunes");
        }
    }
    log.prepare(&Arc::new(txn(&log, -1, b"prepared")))
        .expect("appends");
    Files::of(&disk.snapshot(), DIR)
}

/// Uses all functions of a log. The result identifies the behaviour.
fn use_all_functions(disk: &SimDisk) -> densite_log::Result<u64> {
    id_in(dir(disk))?;
    let mut rows = 0;
    let report = check(dir(disk), ID).map_or(0, |report| report.problems.len() as u64);
    if let Ok(log) = Log::open_read_only(dir(disk), ID) {
        log.status().ok();
        log.subscribers().ok();
        for after in [0, 60, 150, u64::MAX] {
            if let Ok(mut reader) = log.read_after(after) {
                reader.bytes_left().ok();
                while let Ok(Some(record)) = reader.next() {
                    assert!(record.rows.row(0).count() == record.table.columns().len());
                    rows += record.rows.len() as u64;
                }
            }
        }
    }
    if let Ok(salvage) = Salvage::begin(dir(disk), ID, None) {
        let to = SimDisk::new(2);
        if salvage.run(Some(dir(&to))).is_ok() {
            drop(Log::open(dir(&to), options()));
        }
    }
    let log = Log::open(dir(disk), options())?;
    let at = log.append(txn(&log, 7, b"new"))?;
    // Acknowledged rows are read, or there is an error of damage: an end word can name a number
    // that rows already have.
    let is_there = |log: &Log, when: &str| -> densite_log::Result<()> {
        let mut reader = log.read_after(at.first - 1)?;
        loop {
            let record = reader
                .next()?
                .unwrap_or_else(|| panic!("the new rows are missing {when}"));
            if record.first >= at.first {
                assert_eq!((record.first, record.last()), (at.first, at.last), "{when}");
                return Ok(());
            }
        }
    };
    is_there(&log, "after it was acknowledged")?;
    log.subscribe("t", Begin::Now)?;
    log.ack("s", at.last).ok();
    log.bytes_after(0).ok();
    log.prune(at.first - 1).ok();
    drop(log);
    let log = Log::open(dir(disk), options())?;
    is_there(&log, "after the log was opened again")?;
    Ok(rows << 8 | report)
}

/// Runs mutants from this seed on while `goes_on` returns true.
fn run(seed: u64, goes_on: impl Fn(u64) -> bool) {
    // A larger allocation aborts the process, and with it this test.
    let limit = Rlimit {
        current: Some(MEMORY),
        maximum: getrlimit(Resource::As).maximum,
    };
    setrlimit(Resource::As, limit).expect("a limit");
    let original = original();
    let sound = use_all_functions(&original.placed(DIR)).expect("the original is sound");
    assert!(sound >> 8 > 100, "{sound}");
    let (mut opened, mut n) = (0u64, 0);
    while goes_on(n) {
        let mut mutant = original.clone();
        let mut rng = SmallRng::seed_from_u64(seed + n);
        mutant.mutate(&mut rng);
        let disk = mutant.placed(DIR);
        let begun = Instant::now();
        let used =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| use_all_functions(&disk)));
        let Ok(used) = used else {
            panic!("DENSITE_SEED={}: a panic", seed + n);
        };
        opened += u64::from(used.is_ok());
        if let Err(e) = used {
            // `Abandoned` must never be returned.
            assert!(!matches!(e, Error::Abandoned), "DENSITE_SEED={}", seed + n);
        }
        assert!(
            begun.elapsed() < LATE,
            "DENSITE_SEED={}: it took too long",
            seed + n
        );
        n += 1;
    }
    println!(
        "{n} mutants, {opened} of them opened; go on with DENSITE_SEED={}",
        seed + n
    );
    assert!(n == 1 || opened > n / 20, "most are refused at once");
}

#[test]
fn mutants_of_a_log_are_read_or_refused() {
    match std::env::var("DENSITE_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
    {
        Some(seed) => run(seed, |n| n < 1),
        None => run(0, |n| n < Effort::wanted().of(MUTANTS)),
    }
}

#[test]
#[ignore = "runs for DENSITE_MINUTES; see `make fuzz`"]
fn long_fuzz_log() {
    let var = |name| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let minutes = var("DENSITE_MINUTES").unwrap_or(1);
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    let seed = var("DENSITE_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |now| now.as_millis() as u64) << 16
    });
    println!("DENSITE_SEED={seed}");
    run(seed, |_| Instant::now() < until);
}
