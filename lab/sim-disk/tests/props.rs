//! The simulated disk against a model, and a writer with a mistake that it must find.

use densite_disk::{Dir, File, OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Write { offset: usize, len: usize, byte: u8 },
    SetLen(usize),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3000usize, 1..1500usize, 1..=255u8)
            .prop_map(|(offset, len, byte)| Step::Write { offset, len, byte }),
        1 => (0..3000usize).prop_map(Step::SetLen),
        2 => Just(Step::Sync),
    ]
}

/// What is known about a file: its contents for processes, and what a cut can leave.
#[derive(Default)]
struct Model {
    data: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Step>,
}

impl Model {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Write { offset, len, byte } => {
                let end = offset + len;
                self.data.resize(self.data.len().max(end), 0);
                self.data[*offset..end].fill(*byte);
            }
            Step::SetLen(len) => self.data.resize(*len, 0),
            Step::Sync => {
                self.durable = self.data.clone();
                self.pending.clear();
                return;
            }
        }
        self.pending.push(step.clone());
    }

    /// Whether a cut can leave `byte` at `at`.
    fn may_hold(&self, at: usize, byte: u8) -> bool {
        let old = self.durable.get(at);
        let written = |s: &Step| match s {
            Step::Write {
                offset,
                len,
                byte: b,
            } => (*offset..offset + len).contains(&at) && *b == byte,
            _ => false,
        };
        // A byte that was cut off, or is in a gap, comes back as zero.
        let cut_off = self
            .pending
            .iter()
            .any(|s| matches!(s, Step::SetLen(n) if *n <= at));
        old == Some(&byte)
            || self.pending.iter().any(written)
            || (byte == 0 && (old.is_none() || cut_off))
    }

    fn len_bounds(&self) -> (usize, usize) {
        let (mut low, mut high) = (self.durable.len(), self.durable.len());
        for s in &self.pending {
            match s {
                Step::Write { offset, len, .. } => high = high.max(offset + len),
                Step::SetLen(n) => (low, high) = (low.min(*n), high.max(*n)),
                Step::Sync => {}
            }
        }
        (low, high)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Processes see every write. After a cut each byte is one that was durable, or one that an
    /// unsynced change could have left.
    #[test]
    fn every_surviving_byte_is_accounted_for(steps in prop::collection::vec(step(), 1..40), seed: u64) {
        let disk = SimDisk::new(0);
        disk.put_file("/f", b"");
        let file = disk.open("/f", OpenMode::Write).expect("open");
        let mut model = Model::default();
        for s in &steps {
            model.apply(s);
            match s {
                Step::Write { offset, len, byte } => {
                    file.write_at(&vec![*byte; *len], *offset as u64).expect("write");
                }
                Step::SetLen(len) => file.set_len(*len as u64).expect("set length"),
                Step::Sync => file.sync(SyncKind::Data).expect("sync"),
            }
            prop_assert_eq!(&disk.contents("/f").expect("file"), &model.data);
        }
        for seed in (0..12).map(|i| seed.wrapping_add(i)) {
            let after = disk.survivor(seed).contents("/f").expect("file");
            let (low, high) = model.len_bounds();
            prop_assert!((low..=high).contains(&after.len()), "length {} seed {seed}", after.len());
            for (at, byte) in after.iter().enumerate() {
                prop_assert!(model.may_hold(at, *byte), "byte {byte} at {at}, seed {seed}");
            }
        }
        // The extremes occur: some cut loses everything and some cut keeps everything.
        let seen: Vec<_> = (0..200).filter_map(|s| disk.survivor(s).contents("/f")).collect();
        prop_assert!(seen.contains(&model.durable));
        prop_assert!(seen.contains(&model.data));
    }

    /// Whatever is done with names, a cut leaves each name in a state that it once had.
    #[test]
    fn every_surviving_name_had_that_file(ops in prop::collection::vec((0..4u8, 0..3usize, 0..3usize), 1..25), seed: u64) {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        let disk = SimDisk::new(0);
        let dir = disk.dir("/d");
        // The contents of each name since the last directory sync.
        let mut history: Vec<Vec<Option<Vec<u8>>>> = vec![vec![None]; 3];
        for (i, (op, x, y)) in ops.into_iter().enumerate() {
            match op {
                0 => if let Ok(file) = dir.open(NAMES[x], OpenMode::CreateNew) {
                    file.write_at(&[i as u8], 0).expect("write");
                    file.sync(SyncKind::Data).expect("sync");
                },
                1 => { let _ = dir.remove(NAMES[x]); }
                2 => { let _ = dir.rename(NAMES[x], NAMES[y]); }
                _ => {
                    dir.sync().expect("sync");
                    history = vec![vec![]; 3];
                }
            }
            for (name, past) in NAMES.iter().zip(&mut history) {
                past.push(disk.contents(&format!("/d/{name}")));
            }
        }
        for seed in (0..20).map(|i| seed.wrapping_add(i)) {
            let after = disk.survivor(seed);
            for (name, past) in NAMES.iter().zip(&history) {
                let got = after.contents(&format!("/d/{name}"));
                prop_assert!(past.contains(&got), "{name} holds {got:?}, seed {seed}, past {past:?}");
            }
        }
    }
}

/// Writes records and then their number, and returns the number that it acknowledged.
///
/// The right writer syncs the records before it writes the number, and the number before it
/// acknowledges. The wrong ones leave out one of the two syncs.
fn append_records(file: &dyn File, sync_record: bool, sync_count: bool) -> u8 {
    let mut acknowledged = 0;
    for n in 1..=20u8 {
        let appended = (file.write_at(&[n; 700], 8 + u64::from(n - 1) * 700))
            .and_then(|()| {
                if sync_record {
                    file.sync(SyncKind::Data)
                } else {
                    Ok(())
                }
            })
            .and_then(|()| file.write_at(&[n], 0))
            .and_then(|()| {
                if sync_count {
                    file.sync(SyncKind::Data)
                } else {
                    Ok(())
                }
            });
        if appended.is_err() {
            break;
        }
        acknowledged = n;
    }
    acknowledged
}

/// Whether the file has all acknowledged records and all that it counts.
fn holds(bytes: &[u8], acknowledged: u8) -> bool {
    let count = bytes.first().copied().unwrap_or(0);
    count >= acknowledged
        && (1..=count).all(|n| {
            let at = 8 + (usize::from(n) - 1) * 700;
            bytes
                .get(at..at + 700)
                .is_some_and(|r| r.iter().all(|b| *b == n))
        })
}

/// The number of cuts of such a writer, at every call, that lost or mixed something.
fn mistakes(sync_record: bool, sync_count: bool) -> u32 {
    let mut found = 0;
    for cut in 1..=80 {
        let disk = SimDisk::new(0);
        disk.put_file("/f", &[0; 8]);
        let file = disk.open("/f", OpenMode::Write).expect("open");
        disk.cut_at_change(cut);
        let acknowledged = append_records(&file, sync_record, sync_count);
        for seed in 0..20 {
            let after = disk.survivor(seed).contents("/f").expect("file");
            found += u32::from(!holds(&after, acknowledged));
        }
    }
    found
}

/// A check of the tests themselves: a disk that never lost anything would let the wrong writers
/// pass.
#[test]
fn a_writer_that_does_not_sync_is_caught() {
    assert_eq!(mistakes(true, true), 0, "the right writer loses nothing");
    assert!(
        mistakes(true, false) > 10,
        "acknowledged before it was durable"
    );
    assert!(
        mistakes(false, true) > 10,
        "the number reached the disk before the record"
    );
    assert!(mistakes(false, false) > 10);
}
