//! Which step comes next: kinds that lag behind first, and what a kind needs before it can be.

use super::kind::Kind::{self, *};
use super::kind::Tally;
use super::needs::{Need, need};
use super::step::{Action, Proof, Step};
use super::write::{Journal, World};

/// Each kind is to succeed this often.
pub(crate) const SUCCESSES: u32 = 50;

/// The number of steps that a wish is pursued before another takes its place.
const PATIENCE: u32 = 6;

/// The plan: what is wished for now.
pub(crate) struct Plan {
    wish: Option<(Kind, u32)>,
}

impl Plan {
    pub(crate) fn new() -> Plan {
        Plan { wish: None }
    }

    /// The next step. `progress` is how much of the run is done, from 0 to 1.
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
        // What cannot be done for want of an object makes or removes one.
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

/// Frequent kinds: they make the content that the others work on.
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
    // Without a journal only few kinds are safe, so that does not last long.
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

/// Makes room for a kind, or something for it to work on.
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
