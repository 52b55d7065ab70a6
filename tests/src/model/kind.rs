//! The kinds of operations, and how often each succeeded.

macro_rules! kinds {
    ($($name:ident)*) => {
        /// A kind of operation. A run passes only if each kind succeeded often enough.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Kind { $($name),* }

        impl Kind {
            pub(crate) const ALL: &'static [Kind] = &[$(Kind::$name),*];
        }
    };
}

kinds! {
    // Schema
    CreateTable CreateWithoutRowid CreateGenerated CreateTableAs DropTable RenameTable AddColumn
    RenameColumn DropColumn CreateIndex DropIndex Reindex Analyze CreateView DropView
    CreateTrigger DropTrigger
    // Rows
    Insert InsertMany InsertSelect InsertOverflow Upsert Replace Update UpdateMany UpdateOverflow
    Delete DeleteAll ConstraintFails Query Join CursorWhileWriting
    // Transactions
    Begin Commit Rollback Savepoint Release RollbackTo
    // Virtual tables
    FtsCreate FtsDrop FtsInsert FtsUpdate FtsDelete FtsQuery FtsMaintain
    RtreeInsert RtreeUpdate RtreeDelete RtreeQuery
    // Incremental blobs
    BlobRead BlobWrite
    // The whole file
    Vacuum VacuumPageSize VacuumInto VacuumIntoPlain
    BackupOut BackupOutPlain BackupIn BackupInPlain
    // Several databases
    Attach AttachPlain Detach CrossCommit CrossRollback TempCreate TempWrite TempDrop
    // Settings
    AutoVacuumNone AutoVacuumFull AutoVacuumIncremental IncrementalVacuum
    JournalDelete JournalTruncate JournalPersist JournalMemory JournalOff JournalWal
    SynchronousOff SynchronousNormal SynchronousFull SynchronousExtra
    LockingNormal LockingExclusive
    CheckpointPassive CheckpointFull CheckpointRestart CheckpointTruncate AutoCheckpoint
    CacheTiny CacheNormal SecureDelete UserVersion MmapSize
    // Connections
    Reopen SecondRead SecondWrite SnapshotBegin SnapshotRead SnapshotEnd
    // All content
    Digest
}

/// The number of successes and attempts of each kind.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    succeeded: Vec<u32>,
    tried: Vec<u32>,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally {
            succeeded: vec![0; Kind::ALL.len()],
            tried: vec![0; Kind::ALL.len()],
        }
    }

    pub(crate) fn note(&mut self, kind: Kind, success: bool) {
        self.tried[kind as usize] += 1;
        self.succeeded[kind as usize] += u32::from(success);
    }

    pub(crate) fn succeeded(&self, kind: Kind) -> u32 {
        self.succeeded[kind as usize]
    }

    /// The kinds with fewer than `often` successes.
    pub(crate) fn below(&self, often: u32) -> Vec<Kind> {
        let few = |kind: &Kind| self.succeeded(*kind) < often;
        Kind::ALL.iter().copied().filter(few).collect()
    }

    /// One line: each kind with its successes and attempts.
    pub(crate) fn line(&self) -> String {
        let one = |kind: &Kind| {
            let i = *kind as usize;
            format!("{kind:?} {}/{}", self.succeeded[i], self.tried[i])
        };
        Kind::ALL.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}
