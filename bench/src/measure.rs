//! The measures, and what each is called.

use clap::ValueEnum;

/// The measures, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    Size,
    Archive,
    VacuumInto,
    CompressInto,
    Q1,
    Q8,
    Lookups,
    UpdatesWal,
    UpdatesDelete,
    Open,
    BulkLoad,
    BulkLoadWal,
    Halves,
    Chain,
    Queue,
    Moved,
    CommitLatency,
    Vacuum,
    Codec,
    Workloads,
}

impl Measure {
    /// What it measures.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Measure::Size => "stored size after `densite compress`, default settings, 4 KiB pages",
            Measure::Archive => "stored size after `densite compress --archive`, 4 KiB pages",
            Measure::VacuumInto => "VACUUM INTO a Densite file from a Densite file",
            Measure::CompressInto => "VACUUM INTO a Densite file from a plain file",
            Measure::Q1 => "Q1 (scan), default settings",
            Measure::Q8 => "Q8 (eight-way join), default settings",
            Measure::Lookups => "100,000 random point lookups, autocommit",
            Measure::UpdatesWal => {
                "10,000 small update transactions, WAL, synchronous=NORMAL, checkpoints included"
            }
            Measure::UpdatesDelete => {
                "10,000 small update transactions, journal_mode=DELETE, synchronous=FULL"
            }
            Measure::Open => "open, first query, close, as the database grows",
            Measure::BulkLoad => "bulk load in one transaction, journal_mode=DELETE",
            Measure::BulkLoadWal => "bulk load in one transaction, WAL",
            Measure::Halves => {
                "half of LINEITEM deleted, checkpoint, closed, no vacuum; against a fresh copy"
            }
            Measure::Chain => {
                "load and delete in turn, checkpoint and densite_maintain after each step; against a fresh copy"
            }
            Measure::Queue => {
                "queue, 3.6 million inserts and deletes in ten minutes; against a fresh copy"
            }
            Measure::Moved => "moved by giving space back, for each byte of frames stored",
            Measure::CommitLatency => {
                "updates of a row, each a transaction, while space is given back; against maintain=off"
            }
            Measure::Vacuum => {
                "`densite vacuum` of a Densite file; against VACUUM INTO of plain SQLite"
            }
            Measure::Codec => {
                "typed codec (densite-typed called directly) on LINEITEM's leaf pages, one core"
            }
            Measure::Workloads => "stored size of other databases after `densite compress`",
        }
    }

    /// How often it is taken unless told.
    pub(crate) fn rounds(self) -> u64 {
        match self {
            Measure::Size
            | Measure::Archive
            | Measure::Halves
            | Measure::Chain
            | Measure::Queue
            | Measure::Moved
            | Measure::CommitLatency
            | Measure::Workloads => 1,
            Measure::VacuumInto
            | Measure::CompressInto
            | Measure::BulkLoad
            | Measure::BulkLoadWal
            | Measure::Vacuum
            | Measure::Codec => 3,
            Measure::Q1
            | Measure::Q8
            | Measure::Lookups
            | Measure::UpdatesWal
            | Measure::UpdatesDelete => 5,
            Measure::Open => 21,
        }
    }
}
