//! A bucket that fails as a network does: a request is lost, or its answer is, or it lands later.
//! Two shippers take turns, restart, and take over from one another. Whatever happens, a restore
//! point that was acknowledged is restored as the state of its commit.

use crate::common::{Database, begin_from, bucket, quick, restored_from};
use densite_replica::{
    At, Bucket, Error, Folder, Listed, RemoteObject, Restored, Result, Shipper, Step, Stored,
    Upload,
};
use densite_sim_disk::SimDisk;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request that was sent and has not arrived yet.
type Late = Box<dyn FnOnce(&Folder) + Send>;

/// What becomes of a request.
enum Fate {
    Fine,
    /// It does not arrive.
    Lost,
    /// It arrives, and its answer does not.
    Unanswered,
    /// The sender gives it up, and it arrives later.
    Late,
}

/// A bucket behind a bad network.
struct Flaky {
    folder: Arc<Folder>,
    state: Mutex<(StdRng, Vec<Late>)>,
}

fn broken<T>() -> Result<T> {
    Err(Error::Bucket("the connection broke".to_owned()))
}

impl Flaky {
    fn fate(&self) -> Fate {
        let mut state = self.state.lock().expect("not poisoned");
        let (rng, late) = &mut *state;
        // Requests of an earlier time arrive between others.
        if !late.is_empty() && rng.random_ratio(1, 6) {
            let at = rng.random_range(0..late.len());
            late.swap_remove(at)(&self.folder);
        }
        match rng.random_range(0..40) {
            0 => Fate::Lost,
            1 => Fate::Unanswered,
            2 => Fate::Late,
            _ => Fate::Fine,
        }
    }

    fn put_off(&self, late: Late) {
        self.state.lock().expect("not poisoned").1.push(late);
    }

    /// All requests that are still under way arrive.
    fn settle(&self) {
        let late = std::mem::take(&mut self.state.lock().expect("not poisoned").1);
        for late in late {
            late(&self.folder);
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Folder) -> Result<T>) -> Result<T> {
        match self.fate() {
            Fate::Fine => read(&self.folder),
            _ => broken(),
        }
    }
}

impl Bucket for Flaky {
    fn get(&self, name: &str) -> Result<Option<Stored>> {
        self.read(|folder| folder.get(name))
    }

    fn get_end(&self, name: &str, len: u64) -> Result<Option<Stored>> {
        self.read(|folder| folder.get_end(name, len))
    }

    fn get_range(&self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        self.read(|folder| folder.get_range(name, offset, len))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Option<String>> {
        match self.fate() {
            Fate::Fine => self.folder.create(name, bytes),
            Fate::Lost => broken(),
            Fate::Unanswered => self.folder.create(name, bytes).and_then(|_| broken()),
            Fate::Late => {
                let (name, bytes) = (name.to_owned(), bytes.to_vec());
                self.put_off(Box::new(move |folder| {
                    folder.create(&name, &bytes).expect("arrives");
                }));
                broken()
            }
        }
    }

    fn replace(&self, name: &str, bytes: &[u8], version: &str) -> Result<Option<String>> {
        match self.fate() {
            Fate::Fine => self.folder.replace(name, bytes, version),
            Fate::Lost => broken(),
            Fate::Unanswered => {
                let replaced = self.folder.replace(name, bytes, version);
                replaced.and_then(|_| broken())
            }
            Fate::Late => {
                let (name, bytes) = (name.to_owned(), bytes.to_vec());
                let version = version.to_owned();
                self.put_off(Box::new(move |folder| {
                    folder.replace(&name, &bytes, &version).expect("arrives");
                }));
                broken()
            }
        }
    }

    fn upload(&self, name: &str, _: u64) -> Result<Box<dyn Upload + '_>> {
        match self.fate() {
            Fate::Lost => broken(),
            _ => Ok(Box::new(Parts {
                bucket: self,
                name: name.to_owned(),
                bytes: Vec::new(),
            })),
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.fate() {
            Fate::Lost => broken(),
            Fate::Unanswered => self.folder.remove(name).and_then(|()| broken()),
            _ => self.folder.remove(name),
        }
    }

    fn object(&self, name: &str, len: u64, end: u64) -> Result<Option<Arc<dyn RemoteObject>>> {
        self.read(|folder| folder.object(name, len, end))
    }

    fn list(&self, prefix: &str, after: &str) -> Result<Vec<Listed>> {
        self.read(|folder| folder.list(prefix, after))
    }
}

/// An upload in parts, of which the last request makes the object.
struct Parts<'a> {
    bucket: &'a Flaky,
    name: String,
    bytes: Vec<u8>,
}

fn upload(folder: &Folder, name: &str, bytes: &[u8]) -> Result<()> {
    let mut upload = folder.upload(name, bytes.len() as u64)?;
    upload.write(bytes)?;
    upload.finish()
}

impl Upload for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let Parts {
            bucket,
            name,
            bytes,
        } = *self;
        match bucket.fate() {
            Fate::Fine => upload(&bucket.folder, &name, &bytes),
            Fate::Lost => broken(),
            Fate::Unanswered => upload(&bucket.folder, &name, &bytes).and_then(|()| broken()),
            Fate::Late => {
                bucket.put_off(Box::new(move |folder| {
                    upload(folder, &name, &bytes).expect("arrives");
                }));
                broken()
            }
        }
    }
}

#[track_caller]
fn restored(seed: u64, folder: &Folder, at: At) -> (Restored, Vec<Vec<u8>>) {
    restored_from(folder, at).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
}

/// Returns how many restore points were acknowledged, and how often a shipper was stopped for good.
fn history(seed: u64) -> (u64, u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut database = Database::new(seed);
    let flaky = Arc::new(Flaky {
        folder: bucket(&SimDisk::new(seed)),
        state: Mutex::new((StdRng::seed_from_u64(seed + 1000), Vec::new())),
    });
    let shared: Arc<dyn Bucket> = flaky.clone();
    let owner = database.owner.clone();
    let mut options = quick();
    if seed.is_multiple_of(3) {
        options.base_every = Duration::from_secs(30);
    }
    let mut shippers: [Option<Shipper>; 2] = [None, None];
    let mut states = BTreeMap::new();
    // Of acknowledged restore points: the commit by the time.
    let mut acknowledged: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut now_ms, mut stopped) = (1_000_000, 0);
    for _ in 0..150 {
        now_ms += rng.random_range(1..4000);
        match rng.random_range(0..12) {
            0 => now_ms += 20_000,
            1 => shippers[rng.random_range(0..2usize)] = None,
            _ => database.commit(5),
        }
        let mark = database.handle.mark().expect("mark").expect("a commit");
        states.insert(mark.commit(), database.pages.clone());
        let slot = &mut shippers[rng.random_range(0..2usize)];
        let done = match slot {
            Some(shipper) => shipper.step(&mut database.source(), now_ms, &mut |_| true),
            None => {
                options.takeover = rng.random_ratio(1, 4);
                let source = &mut database.source();
                let begun = begin_from(&shared, source, &options, &owner, now_ms);
                begun.map(|shipper| {
                    *slot = Some(shipper);
                    Step::Idle
                })
            }
        };
        match done {
            Ok(Step::Shipped { .. }) => {
                let shipper = slot.as_ref().expect("a shipper");
                let (_, mark, time_ms) = shipper.position();
                acknowledged.insert(time_ms, mark.commit());
            }
            Ok(_) | Err(Error::Bucket(_)) => {}
            Err(
                Error::AnotherWriter { .. }
                | Error::TakenOver
                | Error::NotAtomic
                | Error::Gap { .. },
            ) => {
                *slot = None;
                stopped += 1;
            }
            Err(e) => panic!("seed {seed}: {e}"),
        }
        if let Some((_, commit)) = acknowledged.last_key_value() {
            let (found, pages) = restored(seed, &flaky.folder, At::Newest);
            assert!(found.mark.commit() >= *commit, "seed {seed}: a loss");
            assert!(pages == states[&found.mark.commit()], "seed {seed}");
        }
    }
    flaky.settle();
    for (time_ms, commit) in &acknowledged {
        let at = At::Time(*time_ms);
        let (found, pages) = restored(seed, &flaky.folder, at);
        assert!(found.mark.commit() >= *commit, "seed {seed}, {time_ms}");
        assert!(pages == states[&found.mark.commit()], "seed {seed}");
    }
    (acknowledged.len() as u64, stopped)
}

#[test]
fn lost_and_late_requests_lose_nothing_that_was_acknowledged() {
    let counts: Vec<_> = (0..40).map(history).collect();
    let acknowledged: u64 = counts.iter().map(|(acknowledged, _)| acknowledged).sum();
    let stopped: u64 = counts.iter().map(|(_, stopped)| stopped).sum();
    assert!(acknowledged > 1000 && stopped > 20, "{counts:?}");
}

/// A part of `make crash`.
#[test]
#[ignore = "takes DENSITE_MINUTES"]
fn long_crash_replica_network() {
    densite_testing::long_run("acknowledged restore points", |seed| history(seed).0);
}
