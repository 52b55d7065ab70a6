//! A rollback needs no space (rule S11): pages that are written back as they were get no frames.

use densite_disk::{OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use densite_store::{CodecChoice, Error, Handle, Options, Tuning};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

const PATH: &str = "/a.db";
const PAGE: usize = 1024;

/// The database: its pages as they were, and as the transaction leaves them.
struct Case {
    disk: SimDisk,
    options: Options,
    before: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
}

fn open(disk: &SimDisk, process: &str, options: &Options) -> Handle {
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    disk.sync_dir("/").expect("sync dir");
    Handle::open(Box::new(file), process, options.clone()).expect("open")
}

/// Text that compresses, or bytes that do not.
fn content(rng: &mut SmallRng, page: usize, raw: bool) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    if raw {
        rng.fill_bytes(&mut bytes);
    } else {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = b"alpha beta gamma delta "[(at + page) % 23];
        }
        bytes[rng.random_range(200..PAGE)] = rng.random();
        bytes[rng.random_range(200..PAGE)] = rng.random();
    }
    if page == 0 {
        // A database in a rollback mode with pages of this size.
        bytes[..16].copy_from_slice(b"SQLite format 3\0");
        bytes[16..21].copy_from_slice(&[4, 0, 1, 1, 0]);
        bytes[24..28].copy_from_slice(&rng.random::<[u8; 4]>());
    }
    bytes
}

fn put(handle: &mut Handle, page: usize, bytes: &[u8]) -> Result<(), Error> {
    handle.write_at(bytes, (page * PAGE) as u64)
}

fn holds(handle: &mut Handle, pages: &[Vec<u8>], what: &str) {
    assert_eq!(
        handle.len().expect("len"),
        (pages.len() * PAGE) as u64,
        "{what}"
    );
    for (page, bytes) in pages.iter().enumerate() {
        let mut got = vec![0; PAGE];
        let read = handle.read_at(&mut got, (page * PAGE) as u64);
        read.unwrap_or_else(|e| panic!("{what}: page {}: {e}", page + 1));
        assert!(got == *bytes, "{what}: page {}", page + 1);
    }
}

impl Case {
    /// A database after some commits, and a transaction that changes, adds or cuts pages.
    fn new(seed: u64) -> Case {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = SimDisk::new(seed);
        let options = Options {
            threads: 0,
            codec: [CodecChoice::Raw, CodecChoice::Auto, CodecChoice::Zstd][seed as usize % 3],
            tuning: match seed % 2 {
                0 => Tuning::default(),
                _ => Tuning::eager(),
            },
            ..Options::default()
        };
        let raw = seed % 4 < 2;
        let pages = [20, 300, 1000][seed as usize / 2 % 3];
        let mut before: Vec<Vec<u8>> = (0..pages).map(|p| content(&mut rng, p, raw)).collect();
        let mut handle = open(&disk, "first", &options);
        for round in 0..rng.random_range(1..6) {
            for (page, bytes) in before.iter_mut().enumerate() {
                if round == 0 || page == 0 || rng.random_bool(0.1) {
                    *bytes = content(&mut rng, page, raw);
                    put(&mut handle, page, bytes).expect("write");
                }
            }
            handle.sync(SyncKind::Data).expect("sync");
        }
        let share = [0.02, 0.5, 1.0][rng.random_range(0..3)];
        let mut after = before.clone();
        match rng.random_range(0..3) {
            0 => after.truncate(pages - pages / 3),
            1 => after.resize(pages + pages / 2, Vec::new()),
            _ => {}
        }
        for (page, bytes) in after.iter_mut().enumerate() {
            if page == 0 || bytes.is_empty() || rng.random_bool(share) {
                *bytes = content(&mut rng, page, raw);
            }
        }
        Case {
            disk,
            options,
            before,
            after,
        }
    }

    /// SQLite's writes that lead from one state to the other.
    fn write(&self, handle: &mut Handle, from: &[Vec<u8>], to: &[Vec<u8>]) -> Result<(), Error> {
        if to.len() < from.len() {
            handle.set_len((to.len() * PAGE) as u64)?;
        }
        for (page, bytes) in to.iter().enumerate() {
            if from.get(page) != Some(bytes) {
                put(handle, page, bytes)?;
            }
        }
        Ok(())
    }

    fn forth(&self, handle: &mut Handle) -> Result<(), Error> {
        self.write(handle, &self.before, &self.after)
    }

    fn back(&self, handle: &mut Handle) -> Result<(), Error> {
        self.write(handle, &self.after, &self.before)
    }

    fn is_full(&self) {
        self.disk.set_capacity(Some(self.disk.used()));
    }

    /// Nothing is lost and nothing is damaged, also after more commits.
    fn is_back(&self, what: &str) {
        self.disk.set_capacity(None);
        let mut handle = open(&self.disk, "last", &self.options);
        holds(&mut handle, &self.before, what);
        let sound = |handle: &mut Handle| {
            let report = handle.check(&mut |_, _| true).expect("check");
            assert_eq!((report.problems, report.cut), (vec![], None), "{what}");
        };
        sound(&mut handle);
        for _ in 0..3 {
            self.forth(&mut handle).expect("write");
            handle.sync(SyncKind::Data).expect("sync");
            self.back(&mut handle).expect("write");
            handle.sync(SyncKind::Data).expect("sync");
        }
        holds(&mut handle, &self.before, what);
        sound(&mut handle);
        handle.close_clean().expect("close");
        let mut handle = open(&self.disk.survivor(1), "after", &self.options);
        holds(&mut handle, &self.before, what);
        sound(&mut handle);
    }
}

const SEEDS: u64 = 60;

#[test]
fn a_published_transaction_is_rolled_back_without_space() {
    for seed in 0..SEEDS {
        for process in ["first", "another"] {
            let what = format!("seed {seed}, {process}");
            let case = Case::new(seed);
            let mut writer = open(&case.disk, "first", &case.options);
            case.forth(&mut writer).expect("write");
            writer.publish_undoable().expect("publish");
            if seed % 5 < 3 {
                writer.sync(SyncKind::Data).expect("sync");
            }
            case.is_full();
            let mut other = open(&case.disk, process, &case.options);
            case.back(&mut other)
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            let done = other.publish_undoable();
            done.unwrap_or_else(|e| panic!("{what}: {e}"));
            holds(&mut other, &case.before, &what);
            holds(&mut writer, &case.before, &what);
            case.is_back(&what);
        }
    }
}

#[test]
fn a_transaction_that_fills_the_disk_is_rolled_back_without_space() {
    let mut failed = 0;
    for seed in 0..SEEDS {
        let what = format!("seed {seed}");
        let case = Case::new(seed);
        let mut writer = open(&case.disk, "first", &case.options);
        let room = SmallRng::seed_from_u64(seed).random_range(0..300 << 10);
        case.disk.set_capacity(Some(case.disk.used() + room));
        let done = case
            .forth(&mut writer)
            .and_then(|()| writer.publish_undoable());
        if let Err(error) = done {
            assert!(matches!(error, Error::Full(_)), "{what}: {error}");
            failed += 1;
        }
        a_reader_reads(&case, &what);
        case.is_full();
        // Either the same transaction goes on, or another process finds the journal.
        let mut back = match seed % 3 {
            0 => {
                writer.discard();
                open(&case.disk, "another", &case.options)
            }
            _ => writer,
        };
        case.back(&mut back)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let done = back.publish_undoable();
        done.unwrap_or_else(|e| panic!("{what}: {e}"));
        holds(&mut back, &case.before, &what);
        case.is_back(&what);
    }
    assert!(failed > SEEDS / 6, "{failed} of {SEEDS} filled the disk");
}

/// A reader can read what is published, whatever that is.
fn a_reader_reads(case: &Case, what: &str) {
    let mut reader = open(&case.disk, "reader", &case.options);
    let len = reader.len().expect("len") as usize / PAGE;
    let state = match len == case.after.len() && len != case.before.len() {
        true => &case.after,
        false if len != case.before.len() => panic!("{what}: {len} pages"),
        false => {
            let mut first = vec![0; PAGE];
            reader.read_at(&mut first, 0).expect("read");
            match first == case.after[0] {
                true => &case.after,
                false => &case.before,
            }
        }
    };
    holds(&mut reader, state, what);
}

/// What a transaction appended that found no space is free for others again.
#[test]
fn a_transaction_that_filled_the_disk_gives_its_space_back() {
    let case = Case::new(4);
    let mut writer = open(&case.disk, "first", &case.options);
    let used = case.disk.used();
    case.disk.set_capacity(Some(used + (40 << 10)));
    let mut rng = SmallRng::seed_from_u64(9);
    let mut write = |page| put(&mut writer, page, &content(&mut rng, page, true));
    let error = (0..4000).find_map(|page| write(page).err());
    let error = error.or_else(|| writer.publish().err());
    assert!(matches!(error, Some(Error::Full(_))), "{error:?}");
    writer.discard();
    assert_eq!(case.disk.used(), used);
    case.is_back("after a full disk");
}
