//! A run: steps on both sides until a difference, or until all kinds succeeded often enough.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::act::act;
use super::catalog::Catalog;
use super::digest::Memory;
use super::host;
use super::kind::{Kind, Tally};
use super::outcome::Outcome;
use super::plan::{Plan, SUCCESSES};
use super::reopen::check_store;
use super::side::{Flavour, Side};
use super::step::{Action, Proof, Step};
use super::write::{Journal, World};

/// The largest number of steps between two comparisons of the whole content.
const DIGEST_EVERY: u64 = 25;
/// Number of steps before the failed one that a report shows.
const HISTORY: usize = 30;

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The seed of all choices.
    pub seed: u64,
    /// The page size in bytes. Only steps at this page size count.
    pub page_size: usize,
    /// The number of steps at that page size.
    pub steps: u64,
    /// Whether each kind of operation has to succeed 50 times.
    pub every_kind: bool,
    /// From this step on, SQLite's integrity check follows every step.
    pub check_from: Option<u64>,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// Number of steps, including those at other page sizes.
    pub steps: u64,
    /// Each kind of operation with its successes and attempts.
    pub tally: String,
}

/// Executes a run.
///
/// # Errors
/// The first difference, or a kind of operation that did not succeed often enough. The text has
/// seed, step, statement, both outcomes, and how to replay the run.
pub fn run(config: Config) -> Result<Report, String> {
    host::register();
    let folder = host::folder();
    let mut run = Run {
        config,
        world: World::new(config.seed, config.page_size),
        sides: [Flavour::Plain, Flavour::Densite].map(|flavour| {
            let name = if flavour == Flavour::Plain {
                "plain"
            } else {
                "densite"
            };
            Side::new(flavour, folder.path().join(name))
        }),
        memories: [Memory::default(), Memory::default()],
        tally: Tally::new(),
        plan: Plan::new(),
        history: VecDeque::new(),
        step: 0,
        counted: 0,
    };
    let done = run.all();
    if done.is_err() && std::env::var_os("DENSITE_KEEP").is_some() {
        eprintln!("kept: {}", folder.keep().display());
    }
    done?;
    Ok(Report {
        steps: run.step,
        tally: run.tally.line(),
    })
}

struct Run {
    config: Config,
    world: World,
    /// Plain SQLite, then Densite.
    sides: [Side; 2],
    memories: [Memory; 2],
    tally: Tally,
    plan: Plan,
    history: VecDeque<String>,
    step: u64,
    /// Number of steps at the page size of the run.
    counted: u64,
}

impl Run {
    fn all(&mut self) -> Result<(), String> {
        self.begin()?;
        while !self.is_done() {
            if self.step >= self.config.steps * 4 + 2000 {
                let few = self.tally.below(SUCCESSES);
                return Err(format!(
                    "{self}: after {} steps these kinds succeeded less than {SUCCESSES} times: {few:?}\n{}",
                    self.step,
                    self.tally.line()
                ));
            }
            self.one()?;
        }
        self.end()
    }

    fn is_done(&self) -> bool {
        let all = !self.config.every_kind || self.tally.below(SUCCESSES).is_empty();
        self.counted >= self.config.steps && all
    }

    fn begin(&mut self) -> Result<(), String> {
        for side in &mut self.sides {
            side.open_main().map_err(|e| format!("open: {e}"))?;
        }
        let step = Step {
            kind: None,
            action: Action::Main(self.world.first_sql()),
            proof: Proof::Ok,
        };
        self.compare(&step)?;
        self.observe()
    }

    /// Executes one step and the checks after it.
    fn one(&mut self) -> Result<(), String> {
        self.step += 1;
        let done = self.counted as f64 / self.config.steps.max(1) as f64;
        let step = if self.step.is_multiple_of(DIGEST_EVERY) {
            Step::new(Kind::Digest, Action::Digest, Proof::Ok)
        } else {
            self.plan.next(&mut self.world, &self.tally, done)
        };
        let outcome = self.compare(&step)?;
        if self.world.page_size == self.config.page_size {
            self.counted += 1;
        }
        self.learn(&step, &outcome)?;
        if step.kind.is_none_or(changes_shape) {
            self.observe()?;
        }
        if self.config.check_from.is_some_and(|from| self.step >= from) {
            self.check(&step)?;
        }
        Ok(())
    }

    /// Runs SQLite's integrity check after a step, to find the step that caused damage.
    fn check(&self, step: &Step) -> Result<(), String> {
        for side in &self.sides {
            let found: rusqlite::Result<String> =
                side.main()
                    .query_row("PRAGMA integrity_check", [], |r| r.get(0));
            if found.as_deref() != Ok("ok") {
                return Err(self.report(step, &format!("{:?}: {found:?}", side.flavour)));
            }
        }
        Ok(())
    }

    /// Executes a step on both sides and compares the outcomes.
    fn compare(&mut self, step: &Step) -> Result<Outcome, String> {
        let text = format!("{}: {:?} {:?}", self.step, step.kind, step.action);
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(text);
        let [plain, densite] = &mut self.sides;
        let [plain_memory, densite_memory] = &mut self.memories;
        let expected = act(plain, plain_memory, &step.action);
        let found = act(densite, densite_memory, &step.action);
        let files = [plain.files(), densite.files()];
        match (expected, found) {
            (Ok(expected), Ok(found)) if expected == found && files[0] != files[1] => {
                let [plain, densite] = files;
                let what = format!(
                    "{expected}\nfiles beside plain SQLite: {plain:?}\nbeside Densite: {densite:?}"
                );
                Err(self.report(step, &what))
            }
            (Ok(expected), Ok(found)) if expected == found => {
                if let Some(kind) = step.kind {
                    self.tally.note(kind, step.proof.holds(&expected));
                }
                Ok(expected)
            }
            (Ok(expected), Ok(found)) => {
                let mut what = format!("plain SQLite: {expected}\nDensite: {found}");
                if let (Some(a), Some(b)) = (&self.memories[0].digest, &self.memories[1].digest) {
                    let _ = write!(what, "\nplain against Densite:\n{}", a.difference(b));
                }
                Err(self.report(step, &what))
            }
            (expected, found) => {
                let say = |r: Result<Outcome, String>| r.map_or_else(|e| e, |o| o.to_string());
                let what = format!("plain SQLite: {}\nDensite: {}", say(expected), say(found));
                Err(self.report(step, &what))
            }
        }
    }

    fn report(&self, step: &Step, what: &str) -> String {
        let history: Vec<_> = self.history.iter().map(String::as_str).collect();
        format!(
            "{self}, step {}: {:?}\n{:?}\n{what}\njournal {:?}, page size {}, before that:\n  {}\nReplay: DENSITE_SEED={} DENSITE_PAGE_SIZE={} DENSITE_STEPS={} \
             cargo test --release -p densite-tests --test main -- --ignored --nocapture model::replay",
            self.step,
            step.kind,
            step.action,
            self.world.journal,
            self.world.page_size,
            history.join("\n  "),
            self.config.seed,
            self.config.page_size,
            self.config.steps
        )
    }

    /// Updates the state of the world that later steps build on.
    fn learn(&mut self, step: &Step, outcome: &Outcome) -> Result<(), String> {
        let world = &mut self.world;
        world.in_transaction = !self.sides[0].main().is_autocommit();
        if !world.in_transaction {
            world.savepoints.clear();
        }
        world.second_open = self.sides[0].second.is_some();
        world.snapshot = self.sides[0]
            .second
            .as_ref()
            .is_some_and(|db| !db.is_autocommit());
        if world.journal == Journal::Off && !outcome.is_ok() && step.kind.is_some_and(is_main_write)
        {
            return Err(self.report(step, &format!(
                "the model is wrong: a statement failed without a journal, which leaves a database undefined: {outcome}"
            )));
        }
        match (&step.action, outcome.is_ok()) {
            (Action::BackupOut { plain, .. }, true) if *plain => self.world.copy_plain = true,
            (Action::BackupOut { .. }, true) => self.world.copy = true,
            (Action::Reopen { .. }, _) => {
                self.world.may_spill = false;
                self.world.attached = false;
                self.world.attached_plain = false;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads schema and modes on both sides, and compares them.
    fn observe(&mut self) -> Result<(), String> {
        let sql = "PRAGMA main.journal_mode; PRAGMA main.locking_mode; PRAGMA main.page_size;
                   PRAGMA main.page_count; PRAGMA main.auto_vacuum";
        let step = Step {
            kind: None,
            action: Action::Main(sql.to_owned()),
            proof: Proof::Ok,
        };
        let seen = self.compare(&step)?;
        self.history.pop_back();
        if let [journal, locking, page_size, page_count, auto_vacuum] = &seen.first[..]
            && seen.is_ok()
        {
            let number = |text: &str| text.parse::<usize>().unwrap_or(0);
            if let Some(journal) = Journal::named(journal) {
                self.world.journal = journal;
            }
            self.world.exclusive = locking == "exclusive";
            self.world.page_size = number(page_size);
            self.world.page_count = number(page_count);
            self.world.auto_vacuum = auto_vacuum.parse().unwrap_or(0);
        }
        let catalogs =
            [0, 1].map(|i| Catalog::read(self.sides[i].main()).map_err(|e| e.to_string()));
        let [plain, densite] = catalogs;
        if plain != densite {
            let step = Step {
                kind: None,
                action: Action::Main("(reading the schema)".to_owned()),
                proof: Proof::Ok,
            };
            return Err(self.report(
                &step,
                &format!("plain SQLite: {plain:?}\nDensite: {densite:?}"),
            ));
        }
        if let Ok(catalog) = plain {
            let has = |schema: &str| catalog.tables.iter().any(|t| t.schema == schema);
            self.world.attached = has("aux");
            self.world.attached_plain = has("auxp");
            self.world.catalog = catalog;
        }
        Ok(())
    }

    /// The last comparison, and the store's own check of every file.
    fn end(&mut self) -> Result<(), String> {
        if self.world.in_transaction {
            self.compare(&Step {
                kind: None,
                action: Action::Main("COMMIT".to_owned()),
                proof: Proof::Ok,
            })?;
        }
        let reopen = Action::Reopen {
            settings: String::new(),
            keep_second: false,
            check: true,
        };
        self.compare(&Step {
            kind: None,
            action: reopen,
            proof: Proof::Ok,
        })?;
        self.compare(&Step {
            kind: None,
            action: Action::Digest,
            proof: Proof::Ok,
        })?;
        for side in &mut self.sides {
            side.main = None;
            side.second = None;
        }
        let densite = &self.sides[1];
        for name in ["main.db", "aux.db", "copy.db"] {
            if densite.path(name).exists() {
                check_store(densite, name).map_err(|e| format!("{self}: {e}"))?;
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "seed {}, page size {}",
            self.config.seed, self.config.page_size
        )
    }
}

/// Whether a kind can change schema, modes or sizes: all kinds except plain rows and reads.
fn changes_shape(kind: Kind) -> bool {
    use Kind::*;
    !matches!(
        kind,
        Insert
            | InsertMany
            | InsertSelect
            | InsertOverflow
            | Upsert
            | Replace
            | Update
            | UpdateMany
            | UpdateOverflow
            | Delete
            | ConstraintFails
            | Query
            | Join
            | CursorWhileWriting
            | FtsInsert
            | FtsUpdate
            | FtsDelete
            | FtsQuery
            | FtsMaintain
            | RtreeInsert
            | RtreeUpdate
            | RtreeDelete
            | RtreeQuery
            | BlobRead
            | BlobWrite
            | TempWrite
            | Begin
            | Savepoint
            | CacheTiny
            | CacheNormal
            | SecondRead
            | SnapshotRead
            | Digest
    )
}

fn is_main_write(kind: Kind) -> bool {
    use Kind::*;
    matches!(
        kind,
        Insert
            | InsertMany
            | InsertSelect
            | InsertOverflow
            | Update
            | UpdateMany
            | UpdateOverflow
            | Delete
            | DeleteAll
            | CreateTable
            | CreateWithoutRowid
            | CreateGenerated
            | CreateTableAs
            | CreateIndex
            | DropIndex
            | Vacuum
    )
}
