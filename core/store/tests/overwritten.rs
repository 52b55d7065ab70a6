//! A file is overwritten in place with an earlier state of itself, or with a copy that continued
//! elsewhere. What was read before is never used for other contents with the same numbers. A file
//! that was not overwritten is never taken for one that was.

use densite_disk::{File, OpenMode, SyncKind};
use densite_sim_disk::{SimDisk, SimFile};
use densite_store::{Error, Handle, Options, ReclaimBudget, Tuning};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const PAGE: usize = 4096;
const PAGES: u64 = 60;
const REST: ReclaimBudget<'static> = ReclaimBudget {
    bytes: 1 << 20,
    dead_limit: 5,
    stop: &|| false,
};

fn file(disk: &SimDisk) -> SimFile {
    disk.open("/a.db", OpenMode::Create).expect("open")
}

/// A handle of the process with this name.
fn open(disk: &SimDisk, process: &str) -> Handle {
    let options = Options {
        threads: 0,
        tuning: Tuning::eager(),
        ..Options::default()
    };
    Handle::open(Box::new(file(disk)), process, options).expect("open")
}

/// Every page, by the number that it is filled with.
fn read(handle: &mut Handle) -> Result<Vec<u64>, Error> {
    let mut page = [0; PAGE];
    (0..PAGES)
        .map(|n| {
            handle.read_at(&mut page, n * PAGE as u64)?;
            let words = page.as_chunks().0;
            let first = u64::from_le_bytes(words[0]);
            assert!(words.iter().all(|w| u64::from_le_bytes(*w) == first));
            Ok(first)
        })
        .collect()
}

fn bytes_of(disk: &SimDisk) -> Vec<u8> {
    let file = file(disk);
    let mut bytes = vec![0; file.len().expect("length") as usize];
    file.read_at(&mut bytes, 0).expect("read");
    bytes
}

struct Site {
    disk: SimDisk,
    rng: SmallRng,
    writer: Handle,
    writers: u32,
    pages: Vec<u64>,
    /// The pages after each commit of this history.
    history: Vec<Vec<u64>>,
}

/// The bytes of a file, its pages and its history.
type Saved = (Vec<u8>, Vec<u64>, Vec<Vec<u64>>);

impl Site {
    fn new(seed: u64) -> Site {
        let disk = SimDisk::new(seed);
        let writer = open(&disk, "first writer");
        let mut site = Site {
            writer,
            disk,
            rng: SmallRng::seed_from_u64(seed),
            writers: 0,
            pages: vec![0; PAGES as usize],
            history: Vec::new(),
        };
        for page in 0..PAGES {
            site.put(page);
        }
        site.sync();
        site
    }

    fn sync(&mut self) {
        self.writer.sync(SyncKind::Data).expect("sync");
        self.history.push(self.pages.clone());
    }

    fn saved(&self) -> Saved {
        let bytes = bytes_of(&self.disk);
        (bytes, self.pages.clone(), self.history.clone())
    }

    fn put(&mut self, page: u64) {
        let number: u64 = self.rng.random();
        let bytes: Vec<u8> = number.to_le_bytes().repeat(PAGE / 8);
        self.writer
            .write_at(&bytes, page * PAGE as u64)
            .expect("write");
        self.pages[page as usize] = number;
    }

    fn commits(&mut self, most: u32) {
        for _ in 0..self.rng.random_range(0..most) {
            for _ in 0..self.rng.random_range(1..12) {
                let page = self.rng.random_range(0..PAGES);
                self.put(page);
            }
            self.sync();
            if self.rng.random_ratio(1, 8) {
                self.writer.reclaim(&REST).expect("reclaim");
            }
        }
    }

    fn overwrite(&mut self, (bytes, pages, history): &Saved) {
        let file = file(&self.disk);
        file.set_len(0).expect("cut");
        file.write_at(bytes, 0).expect("write");
        self.pages.clone_from(pages);
        self.history.clone_from(history);
        self.writers += 1;
        // It uses numbers of commits that were used before.
        self.writer = open(&self.disk, &format!("writer {}", self.writers));
    }
}

#[test]
fn replaced_contents_are_distinguished_from_new_commits() {
    let (mut told, mut unproved) = (0, 0);
    for seed in 0..60 {
        let mut site = Site::new(seed);
        let mut reader = open(&site.disk, "reader");
        let mut saved = vec![site.saved()];
        for round in 0..40 {
            let known = read(&mut reader).expect("reads");
            assert_eq!(known, site.pages);
            let doubts = reader.unproved();
            let is_overwritten = site.rng.random_ratio(1, 3);
            site.commits(6);
            if is_overwritten {
                let which = site.rng.random_range(0..saved.len());
                site.overwrite(&saved[which].clone());
                // After many commits the places of the earlier ones are reused, and nothing can be
                // proved.
                let most = [12, 12, 12, 120][site.rng.random_range(0..4)];
                site.commits(most);
            } else if site.rng.random_ratio(1, 3) {
                saved.push(site.saved());
            }
            let stands_on_known = site.history.contains(&known);
            match read(&mut reader) {
                Ok(pages) => {
                    assert_eq!(pages, site.pages, "seed {seed}, round {round}");
                    // A caller with its own cache of pages must learn that they may differ.
                    let is_unproved = reader.unproved() > doubts;
                    assert!(
                        stands_on_known || is_unproved,
                        "seed {seed}, round {round}: taken for the same contents"
                    );
                    unproved += i32::from(is_unproved && !stands_on_known);
                }
                Err(Error::Overwritten) if is_overwritten => {
                    told += 1;
                    // The old handle still exists, and its process knows the old contents.
                    let fresh = open(&site.disk, "reader");
                    let mut old = std::mem::replace(&mut reader, fresh);
                    assert!(matches!(read(&mut old), Err(Error::Overwritten)));
                }
                Err(e) => panic!("seed {seed}, round {round}: {e}"),
            }
        }
    }
    assert!(told > 300 && unproved >= 3, "{told}, {unproved}");
}

/// A reader returns after so long that the commits it knew cannot be followed any more, and
/// continues.
#[test]
fn a_long_pause_does_not_count_as_replaced_contents() {
    for seed in 0..10 {
        let mut site = Site::new(seed);
        let mut reader = open(&site.disk, "reader");
        for _ in 0..6 {
            assert_eq!(read(&mut reader).expect("reads"), site.pages);
            for _ in 0..30 {
                site.commits(20);
            }
        }
    }
}
