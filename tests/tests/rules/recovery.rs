//! Rules S8 to S10 and S12: recovery, space and dictionary numbers.

use std::collections::{BTreeMap, BTreeSet};

use densite_disk::hash::xxh3_64_with_seed;
use densite_disk::{File, OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use densite_store::{CodecChoice, Error, Handle};
use densite_tests::procs::subject::{READ_WRITE, api};
use densite_tests::procs::{Subject, store};
use densite_tests::simvfs::SimVfs;
use rusqlite::{Connection, OpenFlags};

use super::memory::Memory;
use super::{PAGE, Place, handle, make_table, page, raw, read_all, write_all};

/// The place of the tip in the file (docs/FORMAT.md).
const TIP: std::ops::Range<usize> = 12288..12336;
/// Length of a record's header (docs/FORMAT.md).
const RECORD_LEN: usize = 30;

/// The file after each of three commits of `pages` pages. Each commit begins where the one before
/// ended.
fn three_commits(pages: u32) -> (Memory, [Vec<u8>; 3]) {
    let file = Memory::default();
    let mut writer = handle(file.clone(), "w", raw());
    let mut after = |mark| {
        write_all(&mut writer, pages, mark);
        writer.publish().expect("publish");
        file.bytes()
    };
    let states = [after(1), after(2), after(3)];
    drop(writer);
    (file, states)
}

/// Opens bytes as after a power cut. Returns the mark of all pages, and the description of what was
/// cut off.
fn recover(bytes: Vec<u8>, pages: u32) -> (u32, Option<String>) {
    let mut reader = handle(Memory::new(bytes), "r", raw());
    let mark = read_all(&mut reader, pages);
    let report = reader.check(&mut |_, _| true).expect("check");
    assert_eq!(report.problems, vec![]);
    (mark, report.cut)
}

/// The offset of a page's bytes as they were written.
fn place_of(bytes: &[u8], number: u32, mark: u32) -> usize {
    let needle = page(number, mark, PAGE);
    bytes
        .windows(PAGE)
        .position(|w| w == needle)
        .expect("a raw page")
}

/// Rule S8: "A trailer covers the checksums of all its pieces; recovery verifies every frame past
/// the slot."
///
/// All of the third commit survived a power cut except one sector of one frame.
/// Take out: the checksum in `chain::next_commit` (use `Record::parse` instead of `Record::open`).
#[test]
fn rule_08_recovery_verifies_every_frame() {
    const PAGES: u32 = 6;
    let (_, [_, _, third]) = three_commits(PAGES);
    assert_eq!(recover(third.clone(), PAGES), (3, None));
    for number in 1..=PAGES {
        let mut torn = third.clone();
        let at = place_of(&torn, number, 3).next_multiple_of(512);
        torn[at..at + 512].fill(0);
        let (mark, cut) = recover(torn, PAGES);
        assert_eq!(mark, 2, "page {number}");
        assert!(cut.is_some(), "page {number}: the cut is not told");
    }
}

/// Rule S8: "Trailers chain by hash, with a random epoch for each recovery, so that no stale
/// trailer behind a torn tail can be taken for the next one."
///
/// A power cut removes the second commit and the tip, and leaves the third commit at its place. The
/// next writer makes a commit of the same length, even with the same contents and number. Then a
/// second power cut loses the tip.
/// Take out: `chain.finish(fields) == hash` and `trailer.prev == *prev` in `chain::next_commit`;
/// for equal contents it is enough to make `Writer::epoch` 0 everywhere.
#[test]
fn rule_08_a_stale_trailer_is_not_the_next_one() {
    const PAGES: u32 = 6;
    let (_, [first, second, third]) = three_commits(PAGES);
    let mut chained = third.clone();
    chained[TIP].fill(0);
    assert_eq!(
        recover(chained, PAGES).0,
        3,
        "without a tip, what is whole counts"
    );
    for mark in [2, 20] {
        // The second commit is lost, and the third one is after the hole. The reserve of zeros is
        // not part of a commit.
        let end_of_first = place_of(&second, 1, 2) - RECORD_LEN;
        let end_of_second = place_of(&third, 1, 3) - RECORD_LEN;
        let mut cut = third.clone();
        cut[..end_of_first].copy_from_slice(&first[..end_of_first]);
        cut[end_of_first..end_of_second].fill(0);
        cut[TIP].fill(0);
        let file = Memory::new(cut);
        let mut writer = handle(file.clone(), "w2", raw());
        assert_eq!(read_all(&mut writer, PAGES), 1);
        write_all(&mut writer, PAGES, mark);
        writer.publish().expect("publish");
        drop(writer);
        let mut bytes = file.bytes();
        assert_eq!(
            place_of(&bytes, 1, 3) - RECORD_LEN,
            end_of_second,
            "the stale commit is still there"
        );
        bytes[TIP].fill(0);
        let (now, _) = recover(bytes, PAGES);
        assert_eq!(now, mark, "a commit of an earlier life came back");
    }
}

/// Rule S9: "Nothing that a durable slot reaches, and nothing written since it, is reused before a
/// newer slot is durable."
///
/// A database is written repeatedly and synced at times. After power cuts at many moments there is
/// a complete state that is not older than the newest synced one.
/// Take out: the comparison with the commit in `Space::slot_durable` (`freed_at <= commit`), or
/// call it without a sync in between.
#[test]
fn rule_09_units_that_a_durable_slot_reaches_are_not_reused() {
    const PAGES: u32 = 48;
    let disk = SimDisk::new(9);
    let file = disk.open("/app.db", OpenMode::Create).expect("open");
    disk.sync_dir("/").expect("sync");
    let mut writer = handle(file, "w", raw());
    let mut durable = 0;
    let mut longest = 0;
    for mark in 1..=260u32 {
        write_all(&mut writer, PAGES, mark);
        // Phases with many commits between two syncs alternate with phases of one.
        if mark % 60 < 30 && mark % 7 != 0 {
            writer.publish().expect("publish");
        } else {
            writer.sync(SyncKind::Data).expect("sync");
            durable = mark;
        }
        if mark % 3 == 0 && durable > 0 {
            for seed in 0..2 {
                let survivor = disk.survivor(u64::from(mark) << 8 | seed);
                let file = survivor.open("/app.db", OpenMode::Write).expect("open");
                let mut reader = handle(file, &format!("r{mark} {seed}"), raw());
                let found = read_all(&mut reader, PAGES);
                assert!(
                    (durable..=mark).contains(&found),
                    "{found} survived of {durable} to {mark}"
                );
                let report = reader.check(&mut |_, _| true).expect("check");
                assert_eq!(report.problems, vec![], "after {mark}, seed {seed}");
            }
        }
        longest = disk.contents("/app.db").map_or(0, |b| b.len());
    }
    // The test needs reuse: without it the file would hold all 260 states.
    let all = 260 * PAGES as usize * PAGE;
    assert!(longest < all / 2, "nothing was reused: {longest} of {all}");
}

/// Rule S9: "The store syncs a slot by itself every so many megabytes, so that synchronous=OFF or
/// endless partial checkpoints do not stop reuse."
///
/// Take out: `self.sync_and_name` in `Handle::try_publish`.
#[test]
fn rule_09_writing_without_syncs_does_not_grow_without_limit() {
    const PAGES: u32 = 256;
    let file = Memory::default();
    let mut writer = handle(file.clone(), "w", raw());
    for mark in 1..=120 {
        write_all(&mut writer, PAGES, mark);
        writer.publish().expect("publish");
    }
    assert_eq!(read_all(&mut writer, PAGES), 120);
    let (len, written) = (
        file.len().expect("len"),
        120 * u64::from(PAGES) * PAGE as u64,
    );
    assert!(len < written / 2, "{len} bytes after writing {written}");
}

/// Rule S10: "The last close makes a slot durable that names the tip."
///
/// Commits without a sync are present after a clean close and a power cut.
/// Take out: the sync in `Handle::close_clean`.
#[test]
fn rule_10_a_clean_close_is_durable() {
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        let file = disk.open("/app.db", OpenMode::Create).expect("open");
        disk.sync_dir("/").expect("sync");
        let mut writer = handle(file, "w", raw());
        for mark in 1..=4 {
            write_all(&mut writer, 20, mark);
            writer.publish().expect("publish");
        }
        writer.close_clean().expect("close");
        drop(writer);
        let disk = disk.power_cut(seed);
        let mut reader = handle(
            disk.open("/app.db", OpenMode::Write).expect("open"),
            "r",
            raw(),
        );
        assert_eq!(read_all(&mut reader, 20), 4, "seed {seed}");
        let report = reader.check(&mut |_, _| true).expect("check");
        assert_eq!((report.problems, report.cut), (vec![], None), "seed {seed}");
    }
}

/// Rule S10 under SQLite: in every mode the last close leaves a file that is marked as closed
/// cleanly.
///
/// Take out: `close_clean_alone` in `MainFile::close_file` (rollback modes), `close_clean` in
/// `MainFile::give_lock` (WAL).
#[test]
fn rule_10_the_last_close_names_the_tip() {
    for settings in [
        "PRAGMA journal_mode=DELETE",
        "PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF",
        "PRAGMA journal_mode=PERSIST",
        "PRAGMA journal_mode=MEMORY",
        "PRAGMA journal_mode=OFF",
        "PRAGMA journal_mode=WAL",
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF",
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL",
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=DELETE; PRAGMA synchronous=OFF",
    ] {
        let place = Place::new();
        make_table(&place.db(), "DELETE");
        let (first, second) = (
            Subject::Densite.open(&place.db()),
            Subject::Densite.open(&place.db()),
        );
        let (first, second) = (first.expect("open"), second.expect("open"));
        first
            .execute_batch(&format!("{settings}; UPDATE t SET v = 1 WHERE id < 30"))
            .expect("write");
        if !settings.contains("EXCLUSIVE") {
            second
                .execute_batch(&format!("{settings}; UPDATE t SET v = 2 WHERE id < 20"))
                .expect("write");
        }
        for db in [first, second] {
            db.close().map_err(|(_, e)| e).expect("close");
        }
        let report = store::check(&place.db());
        assert_eq!((report.problems, report.cut), (vec![], None), "{settings}");
        assert!(report.clean, "{settings}: no slot names the tip");
    }
}

/// Rule S10: "Ending before a proven tip is damage and reported".
///
/// The end of a cleanly closed file is missing or overwritten. It must never silently give an
/// earlier state.
/// Take out: the error of `load_back` in `find_in` (continue from the older slot instead).
#[test]
fn rule_10_an_end_before_a_proven_tip_is_damage() {
    let (file, _) = three_commits(6);
    let mut writer = handle(file.clone(), "w2", raw());
    writer.close_clean().expect("close");
    // This handle has published nothing, but its close must name the tip all the same.
    write_all(&mut writer, 6, 4);
    writer.close_clean().expect("close");
    drop(writer);
    let whole = file.bytes();
    assert_eq!(recover(whole.clone(), 6), (4, None));
    let end = whole.len();
    for missing in [1, 100, 600, 5000, 20_000, end - 17_000] {
        for zeros in [false, true] {
            let mut bytes = whole[..end - missing].to_vec();
            bytes.resize(if zeros { end } else { end - missing }, 0);
            // Checksums can end with a zero byte.
            if bytes == whole {
                continue;
            }
            let what = format!("{missing} bytes missing, zeros {zeros}");
            match Handle::open(Box::new(Memory::new(bytes)), &what, raw()) {
                Err(Error::Corrupt(damage)) => assert!(damage.offset > 0, "{what}: {damage}"),
                Err(e) => panic!("{what}: {e}"),
                Ok(mut handle) => {
                    let report = handle.check(&mut |_, _| true).expect("check");
                    assert!(!report.problems.is_empty(), "{what}: not a word");
                }
            }
        }
    }
}

/// Rule S10: "in a file that was not closed, the state is exactly an earlier published one, never a
/// mixture, and `check` reports the cut. Recovery only reads; the next writer overwrites the torn
/// tail."
///
/// The file ends at every possible place after the durable part.
/// Take out: `cut` in `find_in` (report nothing).
#[test]
fn rule_10_a_file_that_was_not_closed_holds_an_earlier_state() {
    const PAGES: u32 = 5;
    let (_, [first, _, third]) = three_commits(PAGES);
    let from = place_of(&first, PAGES, 1) + PAGE;
    let mut seen = BTreeSet::new();
    for end in (from..third.len()).step_by(97) {
        let file = Memory::new(third[..end].to_vec());
        let mut reader = handle(file.clone(), &format!("r{end}"), raw());
        if reader.len().expect("len") == 0 {
            seen.insert(0);
            continue;
        }
        let mark = read_all(&mut reader, PAGES);
        let report = reader.check(&mut |_, _| true).expect("check");
        assert_eq!(report.problems, vec![], "end {end}");
        assert_eq!(
            report.cut.is_some(),
            mark != 3,
            "end {end}, mark {mark}: {:?}",
            report.cut
        );
        assert!(file.bytes() == third[..end], "recovery wrote");
        seen.insert(mark);
        // The next writer continues from there.
        write_all(&mut reader, PAGES, 50);
        reader.close_clean().expect("close");
        assert_eq!(recover(file.bytes(), PAGES), (50, None), "end {end}");
    }
    assert!(seen.is_superset(&BTreeSet::from([1, 2, 3])), "{seen:?}");
}

/// The dictionaries in a file, used or not: for each number, the hashes of its contents. The record
/// of a dictionary has a header of 30 bytes. The first byte is 3, with the codec (2 or 3) in the
/// bits above it, and the second byte is 0; then number, length, 0, version, 0, checksum
/// (docs/FORMAT.md).
fn dictionaries(bytes: &[u8]) -> BTreeMap<u32, BTreeSet<u64>> {
    let word = |at: usize| {
        bytes
            .get(at..at + 4)
            .map_or(0, |b| u32::from_le_bytes(b.try_into().expect("4 bytes")))
    };
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let salt = long(24);
    let mut found: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for at in 16384..bytes.len().saturating_sub(RECORD_LEN) {
        let len = (word(at + 6) & 0xFF_FFFF) as usize;
        let begins = [[3 | 2 << 3, 0], [3 | 3 << 3, 0]].contains(&[bytes[at], bytes[at + 1]]);
        if !begins || len == 0 || word(at + 9) & 0xFF_FFFF != 0 || word(at + 18) != 0 {
            continue;
        }
        let Some(payload) = bytes.get(at + RECORD_LEN..at + RECORD_LEN + len) else {
            continue;
        };
        let seed = xxh3_64_with_seed(&bytes[at..at + 22], salt ^ at as u64);
        if xxh3_64_with_seed(payload, seed) == long(at + 22) {
            found
                .entry(word(at + 2))
                .or_default()
                .insert(xxh3_64_with_seed(payload, 0));
        }
    }
    found
}

/// Rule S12: "The number of a dictionary or model in a published commit is never reused."
///
/// Tables of changing shapes are filled, so that each one is worth a dictionary. Some are filled in
/// transactions that are rolled back, and some are dropped later, so that their dictionaries
/// retire. Connections close, and power cuts remove unsynced content. A number must never stand for
/// two contents.
/// Take out: the root section's `next_dict` in `State::next_dict`.
#[test]
fn rule_12_dictionary_numbers_are_never_reused() {
    let vfs = SimVfs::register("rule-12-host", SimDisk::new(12));
    densite_vfs::register(api(), c"rule-12", Some(c"rule-12-host"), false).expect("register");
    let open = || {
        let flags = READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        let db = Connection::open_with_flags_and_vfs("file:/app.db?threads=0", flags, "rule-12")
            .expect("open");
        db.execute_batch(
            "PRAGMA cache_size=20; PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY",
        )
        .expect("settings");
        db
    };
    let mut seen: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    let mut db = open();
    for round in 0..28 {
        let columns: Vec<String> = (0..round + 2).map(|c| format!("c{c}")).collect();
        // Words specific to a table: not predictable within a page, but with a dictionary.
        let word = |c: u64| {
            let which = format!("((i * {} + {c}) % 61 + {round})", 7 + c);
            format!(
                "printf('%08x%08x', {which} * 2654435761 % 4294967291, {which} * 40503077 % 4294967279)"
            )
        };
        let values: Vec<String> = (0..round + 2).map(word).collect();
        let end = if round % 4 == 1 { "ROLLBACK" } else { "COMMIT" };
        db.execute_batch(&format!(
            "BEGIN; CREATE TABLE t{round}({});
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000 / {})
             INSERT INTO t{round} SELECT {} FROM n; {end}",
            columns.join(", "),
            round + 2,
            values.join(", "),
        ))
        .expect("fill");
        if round >= 3 {
            db.execute_batch(&format!("DROP TABLE IF EXISTS t{}; VACUUM", round - 3))
                .unwrap_or_else(|e| panic!("round {round}: drop: {e}"));
        }
        for (number, contents) in dictionaries(&vfs.disk().contents("/app.db").expect("the file")) {
            seen.entry(number).or_default().extend(contents);
        }
        match round % 5 {
            2 => {
                drop(db);
                db = open();
            }
            4 => {
                // The cut is in the middle of a commit that adds a dictionary.
                vfs.disk().cut_at_change(vfs.disk().changes() + 40);
                let _ = db.execute_batch(&format!(
                    "CREATE TABLE cut AS SELECT *, 'cut' FROM t{round}"
                ));
                drop(db);
                vfs.power_cut(round);
                db = open();
            }
            _ => {}
        }
    }
    for (number, contents) in &seen {
        assert_eq!(
            contents.len(),
            1,
            "dictionary number {number} stands for {} contents",
            contents.len()
        );
    }
    assert!(
        seen.len() >= 12,
        "hardly any dictionary was learned: {:?}",
        seen.keys()
    );
}

/// The pages of a plain database with one table of its own shape and words.
fn plain_pages(shape: u64) -> Vec<Vec<u8>> {
    let place = Place::new();
    let db = Subject::Plain.open(&place.db()).expect("open");
    let columns: Vec<String> = (0..shape + 2).map(|c| format!("c{c}")).collect();
    let word = |c| {
        format!(
            "printf('%016x', ((i * {} + {c}) % 61 + {shape}) * 2654435761 % 4294967291 * 65537)",
            7 + c
        )
    };
    let values: Vec<String> = (0..shape + 2).map(word).collect();
    db.execute_batch(&format!(
        "CREATE TABLE t({});
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000 / {})
         INSERT INTO t SELECT {} FROM n",
        columns.join(", "),
        shape + 2,
        values.join(", "),
    ))
    .expect("fill");
    drop(db);
    let bytes = std::fs::read(place.db()).expect("read");
    bytes.chunks(PAGE).map(<[u8]>::to_vec).collect()
}

/// Rule S12 on the store alone: a commit used a number and was given up after its dictionary
/// reached the file. The number is not used again.
///
/// Take out: `max(writer.last_dict + 1)` in `Handle::install`.
#[test]
fn rule_12_a_dictionary_number_of_a_failed_commit_is_not_reused() {
    let file = Memory::default();
    let mut options = densite_store::Options {
        codec: CodecChoice::Auto,
        ..raw()
    };
    // So few frames stay in memory before they go to the file.
    options.tuning.held_bytes = 64 << 10;
    let mut writer = handle(file.clone(), "w", options);
    let mut seen: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for round in 0..6 {
        for (page, at) in plain_pages(round).iter().zip(0u64..) {
            writer.write_at(page, at * PAGE as u64).expect("write");
        }
        // Data that do not compress push the dictionary out of memory and into the file.
        for number in 0..3000 {
            let at = u64::from(number + 1000) * PAGE as u64;
            writer
                .write_at(&page(number, round as u32, PAGE), at)
                .expect("write");
        }
        let found = dictionaries(&file.bytes());
        assert!(
            !found.is_empty(),
            "round {round}: no dictionary in the file"
        );
        for (number, contents) in found {
            seen.entry(number).or_default().extend(contents);
        }
        if round % 2 == 0 {
            writer.discard();
        } else {
            writer.publish().expect("publish");
        }
    }
    for (number, contents) in &seen {
        assert_eq!(
            contents.len(),
            1,
            "dictionary number {number} was given {} times",
            contents.len()
        );
    }
    assert!(
        seen.len() >= 4,
        "hardly any dictionary was learned: {:?}",
        seen.keys()
    );
}
