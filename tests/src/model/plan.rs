//! Which step comes next: kinds that lag behind first, and what a kind needs before it can be.

use super::kind::Kind::{self, *};
use super::kind::Tally;
use super::step::{Action, Proof, Step};
use super::write::{Journal, World};

/// Each kind is to succeed this often.
pub(crate) const SUCCESSES: u32 = 50;

/// The number of steps that a wish is pursued before another takes its place.
const PATIENCE: u32 = 6;

/// What a kind needs.
enum Need {
    /// Another kind of step first.
    Step(Kind),
    /// The second connection closed.
    CloseSecond,
}

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
                    return Step { kind: None, action: Action::CloseSecond, proof: Proof::Ok };
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
        Step::new(Query, Action::Main("SELECT count(*) FROM keep_blobs".to_owned()), Proof::Rows)
    }
}

/// Frequent kinds: they make the content that the others work on.
const ROWS: &[Kind] = &[
    Insert, Insert, InsertMany, InsertMany, InsertSelect, InsertOverflow, Update, UpdateMany,
    UpdateOverflow, Delete, Delete, Upsert, Replace, FtsInsert, RtreeInsert, Query, Join,
];

fn choose(world: &mut World, tally: &Tally, progress: f64) -> Kind {
    if world.is_large() && world.dice.percent(30) {
        return *world.dice.pick(&[DeleteAll, DropTable, Delete, FtsDelete, DropIndex]);
    }
    if world.page_size != world.home_page_size && world.dice.percent(50) {
        return VacuumPageSize;
    }
    // Without a journal only few kinds are safe, so that does not last long.
    if world.journal == Journal::Off && world.dice.percent(12) {
        return *world.dice.pick(&[JournalDelete, JournalTruncate, JournalPersist, JournalMemory, JournalWal]);
    }
    if world.exclusive && world.dice.percent(5) {
        return LockingNormal;
    }
    let wanted = (f64::from(SUCCESSES + 5) * (progress * 1.1).min(1.0)).ceil() as u32;
    let behind = tally.below(wanted);
    if !behind.is_empty() && world.dice.percent(70) {
        return *world.dice.pick(&behind);
    }
    if world.dice.percent(60) { *world.dice.pick(ROWS) } else { *world.dice.pick(Kind::ALL) }
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

/// A kind that cannot leave a statement half done, and so is allowed without a journal.
fn is_safe_without_journal(kind: Kind) -> bool {
    matches!(
        kind,
        Insert | InsertMany | InsertSelect | InsertOverflow | Update | UpdateMany
            | UpdateOverflow | Delete | DeleteAll | Query | Join | BlobRead | BlobWrite
            | CreateTable | CreateWithoutRowid | CreateGenerated | CreateTableAs | CreateIndex
            | DropIndex | Begin | Commit | Vacuum | VacuumInto | VacuumIntoPlain | BackupOut
            | BackupOutPlain | Digest | CacheTiny | CacheNormal | SecureDelete | UserVersion
            | SynchronousOff | SynchronousNormal | SynchronousFull | SynchronousExtra
            | TempCreate | TempWrite | TempDrop | JournalDelete | JournalTruncate
            | JournalPersist | JournalMemory | JournalOff | JournalWal | Reopen
    )
}

/// What must come before a step of that kind, if anything. Now and then a step is tried all
/// the same: then both sides must fail alike.
fn need(world: &mut World, kind: Kind) -> Option<Need> {
    let step = |kind| Some(Need::Step(kind));
    if world.journal == Journal::Off && !is_safe_without_journal(kind) {
        if world.in_transaction {
            return step(Commit);
        }
        return step(*world.dice.pick(&[JournalDelete, JournalTruncate, JournalPersist, JournalMemory, JournalWal]));
    }
    let second = matches!(kind, SecondRead | SecondWrite | SnapshotBegin | SnapshotRead);
    if second && world.may_spill && world.in_transaction && world.journal != Journal::Wal {
        return step(Commit);
    }
    let bold = world.journal != Journal::Off && kind != JournalOff && world.dice.percent(4);
    if bold {
        return match kind {
            // These would not be steps at all.
            Release | RollbackTo if world.savepoints.is_empty() => step(Savepoint),
            SnapshotRead | SnapshotEnd if !world.snapshot => step(SnapshotBegin),
            SnapshotBegin if world.snapshot => step(SnapshotEnd),
            SecondWrite if world.snapshot => step(SnapshotEnd),
            CrossCommit | CrossRollback if !world.attached && !world.attached_plain => step(Attach),
            BackupIn if !world.copy => step(BackupOut),
            BackupInPlain if !world.copy_plain => step(BackupOutPlain),
            // The backup API may not be used so.
            BackupIn | BackupInPlain if world.in_transaction => step(Commit),
            _ => None,
        };
    }
    if needs_no_transaction(kind) && world.in_transaction {
        if world.journal != Journal::Off && world.dice.percent(35) {
            return step(Rollback);
        }
        return step(Commit);
    }
    if world.reader_in_the_way() && writes(kind) && !(world.in_transaction && kind != Commit) {
        return step(SnapshotEnd);
    }
    let second = Some(Need::CloseSecond);
    let leave_wal = |world: &mut World| {
        Some(Need::Step(*world.dice.pick(&[JournalDelete, JournalTruncate, JournalPersist, JournalMemory])))
    };
    match kind {
        IncrementalVacuum if world.auto_vacuum != 2 => step(AutoVacuumIncremental),
        Begin => None,
        Commit | Rollback if !world.in_transaction => step(Begin),
        Release | RollbackTo if world.savepoints.is_empty() => step(Savepoint),
        VacuumPageSize | BackupIn | BackupInPlain if world.journal == Journal::Wal => leave_wal(world),
        VacuumPageSize if world.snapshot => step(SnapshotEnd),
        BackupIn | BackupInPlain if world.second_open => second,
        BackupIn if !world.copy => step(BackupOut),
        BackupInPlain if !world.copy_plain => step(BackupOutPlain),
        JournalDelete | JournalTruncate | JournalPersist | JournalMemory | JournalOff | JournalWal
            if world.second_open =>
        {
            second
        }
        LockingExclusive if world.second_open => second,
        // A WAL whose index is in memory cannot go back to shared use.
        LockingNormal if world.exclusive && world.journal == Journal::Wal => leave_wal(world),
        CheckpointPassive | CheckpointFull | CheckpointRestart | CheckpointTruncate
            if world.journal != Journal::Wal =>
        {
            step(JournalWal)
        }
        CheckpointPassive | CheckpointFull | CheckpointRestart | CheckpointTruncate
            if world.snapshot =>
        {
            step(SnapshotEnd)
        }
        SecondRead | SecondWrite | SnapshotBegin if world.exclusive => step(LockingNormal),
        SecondWrite | SnapshotBegin if world.snapshot => step(SnapshotEnd),
        SnapshotBegin if world.journal != Journal::Wal && world.dice.percent(80) => step(JournalWal),
        SnapshotRead | SnapshotEnd if !world.snapshot => step(SnapshotBegin),
        Attach if world.attached => step(Detach),
        AttachPlain if world.attached_plain => step(Detach),
        Detach | CrossCommit | CrossRollback if !world.attached && !world.attached_plain => {
            step(if world.dice.percent(50) { Attach } else { AttachPlain })
        }
        _ => None,
    }
}

fn needs_no_transaction(kind: Kind) -> bool {
    matches!(
        kind,
        Begin | Vacuum | VacuumPageSize | VacuumInto | VacuumIntoPlain | BackupOut
            | BackupOutPlain | BackupIn | BackupInPlain | Attach | AttachPlain | Detach
            | CrossCommit | CrossRollback | AutoVacuumNone | AutoVacuumFull
            | AutoVacuumIncremental | IncrementalVacuum | JournalDelete | JournalTruncate
            | JournalPersist | JournalMemory | JournalOff | JournalWal | SynchronousOff
            | SynchronousNormal | SynchronousFull | SynchronousExtra | LockingNormal
            | LockingExclusive | CheckpointPassive | CheckpointFull | CheckpointRestart
            | CheckpointTruncate | Reopen | SecondWrite | MmapSize
    )
}

/// Whether a kind writes to `main` and so meets a reader in rollback mode.
fn writes(kind: Kind) -> bool {
    !matches!(
        kind,
        Query | Join | Begin | Rollback | Savepoint | Release | RollbackTo | FtsQuery
            | RtreeQuery | BlobRead | VacuumInto | VacuumIntoPlain | BackupOut
            | BackupOutPlain | SynchronousOff | SynchronousNormal | SynchronousFull
            | SynchronousExtra | CacheTiny | CacheNormal | SecureDelete | MmapSize
            | TempCreate | TempWrite | TempDrop | Attach | AttachPlain | Detach
            | AutoCheckpoint | SecondRead | SnapshotBegin | SnapshotRead | SnapshotEnd | Digest
            | Reopen
    )
}
