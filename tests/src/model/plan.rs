//! Chooses the next step: first kinds with few successes, then the preconditions of a kind.

use super::kind::Kind::{self, *};
use super::kind::Tally;
use super::needs::{Need, need};
use super::step::{Action, Proof, Step};
use super::write::{Journal, World};

/// Each kind must succeed this often.
pub(crate) const SUCCESSES: u32 = 50;

/// Number of steps for which a chosen kind is pursued before another one replaces it.
const PATIENCE: u32 = 6;

/// The plan: the kind that is currently pursued.
pub(crate) struct Plan {
    wish: Option<(Kind, u32)>,
}

impl Plan {
    pub(crate) fn new() -> Plan {
        Plan { wish: None }
    }

    /// The next step. `progress` is the completed part of the run, from 0 to 1.
    pub(crate) fn next(&mut self, world: &mut World, tally: &Tally, progress: f64) -> Step {
        let (wished, age) = match self.wish.take() {
            Some((kind, age)) if age < PATIENCE => (kind, age),
            _ => (choose(world, tally, progress), 0),
        };
        let mut kind = wished;
        for _ in 0..8 {
            match need(world, kind) {
                None => break,
                Some(Need::CloseSecond) => {
                    self.wish = Some((wished, age + 1));
                    return Step {
                        kind: None,
                        action: Action::CloseSecond,
                        proof: Proof::Ok,
                    };
                }
                Some(Need::Step(first)) => kind = first,
            }
        }
        if kind != wished {
            self.wish = Some((wished, age + 1));
        }
        // If no object exists for the kind, another step creates or removes one.
        for candidate in [kind, counterpart(kind), Insert, CreateTable, DropTable] {
            let allowed = need(world, candidate).is_none() || candidate == kind;
            if allowed && let Some(step) = world.step(candidate) {
                return step;
            }
        }
        Step::new(
            Query,
            Action::Main("SELECT count(*) FROM keep_blobs".to_owned()),
            Proof::Rows,
        )
    }
}

/// Frequent kinds. They create the content for all other kinds.
const ROWS: &[Kind] = &[
    Insert,
    Insert,
    InsertMany,
    InsertMany,
    InsertSelect,
    InsertOverflow,
    Update,
    UpdateMany,
    UpdateOverflow,
    Delete,
    Delete,
    Upsert,
    Replace,
    FtsInsert,
    RtreeInsert,
    Query,
    Join,
];

fn choose(world: &mut World, tally: &Tally, progress: f64) -> Kind {
    if world.is_large() && world.dice.percent(30) {
        return *world
            .dice
            .pick(&[DeleteAll, DropTable, Delete, FtsDelete, DropIndex]);
    }
    if world.page_size != world.home_page_size && world.dice.percent(50) {
        return VacuumPageSize;
    }
    // Without a journal only few kinds are safe, so this mode does not last long.
    if world.journal == Journal::Off && world.dice.percent(12) {
        return *world.dice.pick(&[
            JournalDelete,
            JournalTruncate,
            JournalPersist,
            JournalMemory,
            JournalWal,
        ]);
    }
    if world.exclusive && world.dice.percent(5) {
        return LockingNormal;
    }
    let wanted = (f64::from(SUCCESSES + 5) * (progress * 1.1).min(1.0)).ceil() as u32;
    let behind = tally.below(wanted);
    if !behind.is_empty() && world.dice.percent(70) {
        return *world.dice.pick(&behind);
    }
    if world.dice.percent(60) {
        *world.dice.pick(ROWS)
    } else {
        *world.dice.pick(Kind::ALL)
    }
}

/// The kind that makes room for another kind, or creates an object for it.
fn counterpart(kind: Kind) -> Kind {
    match kind {
        CreateTable | CreateWithoutRowid | CreateGenerated | CreateTableAs => DropTable,
        CreateIndex => DropIndex,
        DropIndex => CreateIndex,
        CreateView => DropView,
        DropView => CreateView,
        CreateTrigger => DropTrigger,
        DropTrigger => CreateTrigger,
        DropColumn => AddColumn,
        FtsCreate => FtsDrop,
        FtsDrop => FtsCreate,
        TempCreate => TempDrop,
        TempDrop | TempWrite => TempCreate,
        _ => CreateTable,
    }
}
