//! Space reclamation under real SQLite: inserts, deletes, drops, rollbacks, savepoints, snapshots,
//! checkpoints, closes, `densite_maintain`, kills and power cuts, in any order, with
//! secure_delete=OFF.
//!
//! After each step the content is that of a model (after a crash, that of an allowed state), open
//! snapshots are unchanged, and the store's own check finds no problem. After `densite_maintain` no
//! free page has a frame, and few bytes are dead. `DENSITE_SEED=n` runs only one seed.

mod changes;
mod run;
mod step_crash;

use std::collections::BTreeMap;
use std::ffi::CString;

use densite_sim_disk::SimDisk;
use densite_tests::procs::subject;
use densite_tests::simvfs::SimVfs;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use self::changes::Model;
use self::run::Run;

const STEPS: usize = 60;

/// The states that are allowed after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durable {
    /// The newest one.
    Last,
    /// The newest one or the one before it: the removal of its journal was not synced.
    LastTwo,
    /// Any state since the database was opened.
    Any,
}

struct Kind {
    journal: &'static str,
    synchronous: &'static str,
    durable: Durable,
}

const KINDS: [Kind; 6] = [
    Kind {
        journal: "DELETE",
        synchronous: "FULL",
        durable: Durable::LastTwo,
    },
    Kind {
        journal: "DELETE",
        synchronous: "EXTRA",
        durable: Durable::Last,
    },
    Kind {
        journal: "TRUNCATE",
        synchronous: "FULL",
        durable: Durable::LastTwo,
    },
    Kind {
        journal: "PERSIST",
        synchronous: "FULL",
        durable: Durable::LastTwo,
    },
    Kind {
        journal: "WAL",
        synchronous: "FULL",
        durable: Durable::Last,
    },
    Kind {
        journal: "WAL",
        synchronous: "NORMAL",
        durable: Durable::Any,
    },
];

fn run(kind: &Kind, seed: u64, tally: &mut BTreeMap<&'static str, u32>) {
    let name = format!("space-{}-{}-{seed}", kind.journal, kind.synchronous);
    let host = SimVfs::register(&format!("host-{name}"), SimDisk::new(seed));
    let vfs = CString::new(name.clone()).expect("no zero");
    let below = CString::new(host.name()).expect("no zero");
    densite_vfs::register(subject::api(), &vfs, Some(&below), false).expect("registers");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut run = Run {
        host: &host,
        vfs: &name,
        kind,
        uri: ["threads=0", "threads=0&x_tuning=eager"][rng.random_range(0..2usize)],
        page_size: [4096, 4096, 8192][rng.random_range(0..3usize)],
        auto_vacuum: [0, 0, 1, 2][rng.random_range(0..4usize)],
        rng,
        db: None,
        reader: None,
        states: vec![Model::new()],
        tally,
    };
    for step in 0..STEPS {
        let crash = run.rng.random_range(0..8) == 0;
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if crash {
                run.crash();
            } else {
                run.step().expect("a step on a disk that works");
            }
            run.compare();
        }));
        if let Err(payload) = done {
            eprintln!(
                "DENSITE_SEED={seed}: {} {} page size {} auto_vacuum {} {}, step {step}",
                kind.journal, kind.synchronous, run.page_size, run.auto_vacuum, run.uri
            );
            std::panic::resume_unwind(payload);
        }
    }
}

fn runs(kind: &Kind) {
    let mut tally = BTreeMap::new();
    let seeds = densite_testing::seeds(6);
    for seed in seeds.clone() {
        run(kind, seed, &mut tally);
    }
    println!("{} {}: {tally:?}", kind.journal, kind.synchronous);
    if seeds.end - seeds.start >= 12 {
        for what in [
            "commits",
            "rollbacks",
            "snapshots",
            "at rest",
            "closes",
            "kills",
            "power cuts",
        ] {
            assert!(
                tally.get(what).is_some_and(|n| *n >= 5),
                "{what}: {tally:?}"
            );
        }
    }
}

#[test]
fn delete_full() {
    runs(&KINDS[0]);
}

#[test]
fn delete_extra() {
    runs(&KINDS[1]);
}

#[test]
fn truncate_full() {
    runs(&KINDS[2]);
}

#[test]
fn persist_full() {
    runs(&KINDS[3]);
}

#[test]
fn wal_full() {
    runs(&KINDS[4]);
}

#[test]
fn wal_normal() {
    runs(&KINDS[5]);
}
