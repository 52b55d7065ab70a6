//! Damage gives an error with its place, or changes nothing. It never gives a wrong row.
//!
//! One database with several tables, indexes and dictionaries is stored once. Then, thousands of
//! times, its file is damaged in one place and opened again, and every page is compared with the
//! stored one. The store without SQLite is fast, so the flips of single bits are tested there. Real
//! SQLite reads the damaged files in a thousand further cases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use densite_disk::hash::Xxh3_64;
use densite_disk::sync::Mutex;
use densite_disk::{File, SyncKind};
use densite_store::{DecodedCache, Error, Handle, Options, Readahead, Tuning};
use densite_testing::Effort;
use densite_tests::model::folder;
use densite_tests::procs::Subject;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

/// The seed of the random numbers.
const SEED: u64 = 0xDA3A6E;
/// Bytes of a page.
const PAGE: usize = 1024;

/// A file in memory, so that a case costs little more than its reads.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl File for Memory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> densite_disk::Result<usize> {
        let bytes = self.0.lock();
        let rest = bytes
            .get(usize::try_from(offset).unwrap_or(usize::MAX)..)
            .unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> densite_disk::Result<()> {
        let mut bytes = self.0.lock();
        let (start, end) = (offset as usize, offset as usize + buf.len());
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(buf);
        Ok(())
    }
    fn set_len(&self, len: u64) -> densite_disk::Result<()> {
        self.0.lock().resize(len as usize, 0);
        Ok(())
    }
    fn sync(&self, _: SyncKind) -> densite_disk::Result<()> {
        Ok(())
    }
    fn len(&self) -> densite_disk::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }
}

fn open(file: &Memory) -> densite_store::Result<Handle> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let identity = format!("damaged {}", NEXT.fetch_add(1, Ordering::Relaxed));
    let options = Options {
        threads: 0,
        decoded_cache: DecodedCache::Bytes(4 << 20),
        readahead: Readahead::Off,
        // A file that is not closed has its map in trailers, one that is closed in nodes.
        tuning: Tuning {
            fold_small_bytes: u64::MAX,
            ..Tuning::default()
        },
        ..Options::default()
    };
    Handle::open(Box::new(file.clone()), &identity, options)
}

/// Statements that create and change the database. Each is one commit.
const STEPS: [&str; 5] = [
    "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, street TEXT, born INTEGER);
     CREATE TABLE visit (person INTEGER, day TEXT, note TEXT, cost REAL);
     CREATE TABLE word (word TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID;
     CREATE INDEX visit_person ON visit (person, day);
     CREATE INDEX person_name ON person (name);
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100)
       INSERT INTO person SELECT i, 'name ' || (i * 7919 % 5000), 'street ' || (i % 83) || ', house ' || (i % 19), 1930 + i % 80 FROM n;",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
       INSERT INTO visit SELECT i * 31 % 1100 + 1, date('2020-01-01', (i % 900) || ' days'), 'note of visit ' || hex(i * 2654435761), i * 0.25 FROM n;",
    "INSERT INTO word SELECT 'w' || (id * 48271 % 65537), id FROM person;
     CREATE INDEX visit_note ON visit (note);",
    "UPDATE person SET street = 'moved to ' || street WHERE id % 5 = 0;
     DELETE FROM visit WHERE rowid % 11 = 0;",
    "UPDATE visit SET cost = cost * 2 WHERE rowid BETWEEN 300 AND 500;
     INSERT INTO person SELECT id + 10000, name, street, born FROM person WHERE id % 9 = 1;",
];

/// The bytes that the store returns for a database: without unallocated bytes.
fn scrubbed(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut kept = Vec::new();
    for (page, number) in bytes.chunks(PAGE).zip(1..) {
        let context = densite_store::PageContext {
            number,
            pages: (bytes.len() / PAGE) as u32,
            reserved: 0,
        };
        densite_store::scrub(page, &context, &mut kept);
        all.extend_from_slice(&kept);
    }
    all
}

/// The database's bytes after each step.
fn states() -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("plain.db");
    let con = rusqlite::Connection::open(&path).expect("open");
    con.execute_batch(&format!("PRAGMA page_size={PAGE}; PRAGMA synchronous=OFF;"))
        .expect("settings");
    let after = |sql: &&str| {
        con.execute_batch(&format!("BEGIN; {sql} COMMIT;"))
            .expect("a step");
        scrubbed(&std::fs::read(&path).expect("read"))
    };
    STEPS.iter().map(after).collect()
}

/// The stored states, and the bytes of the file.
struct Stored {
    states: Vec<Vec<u8>>,
    file: Vec<u8>,
}

/// Stores the states, one commit each, as the VFS would: only changed pages are written.
fn stored(close: bool) -> Stored {
    let states = states();
    let file = Memory::default();
    let mut handle = open(&file).expect("open");
    let samples: Vec<Vec<u8>> = states[2]
        .chunks(PAGE)
        .step_by(3)
        .map(<[u8]>::to_vec)
        .collect();
    handle.learn(&samples, 8 << 20).expect("learn");
    let mut before: &[u8] = &[];
    for state in &states {
        for (n, page) in state.chunks(PAGE).enumerate() {
            if before.get(n * PAGE..(n + 1) * PAGE) != Some(page) {
                handle.write_at(page, (n * PAGE) as u64).expect("write");
            }
        }
        if close && Some(state) == states.last() {
            // Not durable before the close, so the close folds the map.
            handle.publish().expect("publish");
        } else {
            handle.sync(SyncKind::Data).expect("sync");
        }
        before = state;
    }
    if close {
        handle.close_clean().expect("close");
    }
    let stats = handle.stats().expect("stats");
    assert!(
        stats.dictionaries > 1 && stats.pages_typed > 20,
        "dictionaries are in use: {stats:?}"
    );
    assert_eq!(stats.map_nodes > 0, close, "map nodes: {stats:?}");
    let bytes = file.0.lock().clone();
    println!(
        "{} bytes stored as {}, {} dictionaries",
        states.last().map_or(0, Vec::len),
        bytes.len(),
        stats.dictionaries
    );
    assert!((100 << 10..800 << 10).contains(&bytes.len()));
    Stored {
        states,
        file: bytes,
    }
}

/// The result of reading a damaged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// It could not be opened.
    Refused,
    /// Some pages could not be read; all others were right.
    Pages,
    /// Everything was as in the last state.
    Nothing,
    /// Everything was as in an earlier state.
    Earlier,
    /// The file is not recognised as a Densite file any more.
    Foreign,
}

/// Opens the file and compares every page. The error describes wrong results.
fn judge(file: &Memory, stored: &Stored) -> Result<(Shown, Option<densite_store::Damage>), String> {
    let mut handle = match open(file) {
        Ok(handle) => handle,
        Err(Error::Corrupt(d)) => return Ok((Shown::Refused, Some(d))),
        Err(Error::NotDensite) => return Ok((Shown::Foreign, None)),
        Err(e) => return Err(format!("opening says: {e}")),
    };
    let len = match handle.len() {
        Ok(len) => len as usize,
        Err(Error::Corrupt(d)) => return Ok((Shown::Refused, Some(d))),
        Err(e) => return Err(format!("the length: {e}")),
    };
    // The states that are still possible.
    let mut left: Vec<&[u8]> = stored
        .states
        .iter()
        .map(Vec::as_slice)
        .filter(|s| s.len() == len)
        .collect();
    let mut first = None;
    let mut page = vec![0; PAGE];
    for n in 0..len / PAGE {
        match handle.read_at(&mut page, (n * PAGE) as u64) {
            Ok(PAGE) => left.retain(|s| s[n * PAGE..(n + 1) * PAGE] == page[..]),
            Ok(short) => return Err(format!("page {}: {short} bytes", n + 1)),
            Err(Error::Corrupt(d)) if d.page == Some(n as u32 + 1) => {
                first.get_or_insert(d);
            }
            Err(e) => return Err(format!("page {}: {e}", n + 1)),
        }
        if left.is_empty() {
            return Err(format!(
                "page {} (length {len}) is of no state that there ever was",
                n + 1
            ));
        }
    }
    if left.is_empty() {
        return Err(format!("length {len}: no state ever had it"));
    }
    let last = stored.states.last().map(Vec::as_slice);
    let shown = match (&first, left.contains(&last.unwrap_or_default())) {
        (Some(_), true) => Shown::Pages,
        (None, true) => Shown::Nothing,
        // An earlier state must be reported: the check says that something was cut off.
        (_, false) => {
            let report = handle
                .check(&mut |_, _| true)
                .map_err(|e| format!("the check of an earlier state: {e}"))?;
            if report.cut.is_none() && report.problems.is_empty() {
                return Err("an earlier state, and the check says nothing".to_owned());
            }
            Shown::Earlier
        }
    };
    Ok((shown, first))
}

/// Runs usually `cases` cases on all cores. `damage` changes the file in place and describes the change.
/// Counts the results.
fn run(
    stored: &Stored,
    cases: u64,
    allow: &[Shown],
    damage: impl Fn(&mut Vec<u8>, &mut SmallRng) -> String + Sync,
) -> [usize; 5] {
    let cases = Effort::wanted().of(cases);
    let next = AtomicU64::new(0);
    let begun = std::time::Instant::now();
    let counts = Mutex::new([0; 5]);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let file = Memory::default();
                loop {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    if case >= cases {
                        return;
                    }
                    let mut rng =
                        SmallRng::seed_from_u64(SEED ^ case.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    let did = {
                        let mut bytes = file.0.lock();
                        bytes.clone_from(&stored.file);
                        damage(&mut bytes, &mut rng)
                    };
                    let what = || format!("case {case} of seed {SEED:#x}: {did}");
                    let (shown, _) =
                        judge(&file, stored).unwrap_or_else(|e| panic!("{}: {e}", what()));
                    assert!(allow.contains(&shown), "{}: {shown:?}", what());
                    // Damage that reading shows must be found by the check. The reverse need not
                    // hold.
                    if case.is_multiple_of(8) && matches!(shown, Shown::Refused | Shown::Pages) {
                        let found = open(&file).and_then(|mut h| h.check(&mut |_, _| true));
                        let quiet = found.is_ok_and(|report| report.problems.is_empty());
                        assert!(!quiet, "{}: the check says nothing", what());
                    }
                    counts.lock()[shown as usize] += 1;
                }
            });
        }
    });
    println!("{cases} cases in {:.1} s", begun.elapsed().as_secs_f64());
    counts.into_inner()
}

/// The least count, where `usual` is usual.
fn least(usual: u64) -> usize {
    usize::try_from(Effort::wanted().least(usual)).expect("a count")
}

/// Flips single bits. The error must name the place.
fn flips(stored: &Stored, cases: u64, allow: &[Shown]) -> [usize; 5] {
    run(stored, cases, allow, |bytes, rng| {
        let bit = rng.random_range(0..bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        format!("bit {} of byte {}", bit % 8, bit / 8)
    })
}

#[test]
fn flipped_bits_in_a_closed_file() {
    let stored = stored(true);
    let [refused, pages, nothing, ..] = flips(
        &stored,
        10_000,
        &[Shown::Refused, Shown::Pages, Shown::Nothing],
    );
    println!("refused {refused}, pages {pages}, no effect {nothing}");
    assert!(
        pages > least(3000) && nothing > least(50),
        "most bits are those of pages, some mean nothing any more"
    );
}

/// The error names the page and the place, and the flipped byte is within it.
#[test]
fn the_error_has_the_place_of_the_damage() {
    let stored = stored(true);
    let file = Memory::default();
    let mut named = 0;
    for case in 0..600 {
        let mut rng = SmallRng::seed_from_u64(SEED + case);
        let at = rng.random_range(16384..stored.file.len());
        {
            let mut bytes = file.0.lock();
            bytes.clone_from(&stored.file);
            bytes[at] ^= 0x10;
        }
        let (_, damage) = judge(&file, &stored).unwrap_or_else(|e| panic!("byte {at}: {e}"));
        if let Some(d) = damage {
            named += 1;
            // No record of this file is longer than a dictionary.
            assert!(
                d.offset <= at as u64 && (at as u64) < d.offset + (120 << 10),
                "byte {at}: {d}"
            );
            assert!(
                d.to_string().contains(&format!("at offset {}", d.offset)),
                "{d}"
            );
        }
    }
    // Other bytes belong to records that no page needs any more.
    assert!(named > 200, "{named}");
}

#[test]
fn flipped_bits_in_a_file_that_was_not_closed() {
    let stored = stored(false);
    let counts = flips(
        &stored,
        4_000,
        &[Shown::Refused, Shown::Pages, Shown::Nothing, Shown::Earlier],
    );
    println!(
        "refused {}, pages {}, no effect {}, earlier {}",
        counts[0], counts[1], counts[2], counts[3]
    );
    assert!(
        counts[3] > least(100),
        "commits that no slot names are verified when the file is opened"
    );
}

#[test]
fn cut_off_files() {
    for close in [true, false] {
        let stored = stored(close);
        let allow: &[Shown] = if close {
            &[Shown::Refused, Shown::Pages, Shown::Nothing]
        } else {
            &[Shown::Refused, Shown::Pages, Shown::Nothing, Shown::Earlier]
        };
        let end = stored.file.len();
        let counts = run(&stored, 600, allow, |bytes, rng| {
            // Not to zero bytes, and not to less than the magic: that is another kind of file.
            let len = match rng.random_range(0..3) {
                0 => rng.random_range(1..=end / 512) * 512,
                1 => rng.random_range(16..20_000),
                _ => rng.random_range(16..end),
            };
            bytes.truncate(len);
            format!("cut to {len}")
        });
        assert!(counts[0] + counts[1] + counts[3] > least(300));
    }
}

/// A file shorter than the magic cannot be identified. It is not a Densite file, but it is not
/// empty either.
#[test]
fn a_file_shorter_than_its_magic_is_not_an_empty_database() {
    let stored = stored(true);
    for len in 1..16 {
        let file = Memory(Arc::new(Mutex::new(stored.file[..len].to_vec())));
        assert!(matches!(open(&file), Err(Error::NotDensite)), "{len}");
    }
}

#[test]
fn blocks_that_are_swapped_zeroed_or_filled() {
    for close in [true, false] {
        let stored = stored(close);
        let all = [
            Shown::Refused,
            Shown::Pages,
            Shown::Nothing,
            Shown::Earlier,
            Shown::Foreign,
        ];
        let counts = run(&stored, 1500, &all, |bytes, rng| {
            let size = [512, 4096, 4096, 16384, 65536][rng.random_range(0..5)];
            let blocks = bytes.len() / size;
            let (a, b) = (
                rng.random_range(0..blocks) * size,
                rng.random_range(0..blocks) * size,
            );
            match rng.random_range(0..4) {
                0 => {
                    let part = bytes[a..a + size].to_vec();
                    bytes.copy_within(b..b + size, a);
                    bytes[b..b + size].copy_from_slice(&part);
                    format!("swapped blocks of {size} at {a} and {b}")
                }
                1 => {
                    bytes.copy_within(b..b + size, a);
                    format!("the block of {size} at {b} stands at {a} too")
                }
                2 => {
                    bytes[a..a + size].fill(0);
                    format!("zeroed {size} bytes at {a}")
                }
                _ => {
                    rng.fill_bytes(&mut bytes[a..a + size]);
                    format!("random bytes, {size} at {a}")
                }
            }
        });
        println!(
            "closed {close}: refused {}, pages {}, no effect {}, earlier {}, foreign {}",
            counts[0], counts[1], counts[2], counts[3], counts[4]
        );
        assert!(counts[1] + counts[3] > least(500) && counts[4] < 200);
    }
}

/// A hash of the whole content, read through tables and indexes; or the error of SQLite.
fn everything(con: &rusqlite::Connection) -> rusqlite::Result<u64> {
    let mut hash = Xxh3_64::with_seed(0);
    for sql in [
        "SELECT * FROM person ORDER BY id",
        "SELECT * FROM visit ORDER BY rowid",
        "SELECT * FROM word ORDER BY word",
        "SELECT person, day, rowid FROM visit INDEXED BY visit_person ORDER BY person, day, rowid",
        "SELECT name, id FROM person INDEXED BY person_name ORDER BY name, id",
        "SELECT note, rowid FROM visit INDEXED BY visit_note ORDER BY note, rowid",
    ] {
        let mut statement = con.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for i in 0..columns {
                hash.update(format!("{:?}|", row.get_ref(i)?).as_bytes());
            }
        }
        hash.update(b"/");
    }
    Ok(hash.digest())
}

/// The same with SQL: `states` are hashes of the database after each commit, `file` has its bytes.
struct Written {
    states: Vec<u64>,
    file: Vec<u8>,
}

fn written(close: bool) -> Written {
    let dir = folder();
    let path = dir.path().join("a.db");
    let con = Subject::Densite.open(&path).expect("open");
    con.execute_batch(&format!("PRAGMA page_size={PAGE};"))
        .expect("page size");
    let mut states = Vec::new();
    for (n, sql) in STEPS.iter().enumerate() {
        con.execute_batch(&format!("BEGIN; {sql} COMMIT;"))
            .expect("a step");
        if n >= 2 {
            states.push(everything(&con).expect("all of it"));
        }
    }
    let file = if close {
        con.close().expect("close");
        std::fs::read(&path).expect("read")
    } else {
        std::fs::read(&path).expect("read")
    };
    Written { states, file }
}

fn sql_flips(written: &Written, cases: u64, earlier: bool) {
    let cases = Effort::wanted().of(cases);
    let dir = folder();
    let path = dir.path().join("damaged.db");
    let (mut errors, mut right, mut older) = (0, 0, 0);
    for case in 0..cases {
        let mut rng = SmallRng::seed_from_u64(SEED ^ case);
        let mut bytes = written.file.clone();
        let bit = rng.random_range(0..bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bytes).expect("write");
        let what = format!(
            "case {case} of seed {SEED:#x}: bit {} of byte {}",
            bit % 8,
            bit / 8
        );
        let _ = densite_vfs::take_last_error();
        let answer = Subject::Densite
            .open(&path)
            .and_then(|con| everything(&con));
        match answer {
            Ok(hash) if Some(&hash) == written.states.last() => right += 1,
            Ok(hash) if earlier && written.states.contains(&hash) => older += 1,
            Ok(_) => panic!("{what}: wrong rows"),
            // In a state before the first commits there can be no tables.
            Err(e) if earlier && e.to_string().contains("no such") => older += 1,
            Err(e) => {
                assert_eq!(
                    e.sqlite_error_code(),
                    Some(rusqlite::ErrorCode::DatabaseCorrupt),
                    "{what}: {e}"
                );
                let message = densite_vfs::take_last_error().unwrap_or_default();
                assert!(message.contains("at offset "), "{what}: {e}: {message:?}");
                errors += 1;
            }
        }
        assert!(
            path.metadata().is_ok_and(|m| m.len() > 0),
            "{what}: the file is gone"
        );
    }
    println!("{errors} errors, {right} right, {older} earlier");
    // Of all cases it is three in ten and two thirds. Few cases differ more.
    let part = if Effort::wanted().is_full() { 4 } else { 8 };
    assert!(errors + older > cases / part && right > cases / 50);
}

#[test]
fn sqlite_reads_a_closed_file_with_a_flipped_bit() {
    sql_flips(&written(true), 1000, false);
}

#[test]
fn sqlite_reads_a_file_with_a_flipped_bit_that_was_not_closed() {
    sql_flips(&written(false), 400, true);
}
