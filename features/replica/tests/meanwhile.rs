//! A base is the state of one commit, however many commits are made while it is copied.

use crate::common::{Database, PAGE, Staged, Staging, bucket, quick, restored};
use densite_replica::{At, Shipper};
use densite_sim_disk::SimDisk;
use rand::RngExt;
use std::collections::BTreeMap;

/// A database that is written between any two reads of a copy.
struct Busy<'a> {
    database: &'a mut Database,
    /// The pages as of each commit.
    states: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Busy<'_> {
    fn write(&mut self) {
        for _ in 0..self.database.rng.random_range(1..6) {
            self.database.commit(20);
            let mark = self.database.handle.mark().expect("mark");
            let commit = mark.expect("a commit").commit();
            self.states.insert(commit, self.database.pages.clone());
        }
    }
}

impl Staged for Busy<'_> {
    fn database(&mut self) -> &mut Database {
        self.database
    }

    fn before_read(&mut self) {
        if self.states.len() < 200 {
            self.write();
        }
    }
}

#[test]
fn a_base_is_one_commit_while_others_write() {
    for seed in 0..3 {
        let mut database = Database::new(seed);
        // More than is read at once.
        for page in database.pages.len()..3000 {
            let mut bytes = vec![0; PAGE];
            database.rng.fill(&mut bytes[..]);
            let at = (page * PAGE) as u64;
            database.handle.write_at(&bytes, at).expect("write");
            database.pages.push(bytes);
        }
        database.commit(5);
        let disk = SimDisk::new(seed);
        let folder = bucket(&disk);
        let mut busy = Busy {
            database: &mut database,
            states: BTreeMap::new(),
        };
        busy.write();
        let begun = Shipper::begin(
            folder.clone(),
            &mut Staging(&mut busy),
            quick(),
            0,
            &mut |_| true,
        );
        drop(begun.expect("begin"));
        assert!(busy.states.len() > 20, "nothing was written meanwhile");
        let (done, pages) = restored(&folder, At::Newest).expect("restore");
        let expected = busy
            .states
            .get(&done.mark.commit())
            .expect("a known commit");
        assert!(pages == *expected, "seed {seed}: a mixture");
    }
}
