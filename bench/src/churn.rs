//! Databases with inserts and deletes: how large they become, how many bytes space reclamation
//! moves, and how it changes the time of commits.

mod commits;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use rusqlite::Connection;

use crate::connect::Vfs;
use crate::machine::Machine;
use crate::measure::Measure;
use crate::outcome::{Compare, Figure, Outcome};
use crate::result::{About as _, Result};
use crate::work::name;
use crate::{space, stored};

const MIB: f64 = 1024.0 * 1024.0;
/// Largest file / live data, of a queue.
const QUEUE: f64 = 1.5;
/// Largest file in the last third of the time / in the first third.
const FLAT: f64 = 1.05;
/// Bytes moved / bytes of frames stored, for data that are inserted and deleted in order.
const MOVED_IN_ORDER: f64 = 0.5;
/// Bytes moved / bytes of frames stored, for pages that change at random.
const MOVED_AT_RANDOM: f64 = 3.0;

/// Rows of a queue at any time, and rows that each transaction inserts and deletes.
const BACKLOG: i64 = 300_000;
const BATCH: i64 = 100;
const JOURNALS: [&str; 2] = ["wal", "delete"];

/// The size of a run.
struct Extent {
    /// Transactions of the queue.
    batches: i64,
    /// The time over which the transactions are spread.
    time: Duration,
    /// Rows that are updated at random, and transactions that update them.
    rows: i64,
    updates: i64,
    /// Small commits that are timed, of each kind.
    commits: i64,
}

impl Extent {
    fn of(quick: bool) -> Extent {
        if quick {
            Extent {
                batches: 1_500,
                time: Duration::from_secs(10),
                rows: 50_000,
                updates: 1_500,
                commits: 1_000,
            }
        } else {
            Extent {
                batches: 18_000,
                time: Duration::from_secs(600),
                rows: 200_000,
                updates: 10_000,
                commits: 5_000,
            }
        }
    }
}

/// Takes one of these measures. `plain` makes a plain TPC-H database, from which the chain loads
/// LINEITEM.
pub(crate) fn measure(
    measure: Measure,
    work: &Path,
    quick: bool,
    machine: &Machine,
    plain: impl FnOnce() -> Result<PathBuf>,
) -> Result<Outcome> {
    let extent = Extent::of(quick);
    let (base_label, figures) = match measure {
        Measure::Queue => ("a fresh copy", queue(work, &extent)?),
        Measure::Moved => ("stored frames", moved(work, &extent, &plain()?)?),
        _ => ("Densite, maintain=off", commits::latency(work, &extent)?),
    };
    Ok(Outcome {
        measure: name(measure),
        title: measure.title().to_owned(),
        data: if quick {
            "Rows that come and go, quick"
        } else {
            "Rows that come and go"
        }
        .to_owned(),
        base_label: base_label.to_owned(),
        ours_label: "Densite".to_owned(),
        figures,
        base: vec![],
        ours: vec![],
        info: Default::default(),
        machine: machine.clone(),
    })
}

/// A queue in a file of its own: each new row replaces the oldest one.
struct Queue {
    file: PathBuf,
    db: Connection,
    first: i64,
    next: i64,
    rng: Xoshiro256PlusPlus,
}

impl Queue {
    fn new(dir: &Path, journal: &str) -> Result<Queue> {
        let file = dir.join(format!("queue-{journal}.db"));
        let db = Vfs::Densite.open(&file)?;
        db.execute_batch(&format!(
            "PRAGMA journal_mode={journal}; CREATE TABLE queue(id INTEGER PRIMARY KEY, message TEXT)"
        ))?;
        let mut queue = Queue {
            file,
            db,
            first: 0,
            next: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(1),
        };
        queue.db.execute_batch("BEGIN")?;
        queue.insert(BACKLOG)?;
        queue.db.execute_batch("COMMIT; PRAGMA wal_checkpoint")?;
        Ok(queue)
    }

    fn insert(&mut self, count: i64) -> Result<()> {
        let mut insert = self
            .db
            .prepare_cached("INSERT INTO queue VALUES (?1, ?2)")?;
        for id in self.next..self.next + count {
            let message = message(&mut self.rng, id);
            insert.execute((id, message))?;
        }
        self.next += count;
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        self.db.execute_batch("BEGIN")?;
        self.insert(BATCH)?;
        self.first += BATCH;
        self.db
            .prepare_cached("DELETE FROM queue WHERE id < ?")?
            .execute([self.first])?;
        self.db.execute_batch("COMMIT")?;
        Ok(())
    }
}

/// A message of a queue: a few hundred bytes, a third of them random.
fn message(rng: &mut Xoshiro256PlusPlus, id: i64) -> String {
    let (user, token): (u32, u128) = (rng.random_range(0..50_000), rng.random());
    let action = ["created", "updated", "moved", "deleted"]
        .get(rng.random_range(0..4usize))
        .copied()
        .unwrap_or_default();
    format!(
        "{{\"sequence\": {id}, \"user\": \"user-{user:05}\", \"action\": \"document.{action}\", \"token\": \"{token:032x}\", \"version\": {}, \"source\": \"https://example.com/api/v2/documents\"}}",
        rng.random_range(1..30)
    )
}

/// Rows are inserted and deleted at the same rate: the largest file, and whether it grows.
fn queue(dir: &Path, extent: &Extent) -> Result<Vec<Figure>> {
    let mut queues = [Queue::new(dir, "wal")?, Queue::new(dir, "delete")?];
    // The largest file in each third of the time.
    let mut largest = [[0u64; 3]; 2];
    let begin = Instant::now();
    let each = extent.time / u32::try_from(extent.batches).unwrap_or(u32::MAX);
    for batch in 0..extent.batches {
        for (queue, thirds) in queues.iter_mut().zip(&mut largest) {
            queue.step()?;
            let third = usize::try_from(batch * 3 / extent.batches).unwrap_or(0);
            if let Some(largest) = thirds.get_mut(third) {
                *largest = stored::allocated(&queue.file)?.max(*largest);
            }
        }
        let due = each * u32::try_from(batch).unwrap_or(0);
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
    }
    eprintln!("the queues took {:.0?}", begin.elapsed());
    let mut figures = Vec::new();
    for ((queue, thirds), journal) in queues.into_iter().zip(largest).zip(JOURNALS) {
        let ratio = moved_ratio(&queue.db)?;
        eprintln!(
            "{journal}: {:.2} bytes moved for one stored",
            ratio.1 / ratio.0
        );
        drop(queue.db);
        let fresh = space::fresh(&queue.file, dir)?;
        let [first, second, last] = thirds.map(|bytes| bytes as f64 / MIB);
        let name = |what: &str| format!("journal_mode={journal}, {what}");
        figures.push(Figure::new(
            &name("largest disk space, MiB"),
            Compare::Ratio,
            fresh,
            first.max(second).max(last),
            Some(QUEUE),
        ));
        figures.push(Figure::new(
            &name("largest of the last third of the time, MiB; base: of the first third"),
            Compare::Ratio,
            first,
            last,
            Some(FLAT),
        ));
        std::fs::remove_file(&queue.file).about("remove", &queue.file)?;
    }
    Ok(figures)
}

/// Bytes of frames stored and bytes moved since the file was opened.
fn moved_ratio(db: &Connection) -> Result<(f64, f64)> {
    let figure = |name: &str| -> Result<f64> {
        let sql = "SELECT value FROM densite_info('main') WHERE name = ?";
        Ok(db.query_row(sql, [name], |r| r.get::<_, i64>(0))? as f64)
    };
    Ok((figure("written_frame_bytes")?, figure("moved_bytes")?))
}

/// Bytes that space reclamation moves for each byte that SQLite stores.
fn moved(dir: &Path, extent: &Extent, plain: &Path) -> Result<Vec<Figure>> {
    let figure = |name: &str, (stored, moved): (f64, f64), target| {
        Figure::new(
            &format!("{name}: MiB moved"),
            Compare::Ratio,
            stored / MIB,
            moved / MIB,
            Some(target),
        )
    };
    let mut figures = Vec::new();
    let mut sum = (0.0, 0.0);
    let chain = dir.join("chain.db");
    for round in 0..space::ROUNDS {
        let db = space::chain_step(&chain, plain, round)?;
        let (stored, moved) = moved_ratio(&db)?;
        sum = (sum.0 + stored, sum.1 + moved);
        db.close().map_err(|(_, e)| e).about("close", &chain)?;
    }
    std::fs::remove_file(&chain).about("remove", &chain)?;
    figures.push(figure(
        "six times LINEITEM loaded, half of it deleted, densite_maintain",
        sum,
        MOVED_IN_ORDER,
    ));
    for journal in JOURNALS {
        let mut queue = Queue::new(dir, journal)?;
        for _ in 0..extent.batches / 3 {
            queue.step()?;
        }
        let ratio = moved_ratio(&queue.db)?;
        drop(queue.db);
        std::fs::remove_file(&queue.file).about("remove", &queue.file)?;
        figures.push(figure(
            &format!("queue, journal_mode={journal}"),
            ratio,
            MOVED_IN_ORDER,
        ));
    }
    for journal in JOURNALS {
        let file = dir.join("random.db");
        let db = Vfs::Densite.open(&file)?;
        fill(&db, extent.rows, journal)?;
        let before = moved_ratio(&db)?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        for _ in 0..extent.updates {
            db.execute_batch("BEGIN")?;
            for _ in 0..20 {
                let id = rng.random_range(0..extent.rows);
                update(&db, id, &mut rng)?;
            }
            db.execute_batch("COMMIT")?;
        }
        let (stored, moved) = moved_ratio(&db)?;
        db.close().map_err(|(_, e)| e).about("close", &file)?;
        std::fs::remove_file(&file).about("remove", &file)?;
        figures.push(figure(
            &format!("rows updated uniformly at random, journal_mode={journal}"),
            (stored - before.0, moved - before.1),
            MOVED_AT_RANDOM,
        ));
    }
    Ok(figures)
}

/// Makes a table of `rows` messages.
fn fill(db: &Connection, rows: i64, journal: &str) -> Result<()> {
    db.execute_batch(&format!(
        "PRAGMA journal_mode={journal}; CREATE TABLE t(id INTEGER PRIMARY KEY, message TEXT); BEGIN"
    ))?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut insert = db.prepare("INSERT INTO t VALUES (?1, ?2)")?;
    for id in 0..rows {
        insert.execute((id, message(&mut rng, id)))?;
    }
    drop(insert);
    db.execute_batch("COMMIT; PRAGMA wal_checkpoint")?;
    Ok(())
}

fn update(db: &Connection, id: i64, rng: &mut Xoshiro256PlusPlus) -> Result<()> {
    let message = message(rng, id);
    db.prepare_cached("UPDATE t SET message = ?2 WHERE id = ?1")?
        .execute((id, message))?;
    Ok(())
}
