//! How many bytes and requests an hour of load takes, and restores of it. The clock is simulated.

use crate::common::{Database, PAGE, begin_from, bucket, quick, restored_from};
use densite_replica::{At, Bucket, Listed, RemoteObject, Result, Shipper, Step, Stored, Upload};
use densite_sim_disk::SimDisk;
use rand::RngExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pages of a table whose rows are updated.
const PAGES: usize = 4_500;
/// Pages that do not change.
const OTHERS: usize = 3_000;
const SECOND: u64 = 1_000;

/// Requests, and bytes of objects, by method and kind of object.
type Counts = BTreeMap<String, (u64, u64)>;

/// A bucket that counts.
struct Counting {
    bucket: Arc<dyn Bucket>,
    counts: Mutex<Counts>,
}

impl Counting {
    fn add(&self, method: &str, name: &str, bytes: usize) {
        let kinds = ["base", "delta", "compacted", "head"];
        let kind = kinds.iter().find(|kind| name.contains(**kind));
        let mut counts = self.counts.lock().expect("counts");
        let of = format!("{method} {}", kind.unwrap_or(&"other"));
        let count = counts.entry(of).or_default();
        *count = (count.0 + 1, count.1 + bytes as u64);
    }

    fn take(&self) -> Counts {
        std::mem::take(&mut self.counts.lock().expect("counts"))
    }
}

/// Requests and bytes of all counts whose names begin so.
fn sum(counts: &Counts, begin: &str) -> (u64, u64) {
    let of = counts.iter().filter(|(name, _)| name.starts_with(begin));
    of.fold((0, 0), |sum, (_, n)| (sum.0 + n.0, sum.1 + n.1))
}

impl Bucket for Counting {
    fn get(&self, name: &str) -> Result<Option<Stored>> {
        let got = self.bucket.get(name)?;
        self.add("GET", name, got.as_ref().map_or(0, |got| got.bytes.len()));
        Ok(got)
    }

    fn get_end(&self, name: &str, len: u64) -> Result<Option<Stored>> {
        let got = self.bucket.get_end(name, len)?;
        self.add("GET", name, got.as_ref().map_or(0, |got| got.bytes.len()));
        Ok(got)
    }

    fn get_range(&self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        let got = self.bucket.get_range(name, offset, len)?;
        self.add("GET", name, got.len());
        Ok(got)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<String>> {
        self.add("PUT", name, bytes.len());
        self.bucket.create(name, bytes)
    }

    fn replace(&self, name: &str, bytes: &[u8], version: &str) -> Result<Option<String>> {
        self.add("PUT", name, bytes.len());
        self.bucket.replace(name, bytes, version)
    }

    fn upload(&self, name: &str, about: u64) -> Result<Box<dyn Upload + '_>> {
        self.add("PUT", name, about as usize);
        self.bucket.upload(name, about)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.add("DELETE", name, 0);
        self.bucket.remove(name)
    }

    fn at_once(&self) -> usize {
        4
    }

    fn object(&self, name: &str, len: u64, end: u64) -> Result<Option<Arc<dyn RemoteObject>>> {
        self.bucket.object(name, len, end)
    }

    fn list(&self, prefix: &str, after: &str) -> Result<Vec<Listed>> {
        self.add("LIST", prefix, 0);
        self.bucket.list(prefix, after)
    }
}

/// A table of rows that are updated anywhere, and appended at the end: ten transactions a second,
/// which one checkpoint a second stores.
struct Load {
    database: Database,
    bucket: Arc<Counting>,
    shipper: Shipper,
    now_ms: u64,
    /// Pages at some moments.
    states: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Load {
    fn new(disk: &SimDisk) -> Load {
        let mut database = Database::new(1);
        for page in 0..PAGES + OTHERS {
            let mut bytes = vec![0; PAGE];
            let random = if page < PAGES { 500 } else { PAGE };
            database.rng.fill(&mut bytes[..random]);
            write(&mut database, page, bytes);
        }
        database.commit(1);
        let counting = Arc::new(Counting {
            bucket: bucket(disk),
            counts: Mutex::default(),
        });
        let counted: Arc<dyn Bucket> = counting.clone();
        let owner = database.owner.clone();
        let shipper = begin_from(&counted, &mut database.source(), &quick(), &owner, 0);
        Load {
            database,
            bucket: counting,
            shipper: shipper.expect("begin"),
            now_ms: 0,
            states: BTreeMap::new(),
        }
    }

    /// One second.
    fn second(&mut self) {
        self.now_ms += SECOND;
        let rng = &mut self.database.rng;
        let mut changed: Vec<usize> = (0..5).map(|_| rng.random_range(0..PAGES)).collect();
        // Eight rows of 60 bytes to a page of rows that were never updated.
        let last = PAGES + OTHERS + (self.now_ms / SECOND / 8) as usize;
        changed.push(last.min(self.database.pages.len()));
        for page in changed {
            let rng = &mut self.database.rng;
            let old = self.database.pages.get(page).cloned();
            let mut bytes = old.unwrap_or_else(|| vec![0; PAGE]);
            let at = rng.random_range(0..480);
            rng.fill(&mut bytes[at..at + 20]);
            write(&mut self.database, page, bytes);
        }
        self.database.commit(1);
        // As a checkpoint does.
        let share = self.database.handle.reclaim_share(25, &|| Duration::ZERO);
        share.expect("reclaim");
        let step = self.step();
        assert!(matches!(step, Step::Shipped { .. }), "{step:?}");
    }

    fn step(&mut self) -> Step {
        let mut source = self.database.source();
        let step = self.shipper.step(&mut source, self.now_ms, &mut |_| true);
        step.expect("step")
    }

    fn rest(&mut self) {
        self.now_ms += 20 * SECOND;
        self.step();
    }

    /// Restores, compares, and returns requests and bytes.
    fn restored(&self, at: At, expected: &[Vec<u8>]) -> (u64, u64) {
        self.bucket.take();
        let (_, pages) = restored_from(&*self.bucket, at).expect("restore");
        assert!(pages == expected, "{at:?}: another state");
        sum(&self.bucket.take(), "")
    }
}

fn write(database: &mut Database, page: usize, bytes: Vec<u8>) {
    let at = (page * PAGE) as u64;
    database.handle.write_at(&bytes, at).expect("write");
    match database.pages.get_mut(page) {
        Some(old) => *old = bytes,
        None => database.pages.push(bytes),
    }
}

/// The figures are in docs/decisions/replication.md.
#[test]
fn an_hour_of_load_is_merged_seldom_and_restored_with_few_requests() {
    if !densite_testing::Effort::wanted().is_full() {
        return;
    }
    let disk = SimDisk::new(1);
    let mut load = Load::new(&disk);
    let (_, base) = sum(&load.bucket.take(), "PUT base");
    for second in 1..=3_600 {
        load.second();
        if second % 1_000 == 477 {
            load.states.insert(load.now_ms, load.database.pages.clone());
        }
    }
    load.rest();
    let counts = load.bucket.take();
    let (deltas, merged) = (sum(&counts, "PUT delta"), sum(&counts, "PUT compacted"));
    println!("base {base}; {counts:?}");
    let newest = load.restored(At::Newest, &load.database.pages);
    println!("newest: {newest:?}");
    for (now_ms, pages) in &load.states {
        let moment = load.restored(At::Time(*now_ms), pages);
        println!("{now_ms}: {moment:?}");
        assert!(moment.0 <= 140, "{now_ms}: {moment:?}");
    }
    // At most 1.3 times the bytes of the newest state, and few requests.
    for second in (7..=3_600).step_by(150) {
        restored_from(&*load.bucket, At::Time(second * SECOND)).expect("restore");
        let moment = sum(&load.bucket.take(), "");
        println!("{second}: {moment:?}");
        assert!(moment.1 * 10 <= newest.1 * 13, "{second}: {moment:?}");
        assert!(moment.0 <= 100, "{second}: {moment:?}");
    }
    assert_eq!(deltas.0, 3_600);
    assert_eq!(sum(&counts, "LIST"), (0, 0));
    assert!(merged.1 < 2 * deltas.1, "{merged:?} of {deltas:?}");
    assert!(newest.0 <= 8, "{newest:?}");
}
