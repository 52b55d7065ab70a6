//! Preconditions of steps.

use super::kind::Kind::{self, *};
use super::write::{Journal, World};

/// A precondition of a kind.
pub(crate) enum Need {
    /// Another kind of step first.
    Step(Kind),
    /// The second connection closed.
    CloseSecond,
}

/// Whether steps of this kind cannot fail halfway, so they are allowed without a journal.
fn is_safe_without_journal(kind: Kind) -> bool {
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
            | Query
            | Join
            | BlobRead
            | BlobWrite
            | CreateTable
            | CreateWithoutRowid
            | CreateGenerated
            | CreateTableAs
            | CreateIndex
            | DropIndex
            | Begin
            | Commit
            | Vacuum
            | VacuumInto
            | VacuumIntoPlain
            | BackupOut
            | BackupOutPlain
            | Digest
            | CacheTiny
            | CacheNormal
            | SecureDelete
            | UserVersion
            | SynchronousOff
            | SynchronousNormal
            | SynchronousFull
            | SynchronousExtra
            | TempCreate
            | TempWrite
            | TempDrop
            | JournalDelete
            | JournalTruncate
            | JournalPersist
            | JournalMemory
            | JournalOff
            | JournalWal
            | Reopen
    )
}

/// The precondition of a kind that is not met, if any. Sometimes a step is tried anyway: then both
/// sides must fail in the same way.
pub(crate) fn need(world: &mut World, kind: Kind) -> Option<Need> {
    let step = |kind| Some(Need::Step(kind));
    if world.journal == Journal::Off && !is_safe_without_journal(kind) {
        if world.in_transaction {
            return step(Commit);
        }
        return step(*world.dice.pick(&[
            JournalDelete,
            JournalTruncate,
            JournalPersist,
            JournalMemory,
            JournalWal,
        ]));
    }
    let second = matches!(
        kind,
        SecondRead | SecondWrite | SnapshotBegin | SnapshotRead
    );
    if second && world.may_spill && world.in_transaction && world.journal != Journal::Wal {
        return step(Commit);
    }
    let file_journal = matches!(
        world.journal,
        Journal::Delete | Journal::Truncate | Journal::Persist
    );
    // This avoids a bug of SQLite: for a journal in memory it does not choose a new checksum seed.
    // Under locking_mode=EXCLUSIVE the journal file stays open, and the new journal is written to
    // it over records of older transactions. A ROLLBACK then takes these records for its own.
    if kind == JournalMemory && world.exclusive && file_journal {
        return step(LockingNormal);
    }
    let bold = world.journal != Journal::Off && kind != JournalOff && world.dice.percent(4);
    if bold {
        return match kind {
            // Without these preconditions the step would have no meaning.
            Release | RollbackTo if world.savepoints.is_empty() => step(Savepoint),
            SnapshotRead | SnapshotEnd if !world.snapshot => step(SnapshotBegin),
            SnapshotBegin if world.snapshot => step(SnapshotEnd),
            SecondWrite if world.snapshot => step(SnapshotEnd),
            CrossCommit | CrossRollback if !world.attached && !world.attached_plain => step(Attach),
            BackupIn if !world.copy => step(BackupOut),
            BackupInPlain if !world.copy_plain => step(BackupOutPlain),
            // The backup API does not allow this.
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
        Some(Need::Step(*world.dice.pick(&[
            JournalDelete,
            JournalTruncate,
            JournalPersist,
            JournalMemory,
        ])))
    };
    match kind {
        IncrementalVacuum if world.auto_vacuum != 2 => step(AutoVacuumIncremental),
        Begin => None,
        Commit | Rollback if !world.in_transaction => step(Begin),
        Release | RollbackTo if world.savepoints.is_empty() => step(Savepoint),
        VacuumPageSize | BackupIn | BackupInPlain if world.journal == Journal::Wal => {
            leave_wal(world)
        }
        VacuumPageSize if world.snapshot => step(SnapshotEnd),
        BackupIn | BackupInPlain if world.second_open => second,
        BackupIn if !world.copy => step(BackupOut),
        BackupInPlain if !world.copy_plain => step(BackupOutPlain),
        JournalDelete | JournalTruncate | JournalPersist | JournalMemory | JournalOff
        | JournalWal
            if world.second_open =>
        {
            second
        }
        LockingExclusive if world.second_open => second,
        // A WAL with its index in memory cannot return to shared use.
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
        SnapshotBegin if world.journal != Journal::Wal && world.dice.percent(80) => {
            step(JournalWal)
        }
        SnapshotRead | SnapshotEnd if !world.snapshot => step(SnapshotBegin),
        Attach if world.attached => step(Detach),
        AttachPlain if world.attached_plain => step(Detach),
        Detach | CrossCommit | CrossRollback if !world.attached && !world.attached_plain => {
            step(if world.dice.percent(50) {
                Attach
            } else {
                AttachPlain
            })
        }
        _ => None,
    }
}

fn needs_no_transaction(kind: Kind) -> bool {
    matches!(
        kind,
        Begin
            | Vacuum
            | VacuumPageSize
            | VacuumInto
            | VacuumIntoPlain
            | BackupOut
            | BackupOutPlain
            | BackupIn
            | BackupInPlain
            | Attach
            | AttachPlain
            | Detach
            | CrossCommit
            | CrossRollback
            | AutoVacuumNone
            | AutoVacuumFull
            | AutoVacuumIncremental
            | IncrementalVacuum
            | JournalDelete
            | JournalTruncate
            | JournalPersist
            | JournalMemory
            | JournalOff
            | JournalWal
            | SynchronousOff
            | SynchronousNormal
            | SynchronousFull
            | SynchronousExtra
            | LockingNormal
            | LockingExclusive
            | CheckpointPassive
            | CheckpointFull
            | CheckpointRestart
            | CheckpointTruncate
            | Reopen
            | SecondWrite
            | MmapSize
    )
}

/// Whether a kind writes to `main`, so that a reader blocks it in rollback mode.
fn writes(kind: Kind) -> bool {
    !matches!(
        kind,
        Query
            | Join
            | Begin
            | Rollback
            | Savepoint
            | Release
            | RollbackTo
            | FtsQuery
            | RtreeQuery
            | BlobRead
            | VacuumInto
            | VacuumIntoPlain
            | BackupOut
            | BackupOutPlain
            | SynchronousOff
            | SynchronousNormal
            | SynchronousFull
            | SynchronousExtra
            | CacheTiny
            | CacheNormal
            | SecureDelete
            | MmapSize
            | TempCreate
            | TempWrite
            | TempDrop
            | Attach
            | AttachPlain
            | Detach
            | AutoCheckpoint
            | SecondRead
            | SnapshotBegin
            | SnapshotRead
            | SnapshotEnd
            | Digest
            | Reopen
    )
}
