//! The measures and their titles.

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
    LookupsInOne,
    Limited,
    UpdatesWal,
    UpdatesDelete,
    Open,
    BulkLoad,
    BulkLoadWal,
    Uuids,
    UuidsWal,
    Small,
    Halves,
    Chain,
    Queue,
    Moved,
    CommitLatency,
    Vacuum,
    Codec,
    IngestBurst,
    IngestBurstLarge,
    IngestSingle,
    IngestLatency,
    IngestApply,
    IngestPrune,
    IngestConstant,
    IngestLookup,
    IngestMemory,
    IngestVotes,
    Workloads,
    Everyday,
    Speedtest,
    Remote,
}

impl Measure {
    /// The title in the report.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Measure::Size => "stored size after `densite compress`, default settings, 4 KiB pages",
            Measure::Archive => "stored size after `densite compress --archive`, 4 KiB pages",
            Measure::VacuumInto => "VACUUM INTO a Densite file from a Densite file",
            Measure::CompressInto => "VACUUM INTO a Densite file from a plain file",
            Measure::Q1 => "Q1 (scan), default settings",
            Measure::Q8 => "Q8 (eight-way join), default settings",
            Measure::Lookups => "100,000 random point lookups, autocommit",
            Measure::LookupsInOne => "100,000 random point lookups in one transaction",
            Measure::Limited => "400 MiB of memory, the system's cache dropped first",
            Measure::UpdatesWal => {
                "10,000 small update transactions, WAL, synchronous=NORMAL, checkpoints included"
            }
            Measure::UpdatesDelete => {
                "10,000 small update transactions, journal_mode=DELETE, synchronous=FULL"
            }
            Measure::Open => "open, first query, close, as the database grows",
            Measure::BulkLoad => "bulk load in one transaction, journal_mode=DELETE",
            Measure::BulkLoadWal => "bulk load in one transaction, WAL",
            Measure::Uuids => {
                "120,000 rows with a UUID key and two indexes in one transaction, journal_mode=DELETE"
            }
            Measure::UuidsWal => {
                "120,000 rows with a UUID key and two indexes, 500 in each transaction, WAL"
            }
            Measure::Small => "a small program: one connection, a database of 12 MB",
            Measure::Halves => {
                "half of LINEITEM deleted, checkpoint, closed, no vacuum; against a fresh copy"
            }
            Measure::Chain => {
                "load and delete in turn, checkpoint and densite_maintain after each step; against a fresh copy"
            }
            Measure::Queue => {
                "queue, 3.6 million inserts and deletes in ten minutes; against a fresh copy"
            }
            Measure::Moved => "moved by space reclamation, for each byte of frames stored",
            Measure::CommitLatency => {
                "updates of a row, each a transaction, while space is reclaimed; against maintain=off"
            }
            Measure::Vacuum => {
                "`densite vacuum` of a Densite file; against VACUUM INTO of plain SQLite"
            }
            Measure::Codec => {
                "typed codec (densite-typed called directly) on LINEITEM's leaf pages, one core"
            }
            Measure::IngestBurst => "ingest, 20 s, 8 threads, batches of 400",
            Measure::IngestBurstLarge => "ingest, 20 s, 8 threads, batches of 400",
            Measure::IngestSingle => "ingest, one thread, one row in each transaction",
            Measure::IngestLatency => {
                "ingest, 10 million rows in the table, rows applied meanwhile"
            }
            Measure::IngestApply => {
                "ingest, moving rows into a table of 10 million, random keys; base: plain SQLite writes batches of 400"
            }
            Measure::IngestPrune => "ingest, pruning beside a thread that appends",
            Measure::IngestConstant => "ingest, constant load at 80 % of what can be applied",
            Measure::IngestLookup => {
                "ingest, lookups, 10 million rows in the table and 10 million not applied"
            }
            Measure::IngestMemory => "ingest, 10 million rows of 16 bytes not applied, readable",
            Measure::IngestVotes => "votes, 8 threads, one in each transaction, skewed articles",
            Measure::Workloads => "stored size of other databases after `densite compress`",
            Measure::Everyday => "everyday data and queries (bench/everyday)",
            Measure::Speedtest => "SQLite's speedtest1, WAL",
            Measure::Remote => {
                "reading from a web server: requests and KiB; base: the plain SQLite file, by the same reader"
            }
        }
    }

    /// The default number of rounds.
    pub(crate) fn rounds(self) -> u64 {
        match self {
            Measure::Size
            | Measure::Archive
            | Measure::Halves
            | Measure::Chain
            | Measure::Queue
            | Measure::Moved
            | Measure::CommitLatency
            | Measure::IngestSingle
            | Measure::IngestLatency
            | Measure::IngestConstant
            | Measure::IngestLookup
            | Measure::IngestMemory
            | Measure::IngestVotes
            | Measure::Workloads
            | Measure::Remote => 1,
            Measure::IngestBurst
            | Measure::IngestBurstLarge
            | Measure::IngestApply
            | Measure::IngestPrune => 2,
            Measure::VacuumInto
            | Measure::CompressInto
            | Measure::BulkLoad
            | Measure::BulkLoadWal
            | Measure::Limited
            | Measure::Uuids
            | Measure::UuidsWal
            | Measure::Small
            | Measure::Vacuum
            | Measure::Codec
            | Measure::Everyday
            | Measure::Speedtest => 3,
            Measure::Q1
            | Measure::Q8
            | Measure::Lookups
            | Measure::LookupsInOne
            | Measure::UpdatesWal
            | Measure::UpdatesDelete => 5,
            Measure::Open => 21,
        }
    }
}

impl Measure {
    /// Whether it measures ingest.
    pub(crate) fn is_ingest(self) -> bool {
        matches!(
            self,
            Measure::IngestBurst
                | Measure::IngestBurstLarge
                | Measure::IngestSingle
                | Measure::IngestLatency
                | Measure::IngestApply
                | Measure::IngestPrune
                | Measure::IngestConstant
                | Measure::IngestLookup
                | Measure::IngestMemory
                | Measure::IngestVotes
        )
    }
}
