//! The log of a database is shipped with it: each restore point has the rows that were appended and
//! not yet applied, and no log ends before its database or begins behind it.

use crate::common::{
    DB, Database, PAGE, Staged, Staging, begin_from, bucket, quick, reader, restored_to,
};
use densite_disk::OpenMode;
use densite_log::{
    Batch, Begin, Hold, Image, Log, LogDir, LogId, Op, Options, Seq, Table, Txn, Value,
};
use densite_replica::{At, Bucket, Result, Shipper, Source, Step};
use densite_sim_disk::SimDisk;
use densite_store::CommitId;
use rand::RngExt;
use std::collections::BTreeMap;
use std::sync::Arc;

const ID: LogId = LogId([5; 16]);

/// A database with a log: the first page has the position.
struct World {
    database: Database,
    log: Log,
    /// The values of the rows that were appended.
    rows: BTreeMap<Seq, i64>,
    applied: Seq,
    holds_back: bool,
    /// The log as of the last restore point.
    image: Option<Image>,
    /// Works between a restore point and the end of the log.
    is_busy: bool,
}

fn log_dir(disk: &SimDisk, db: &str) -> LogDir {
    Arc::new(disk.dir(&format!("{db}-log")))
}

fn options() -> Options {
    Options {
        create: true,
        segment_bytes: 12 << 10,
        grow_bytes: 2 << 10,
        background: false,
        ..Options::new(ID)
    }
}

impl World {
    fn new(seed: u64) -> World {
        let database = Database::new(seed);
        let log = Log::open(log_dir(&database.disk, DB), options()).expect("a log");
        let mut world = World {
            database,
            log,
            rows: BTreeMap::new(),
            applied: 0,
            holds_back: false,
            image: None,
            is_busy: false,
        };
        world.apply();
        world
    }

    fn append(&mut self) {
        let table = Table::new("vote", ["id", "payload"], 1, b"").expect("a table");
        let mut batch = Batch::new(&table, Op::Insert);
        let count = self.database.rng.random_range(1..20);
        let values: Vec<i64> = (0..count).map(|_| self.database.rng.random()).collect();
        for value in &values {
            let payload = vec![*value as u8; (*value as usize) % 200];
            let row = [Value::Int(*value), Value::Blob(&payload)];
            batch.push(&row).expect("push");
        }
        let mut txn = Txn::new(self.log.new_txn());
        txn.push(&batch).expect("push");
        let seqs = match self.database.rng.random_range(0..10) {
            0 => {
                let txn = Arc::new(txn);
                self.log.prepare(&txn).expect("prepare");
                return self.log.cancel(txn.id()).expect("cancel");
            }
            _ => self.log.append(txn).expect("append"),
        };
        self.rows.extend((seqs.first..=seqs.last).zip(values));
    }

    /// Stores that all rows up to one are applied, and prunes.
    fn apply(&mut self) {
        let last = self.rows.keys().next_back().copied().unwrap_or(0);
        self.applied = self.database.rng.random_range(self.applied..=last);
        let mut page = vec![0; PAGE];
        page[..8].copy_from_slice(&self.applied.to_le_bytes());
        (self.database.handle.write_at(&page, 0)).expect("write");
        self.database.pages[0] = page;
        self.database.handle.publish().expect("publish");
        (self.database.handle.sync(densite_disk::SyncKind::Full)).expect("sync");
        self.log.prune(self.applied).expect("prune");
    }

    fn work(&mut self) {
        for _ in 0..self.database.rng.random_range(0..6) {
            match self.database.rng.random_range(0..10) {
                0 | 1 => self.apply(),
                2 if self.log.subscribe("s", Begin::Now).is_err() => {
                    self.log.unsubscribe("s").expect("unsubscribe");
                }
                2 => {}
                3 => self.log = Log::open(self.dir(), options()).expect("open again"),
                _ => self.append(),
            }
        }
    }

    fn dir(&self) -> LogDir {
        log_dir(&self.database.disk, DB)
    }
}

impl Staged for World {
    fn database(&mut self) -> &mut Database {
        &mut self.database
    }

    fn restore_point(&mut self) -> Result<Option<CommitId>> {
        let hold = Hold::take(self.dir())?;
        if self.is_busy {
            self.work();
        }
        let point = match self.holds_back {
            true => None,
            false => self.database.source().restore_point()?,
        };
        if self.is_busy {
            self.work();
        }
        self.image = hold.map(Hold::settle).transpose()?.flatten();
        Ok(point)
    }

    fn take_log(&mut self) -> Option<Image> {
        self.image.take()
    }
}

/// Restores, and returns the number of the restore point, the position of the database, and the
/// rows of its log behind that.
fn opened(disk: &SimDisk, at: At) -> (u64, Seq, BTreeMap<Seq, i64>) {
    let target = SimDisk::new(0);
    let (restored, pages) = restored_to(&target, &reader(disk), at).expect("restore");
    assert!(restored.has_log);
    let applied = Seq::from_le_bytes(pages[0][..8].try_into().expect("8 bytes"));
    let dir = log_dir(&target, "/r.db");
    let report = densite_log::check(dir.clone(), ID).expect("check");
    assert_eq!(report.problems, []);
    let options = Options {
        create: false,
        ..options()
    };
    let log = Log::open(dir, options).expect("open the log");
    let mut reader = log.read_after(applied).expect("read");
    let mut rows = BTreeMap::new();
    while let Some(record) = reader.next().expect("a record") {
        for i in record.skip..record.rows.len() {
            let value = record.rows.row(i).next();
            let Some(Value::Int(value)) = value else {
                panic!("not what was written: {value:?}");
            };
            rows.insert(record.first + i as u64, value);
        }
    }
    assert!(
        log.last().expect("last") >= applied,
        "the log ends too early"
    );
    (restored.n, applied, rows)
}

/// Returns how many restore points have the log alone, and how often deltas were merged.
fn history(seed: u64) -> (u32, u32) {
    let mut world = World::new(seed);
    let disk = SimDisk::new(seed);
    let mut options = quick();
    if seed.is_multiple_of(3) {
        options.base_every = std::time::Duration::from_secs(60);
    }
    let mut now_ms = 1_000_000;
    // Of each restore point: its time, and the rows that had been appended when it began.
    let mut points: BTreeMap<u64, (u64, BTreeMap<Seq, i64>)> = BTreeMap::new();
    let (mut held_back, mut merged) = (0, 0);
    for _ in 0..4 {
        world.is_busy = false;
        let rows = world.rows.clone();
        let folder: Arc<dyn Bucket> = bucket(&disk);
        let owner = world.database.owner.clone();
        let mut shipper =
            begin_from(&folder, &mut Staging(&mut world), &options, &owner, now_ms).expect("begin");
        let (n, _, time_ms) = shipper.position();
        points.entry(n).or_insert((time_ms, rows));
        world.is_busy = !seed.is_multiple_of(4);
        for _ in 0..world.database.rng.random_range(20..60) {
            now_ms += world.database.rng.random_range(1..3000);
            world.work();
            if world.database.rng.random_range(0..20) == 0 {
                now_ms += 20_000;
            }
            world.holds_back = world.database.rng.random_range(0..4) == 0;
            let rows = world.rows.clone();
            match step(&mut shipper, &mut world, now_ms) {
                Step::Shipped {
                    n, is_held_back, ..
                } => {
                    held_back += u32::from(is_held_back);
                    points.insert(n, (shipper.position().2, rows));
                }
                Step::Compacted { .. } => merged += 1,
                Step::Idle | Step::HeldBack => {}
            }
        }
    }
    for (n, (time_ms, rows)) in &points {
        let (found, applied, waiting) = opened(&disk, At::Time(*time_ms));
        assert!(found >= *n, "seed {seed}: {found} for {n}");
        // What was appended before is applied or waits; what waits is what was appended.
        for (seq, value) in rows.range(applied + 1..) {
            assert_eq!(waiting.get(seq), Some(value), "seed {seed}, {n}: row {seq}");
        }
        for (seq, value) in &waiting {
            assert_eq!(
                world.rows.get(seq),
                Some(value),
                "seed {seed}, {n}: row {seq}"
            );
        }
    }
    (held_back, merged)
}

fn step(shipper: &mut Shipper, world: &mut World, now_ms: u64) -> Step {
    shipper
        .step(&mut Staging(world), now_ms, &mut |_| true)
        .expect("step")
}

#[test]
fn each_restore_point_has_the_rows_that_wait() {
    let counts: Vec<_> = (0..12).map(history).collect();
    let held_back: u32 = counts.iter().map(|(held_back, _)| held_back).sum();
    let merged: u32 = counts.iter().map(|(_, merged)| merged).sum();
    assert!(held_back > 0 && merged > 0, "{counts:?}");
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_replica_logs() {
    densite_testing::long_run("restore points without a newer state", |seed| {
        history(seed).0.into()
    });
}

/// Rows that were applied long ago are not restored.
#[test]
fn what_is_pruned_is_not_in_merged_objects() {
    let mut world = World::new(1);
    let disk = SimDisk::new(1);
    let folder: Arc<dyn Bucket> = bucket(&disk);
    let owner = world.database.owner.clone();
    let mut shipper =
        begin_from(&folder, &mut Staging(&mut world), &quick(), &owner, 0).expect("begin");
    let mut sent = 0;
    for n in 1..=200 {
        for _ in 0..10 {
            world.append();
        }
        world.applied = *world.rows.keys().next_back().expect("rows");
        world.apply();
        if let Step::Shipped { bytes, .. } = step(&mut shipper, &mut world, n * 1000) {
            sent += bytes;
        }
    }
    step(&mut shipper, &mut world, 400_000);
    let target = SimDisk::new(0);
    let (restored, _) = restored_to(&target, &reader(&disk), At::Newest).expect("restore");
    assert!(restored.bytes * 4 < sent, "{} of {sent}", restored.bytes);
}

/// While nothing changes, nothing is sent; a setting of the log is.
#[test]
fn a_log_at_rest_sends_nothing_and_a_subscriber_is_shipped() {
    let mut world = World::new(2);
    world.append();
    let disk = SimDisk::new(2);
    let folder: Arc<dyn Bucket> = bucket(&disk);
    let owner = world.database.owner.clone();
    let mut shipper =
        begin_from(&folder, &mut Staging(&mut world), &quick(), &owner, 0).expect("begin");
    let calls = disk.calls();
    for n in 1..50 {
        assert_eq!(step(&mut shipper, &mut world, n * 1000), Step::Idle);
    }
    assert_eq!(disk.calls(), calls);
    world
        .log
        .subscribe("audit", Begin::Start)
        .expect("subscribe");
    let shipped = step(&mut shipper, &mut world, 50_000);
    assert!(matches!(shipped, Step::Shipped { n: 1, .. }), "{shipped:?}");
    world.log.ack("audit", 1).expect("ack");
    assert_eq!(step(&mut shipper, &mut world, 51_000), Step::Idle);
    let target = SimDisk::new(0);
    restored_to(&target, &reader(&disk), At::Newest).expect("restore");
    assert!(target.open("/r.db-log/state", OpenMode::Read).is_ok());
    let log = Log::open_read_only(log_dir(&target, "/r.db"), ID).expect("open");
    assert_eq!(log.subscribers().expect("subscribers")[0].name, "audit");
}
