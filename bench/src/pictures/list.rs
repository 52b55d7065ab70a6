//! Which figures each picture has, and the commands that measure them.

use super::{Bar, Picture};

const TPCH: &str = "TPC-H SF 1";
const LOG: &str = "Rows acknowledged by the log";
const PYTHON: &str = "Bulk rows from Python (1,000,000 rows)";
const APPLICATIONS: &str = "Applications with many small writes";
const REPLICAS: &str = "Replication of TPC-H SF 0.1";
const EMBEDDINGS: &str = "Everyday data: embeddings (seen)";
const EVENTS: &str = "Everyday data: events (unseen)";
const FLIGHTS: &str = "Everyday data: flights (seen)";
const PACKAGES: &str = "Everyday data: packages (seen)";
const SQLITE: &str = "SQLite";

/// A bar beside plain SQLite.
const fn bar(
    what: &'static str,
    data: &'static str,
    measure: &'static str,
    figure: &'static str,
) -> Bar {
    beside(SQLITE, what, data, measure, figure)
}

/// A bar beside another base.
const fn beside(
    base: &'static str,
    what: &'static str,
    data: &'static str,
    measure: &'static str,
    figure: &'static str,
) -> Bar {
    Bar {
        what,
        base,
        data,
        measure,
        figure,
    }
}

/// The pictures in the order of their page.
pub(super) const PICTURES: [Picture; 9] = [
    Picture {
        file: "size",
        title: "Stored size, MiB",
        text: "Allocated blocks on the disk after `densite compress`. Shorter is better.",
        commands: &["make bench ONLY=size,archive,workloads,everyday"],
        bars: &[
            bar("TPC-H, scale factor 1", TPCH, "size", "disk space"),
            bar("TPC-H, --archive", TPCH, "archive", "disk space"),
            bar("flights", FLIGHTS, "everyday", "stored size, MiB"),
            bar("events, JSON", EVENTS, "everyday", "stored size, MiB"),
            bar("sensor data", "time series with REAL", "workloads", "disk"),
            bar("log lines", "log lines", "workloads", "disk"),
            bar(
                "full-text index",
                "FTS5 index over prose",
                "workloads",
                "disk",
            ),
            bar("embeddings", EMBEDDINGS, "everyday", "stored size, MiB"),
            bar(
                "random blobs",
                "blobs that do not compress",
                "workloads",
                "disk",
            ),
        ],
    },
    Picture {
        file: "speed",
        title: "Time of queries and changes, s",
        text: "TPC-H at scale factor 1, wall time. Shorter is better.",
        commands: &[
            "make bench ONLY=q1,q8,lookups,lookups-in-one,updates-wal,updates-delete,bulk-load,bulk-load-wal,vacuum",
        ],
        bars: &[
            bar("scan (Q1)", TPCH, "q1", "wall time"),
            bar("join of eight tables (Q8)", TPCH, "q8", "wall time"),
            bar("100,000 lookups", TPCH, "lookups", "wall time"),
            bar(
                "the same in one transaction, CPU",
                TPCH,
                "lookups-in-one",
                "CPU time",
            ),
            bar("10,000 updates, WAL", TPCH, "updates-wal", "wall time"),
            bar("10,000 updates, DELETE", TPCH, "updates-delete", "wall"),
            bar("load, WAL", TPCH, "bulk-load-wal", "wall time"),
            bar("load, DELETE", TPCH, "bulk-load", "wall time"),
            beside("VACUUM INTO", "densite vacuum", TPCH, "vacuum", "wall time"),
        ],
    },
    Picture {
        file: "first-reads",
        title: "First reads and loads of everyday data, CPU time",
        text: "A new connection reads pages that no cache has. These are the queries in which Densite \
               costs most. Shorter is better.",
        commands: &["make bench ONLY=everyday"],
        bars: &[
            bar(
                "flights: one destination, ms",
                FLIGHTS,
                "everyday",
                "one destination by index, first run, CPU, ms",
            ),
            bar(
                "the same, second run, ms",
                FLIGHTS,
                "everyday",
                "one destination by index, second run, CPU, ms",
            ),
            bar(
                "packages: LIKE over text, ms",
                PACKAGES,
                "everyday",
                "LIKE over text, first run, CPU, ms",
            ),
            bar(
                "the same, second run, ms",
                PACKAGES,
                "everyday",
                "LIKE over text, second run, CPU, ms",
            ),
            bar(
                "embeddings: all vectors, ms",
                EMBEDDINGS,
                "everyday",
                "all vectors, read, first run, CPU, ms",
            ),
            bar(
                "events: JSON by group, ms",
                EVENTS,
                "everyday",
                "json_extract by group, first run, CPU, ms",
            ),
            bar(
                "events: load, s",
                EVENTS,
                "everyday",
                "inserted in one transaction: CPU time, s",
            ),
            bar(
                "flights: load, s",
                FLIGHTS,
                "everyday",
                "inserted in one transaction: CPU time, s",
            ),
        ],
    },
    Picture {
        file: "ingest",
        title: "Ingest, rows per second",
        text: "Rows that are durable when they are acknowledged, beside plain SQLite with a WAL and \
               `synchronous=FULL`. Longer is better.",
        commands: &[
            "make bench ONLY=ingest-burst,ingest-burst-large,ingest-single,ingest-apply,ingest-votes",
        ],
        bars: &[
            bar(
                "8 threads, empty table",
                LOG,
                "ingest-burst",
                "into an empty table: acknowledged rows/s",
            ),
            bar(
                "8 threads, 10 million rows",
                LOG,
                "ingest-burst-large",
                "into a table of 10000000 rows: acknowledged rows/s",
            ),
            bar("one thread, one row each", LOG, "ingest-single", "rows/s"),
            bar("applied to the table", LOG, "ingest-apply", "rows/s"),
            bar("votes of 8 threads", LOG, "ingest-votes", "votes only: op"),
            bar(
                "votes with 90 % reads",
                LOG,
                "ingest-votes",
                "90 % reads of counts: operations/s",
            ),
        ],
    },
    Picture {
        file: "python",
        title: "Rows in and out of Python, million per second",
        text: "A million rows of integers, sorted by key if nothing else is said; with targets by CPU \
               time. Longer is better.",
        commands: &["make bench ONLY=bulk"],
        bars: &[
            beside(
                "executemany",
                "insert",
                PYTHON,
                "bulk-insert-sorted",
                "densite, NumPy / executemany, with WAL, M rows/s",
            ),
            beside(
                "ADBC",
                "insert, CPU",
                PYTHON,
                "bulk-insert-sorted",
                "densite, NumPy / ADBC, M rows/s of CPU",
            ),
            beside(
                "Polars",
                "insert, shuffled, CPU",
                PYTHON,
                "bulk-insert-shuffled",
                "densite, NumPy / Polars, M rows/s of CPU",
            ),
            beside(
                "sqlite3's cursor",
                "read",
                PYTHON,
                "bulk-read",
                "densite / sqlite3, M rows/s",
            ),
            beside(
                "ADBC",
                "read, CPU",
                PYTHON,
                "bulk-read",
                "densite / ADBC, M rows/s of CPU",
            ),
            beside(
                "connectorx",
                "read, CPU",
                PYTHON,
                "bulk-read",
                "densite / connectorx, M rows/s of CPU",
            ),
            beside(
                "JSON of keys",
                "look up 100,000 keys, CPU",
                PYTHON,
                "bulk-keyed",
                "densite / JSON, M rows/s of CPU",
            ),
            beside(
                "SPC",
                "allocate pairs, CPU",
                PYTHON,
                "bulk-allocate",
                "densite: SPC, Densite file / SPC, with WAL, M rows/s of CPU",
            ),
        ],
    },
    Picture {
        file: "applications",
        title: "Applications with many small writes",
        text: "Ingest beside the ordinary table. The titles say which direction is better.",
        commands: &["make bench ONLY=applications"],
        bars: &[
            beside(
                "the table",
                "Django bulk_create, rows/s (longer)",
                APPLICATIONS,
                "applications-orm",
                "Django, 8 processes: bulk_create",
            ),
            beside(
                "the table",
                "Django save, rows/s (longer)",
                APPLICATIONS,
                "applications-orm",
                "Django, 8 processes: save, rows/s",
            ),
            beside(
                "the table",
                "Django save, p99, ms (shorter)",
                APPLICATIONS,
                "applications-orm",
                "Django, 8 processes: save, 99th",
            ),
            beside(
                "the table",
                "hot counters, 1/s (longer)",
                APPLICATIONS,
                "applications-increments",
                "100 counters, 8 processes: increments/s",
            ),
            beside(
                "ids later",
                "ids at INSERT, rows/s (longer)",
                APPLICATIONS,
                "applications-ids",
                "",
            ),
            beside(
                "not recorded",
                "changes recorded, s (shorter)",
                APPLICATIONS,
                "applications-changes",
                "200,000 rows through ingest",
            ),
        ],
    },
    Picture {
        file: "memory",
        title: "Peak memory, MiB",
        text: "With the default caches. The URI parameter `decoded_cache` limits them. Shorter is better.",
        commands: &["make bench ONLY=q1,lookups,updates-wal,bulk-load-wal,small,ingest-memory"],
        bars: &[
            bar("scan (Q1)", TPCH, "q1", "peak memory"),
            bar("100,000 lookups", TPCH, "lookups", "peak memory"),
            bar("10,000 updates, WAL", TPCH, "updates-wal", "peak memory"),
            bar("load, WAL", TPCH, "bulk-load-wal", "peak memory"),
            bar("a small program", TPCH, "small", "peak memory"),
            beside(
                "before",
                "10 million rows in the log",
                LOG,
                "ingest-memory",
                "largest resident memory while they",
            ),
        ],
    },
    Picture {
        file: "replication",
        title: "Replication, beside Litestream",
        text: "36,000 transactions in an hour, both in the same run; restores of the result. Shorter is \
               better.",
        commands: &["make bench ONLY=replicate"],
        bars: &[
            beside(
                "Litestream",
                "MB sent",
                REPLICAS,
                "replicate-beside-peer",
                "36000 transactions in 3600 s: MB sent",
            ),
            beside(
                "Litestream",
                "requests",
                REPLICAS,
                "replicate-beside-peer",
                "36000 transactions in 3600 s: requests",
            ),
            beside(
                "Litestream",
                "CPU time, s",
                REPLICAS,
                "replicate-beside-peer",
                "36000 transactions in 3600 s: processor time",
            ),
            beside(
                "Litestream",
                "restore, MB",
                REPLICAS,
                "replicate-beside-peer",
                "restore after that, MB",
            ),
            beside(
                "Litestream",
                "restore, requests",
                REPLICAS,
                "replicate-beside-peer",
                "restore after that, requests",
            ),
        ],
    },
    Picture {
        file: "remote",
        title: "Reading from a web server",
        text: "TPC-H at scale factor 1 by ranges, beside the plain SQLite file by the same reader. \
               Shorter is better.",
        commands: &["make bench ONLY=remote"],
        bars: &[
            bar("open, requests", TPCH, "remote", "open and schema, req"),
            bar("open, KiB", TPCH, "remote", "open and schema, KiB"),
            bar(
                "100 lookups, requests",
                TPCH,
                "remote",
                "then 100 lookups by row id, requests",
            ),
            bar(
                "100 lookups, KiB",
                TPCH,
                "remote",
                "then 100 lookups by row id, KiB",
            ),
            bar(
                "100 lookups, ms, requests delayed by 30",
                TPCH,
                "remote",
                "then 100 lookups by row id, ms, each request delayed by 30 ms",
            ),
        ],
    },
];
