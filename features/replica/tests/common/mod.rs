//! A database file written by the store, the state of each of its restore points, and a bucket in a
//! directory of another simulated disk.

use densite_disk::{File, OpenMode, SyncKind};
use densite_log::Image;
use densite_replica::{
    At, Bucket, Folder, HandleSource, Restore, Restored, Shipper, ShipperOptions, Source, Step,
};
use densite_sim_disk::SimDisk;
use densite_store::{CodecChoice, CommitId, Handle, Options as StoreOptions, Written};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const PAGE: usize = 4096;
/// The path of the database.
pub(crate) const DB: &str = "/a.db";

/// A database, and what it contains.
pub(crate) struct Database {
    pub(crate) disk: SimDisk,
    pub(crate) handle: Handle,
    pub(crate) pages: Vec<Vec<u8>>,
    pub(crate) rng: StdRng,
    /// Which copy it is.
    pub(crate) owner: String,
}

fn options() -> StoreOptions {
    StoreOptions {
        threads: 0,
        level: 1,
        codec: CodecChoice::Auto,
        ..StoreOptions::default()
    }
}

/// Opens the store in a file of a simulated disk.
pub(crate) fn open(disk: &SimDisk, path: &str) -> Handle {
    let file = disk.open(path, OpenMode::Create).expect("open");
    Handle::open(Box::new(file), path, options()).expect("open the store")
}

impl Database {
    pub(crate) fn new(seed: u64) -> Database {
        let disk = SimDisk::new(seed);
        let mut database = Database {
            handle: open(&disk, DB),
            disk,
            pages: Vec::new(),
            rng: StdRng::seed_from_u64(seed),
            owner: format!("copy {seed}"),
        };
        database.commit(20);
        database
    }

    /// Writes up to so many pages, publishes and syncs.
    pub(crate) fn commit(&mut self, most: usize) {
        for _ in 0..self.rng.random_range(1..=most) {
            let page = self.rng.random_range(0..(self.pages.len() + 2).min(400));
            let page = page.min(self.pages.len());
            let mut bytes = vec![0; PAGE];
            let random = self.rng.random_range(0..PAGE);
            self.rng.fill(&mut bytes[..random]);
            let at = (page * PAGE) as u64;
            self.handle.write_at(&bytes, at).expect("write");
            match self.pages.get_mut(page) {
                Some(old) => *old = bytes,
                None => self.pages.push(bytes),
            }
        }
        self.publish();
    }

    /// Cuts pages off.
    pub(crate) fn shrink(&mut self) {
        let kept = self.rng.random_range(1..=self.pages.len());
        self.pages.truncate(kept);
        self.handle.set_len((kept * PAGE) as u64).expect("cut");
        self.publish();
    }

    fn publish(&mut self) {
        self.handle.publish().expect("publish");
        self.handle.sync(SyncKind::Full).expect("sync");
    }

    /// The database as a source.
    pub(crate) fn source(&mut self) -> HandleSource<'_> {
        HandleSource(&mut self.handle)
    }
}

/// A database of a test that has something else to do in some calls of its source.
pub(crate) trait Staged {
    fn database(&mut self) -> &mut Database;

    fn restore_point(&mut self) -> densite_replica::Result<Option<CommitId>> {
        self.database().source().restore_point()
    }

    fn take_log(&mut self) -> Option<Image> {
        None
    }

    /// Is called before bytes are read.
    fn before_read(&mut self) {}
}

/// The source of such a database.
pub(crate) struct Staging<'a, T>(pub(crate) &'a mut T);

impl<T: Staged> Source for Staging<'_, T> {
    fn restore_point(&mut self) -> densite_replica::Result<Option<CommitId>> {
        self.0.restore_point()
    }

    fn take_log(&mut self) -> Option<Image> {
        self.0.take_log()
    }

    fn newest(&mut self) -> densite_replica::Result<Option<CommitId>> {
        self.0.database().source().newest()
    }

    fn written(&mut self, from: &CommitId, to: &CommitId) -> densite_replica::Result<Written> {
        self.0.database().source().written(from, to)
    }

    fn image_len(&mut self, mark: &CommitId) -> densite_replica::Result<Option<u64>> {
        self.0.database().source().image_len(mark)
    }

    fn read(&mut self, buf: &mut [u8], offset: u64) -> densite_replica::Result<usize> {
        self.0.before_read();
        self.0.database().source().read(buf, offset)
    }

    fn check_stored(&mut self, first: u32) -> densite_replica::Result<Option<u32>> {
        self.0.database().source().check_stored(first)
    }

    fn first_places(&mut self, most: u64) -> densite_replica::Result<Vec<(u64, u64)>> {
        self.0.database().source().first_places(most)
    }

    fn is_kept(&mut self, mark: &CommitId) -> densite_replica::Result<bool> {
        self.0.database().source().is_kept(mark)
    }
}

/// ShipperOptions with short times.
pub(crate) fn quick() -> ShipperOptions {
    ShipperOptions {
        rest: Duration::from_secs(10),
        ..ShipperOptions::default()
    }
}

/// A bucket that can be written.
pub(crate) fn bucket(disk: &SimDisk) -> Arc<Folder> {
    let folder = Folder::writer(Box::new(disk.dir("/bucket")));
    Arc::new(folder.expect("a bucket"))
}

/// A bucket that is only read.
pub(crate) fn reader(disk: &SimDisk) -> Folder {
    Folder::reader(Box::new(disk.dir("/bucket")))
}

/// Removes the object whose name has this, and returns its path and bytes.
pub(crate) fn lose(disk: &SimDisk, end: &str) -> (String, Vec<u8>) {
    let path = disk.paths().into_iter().find(|path| path.contains(end));
    let path = path.unwrap_or_else(|| panic!("no object {end}"));
    let bytes = disk.contents(&path).expect("contents");
    disk.remove(&path).expect("remove");
    (path, bytes)
}

/// Commits and ships so many times, each a second after the one before.
pub(crate) fn ship(database: &mut Database, shipper: &mut Shipper, times: u64, now_ms: &mut u64) {
    for _ in 0..times {
        database.commit(3);
        *now_ms += 1000;
        let step = shipper.step(&mut database.source(), *now_ms, &mut |_| true);
        assert!(matches!(step, Ok(Step::Shipped { .. })), "{step:?}");
    }
}

/// Begins or continues shipping.
pub(crate) fn begin(
    bucket: &Arc<Folder>,
    database: &mut Database,
    options: &ShipperOptions,
    now_ms: u64,
) -> densite_replica::Result<Shipper> {
    let owner = database.owner.clone();
    let bucket: Arc<dyn Bucket> = bucket.clone();
    begin_from(&bucket, &mut database.source(), options, &owner, now_ms)
}

/// The same for any source, as the copy of this owner.
pub(crate) fn begin_from(
    bucket: &Arc<dyn Bucket>,
    source: &mut dyn Source,
    options: &ShipperOptions,
    owner: &str,
    now_ms: u64,
) -> densite_replica::Result<Shipper> {
    let options = ShipperOptions {
        owner: owner.to_owned(),
        ..options.clone()
    };
    Shipper::begin(bucket.clone(), source, options, now_ms, &mut |_| true)
}

/// Restores, and returns the pages of the database.
pub(crate) fn restored(
    bucket: &Folder,
    at: At,
) -> densite_replica::Result<(Restored, Vec<Vec<u8>>)> {
    restored_to(&SimDisk::new(0), bucket, at)
}

/// The same from any bucket.
pub(crate) fn restored_from(
    bucket: &dyn Bucket,
    at: At,
) -> densite_replica::Result<(Restored, Vec<Vec<u8>>)> {
    restored_to(&SimDisk::new(0), bucket, at)
}

/// Restores to `/r.db` of a disk, with the log in `/r.db-log`.
pub(crate) fn restored_to(
    disk: &SimDisk,
    bucket: &dyn Bucket,
    at: At,
) -> densite_replica::Result<(Restored, Vec<Vec<u8>>)> {
    let file = disk.open("/r.db", OpenMode::Create).expect("create");
    let log = disk.dir("/r.db-log");
    let done = Restore::find(bucket, at)?.write(&file as &dyn File, &log, &mut |_, _| true)?;
    drop(file);
    let mut handle = open(disk, "/r.db");
    let found = handle.check(&mut |_, _| true).expect("check");
    assert!(found.problems.is_empty() && found.clean, "{found:?}");
    assert_eq!(found.cut, None);
    let len = usize::try_from(handle.len().expect("length")).expect("small");
    let mut bytes = vec![0; len];
    assert_eq!(handle.read_at(&mut bytes, 0).expect("read"), len);
    let pages = bytes.chunks(PAGE).map(<[u8]>::to_vec).collect();
    // It can be written, too.
    handle.write_at(&[7; PAGE], 0).expect("write");
    handle.publish().expect("publish");
    handle.sync(SyncKind::Full).expect("sync");
    Ok((done, pages))
}
