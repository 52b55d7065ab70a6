//! What can go wrong with a replica, divided by what the caller can do.

use crate::time::time_text;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of shipping or restoring.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bucket did not answer as it should. The work can be tried again.
    #[error("{0}")]
    Bucket(String),
    /// There is no replica under this name.
    #[error("there is no replica here; densite replicate DB URL begins one")]
    NoReplica,
    /// The head is missing or damaged, and other objects of a replica are here.
    #[error("{}", head_lost(problem, generations))]
    HeadLost {
        /// What is wrong with it, as the end of a sentence.
        problem: String,
        /// The generations whose objects are here, the oldest first.
        generations: Vec<String>,
    },
    /// An object is missing that others need.
    #[error("the object {0} is missing; restore an earlier moment, or begin a new generation")]
    Missing(String),
    /// A base is missing or damaged: no restore point from it up to the next base can be restored.
    #[error("the base {object} is {problem}; {}", without_base(*time_ms, *is_first, *next_ms))]
    BaseLost {
        /// Its name.
        object: String,
        /// What is wrong, as the end of a sentence.
        problem: String,
        /// When it was taken, in milliseconds since 1970.
        time_ms: u64,
        /// Whether the replica has no base before it.
        is_first: bool,
        /// When the next base was taken, in milliseconds since 1970, if there is one.
        next_ms: Option<u64>,
    },
    /// A delta is missing, and later objects exist. They cannot be used without it.
    #[error(
        "the object {missing} is missing, but restore point {later} exists; restore an earlier moment, or ship with --takeover, which begins a new generation; if this is a copy or a cache of the replica, wait until it is complete"
    )]
    Gap {
        /// The name of the first missing object.
        missing: String,
        /// The number of a later restore point.
        later: u64,
    },
    /// An object has other bytes than were written.
    #[error("the object {object} is damaged: {problem}; restore an earlier moment")]
    Damaged {
        /// Its name.
        object: String,
        /// What is wrong.
        problem: String,
    },
    /// A newer program wrote the replica.
    #[error(
        "the object {object} has format {found}, and this version reads up to {supported}; use a newer version of Densite"
    )]
    Newer {
        /// Its name.
        object: String,
        /// Its version.
        found: u32,
        /// The newest version that this program reads.
        supported: u32,
    },
    /// The replica is of another database, or of another copy of this one.
    #[error(
        "the replica here is of another database, or of another copy of this one (on another machine, or this one was restored or copied); if nothing ships there any more, continue here with --takeover: what is stored stays restorable"
    )]
    AnotherDatabase,
    /// The replica has commits that the database does not have.
    #[error(
        "the replica has commits that this database does not have: an older copy was put back; continue here with --takeover: what is stored stays restorable"
    )]
    AnotherHistory,
    /// Another shipper writes to the replica.
    #[error(
        "another process ships to this replica since {object}; end one of them, or take over with --takeover"
    )]
    AnotherWriter {
        /// The object that it wrote.
        object: String,
    },
    /// Another shipper has taken over.
    #[error("another process has taken over this replica; end this one")]
    TakenOver,
    /// The bucket does not create objects atomically.
    #[error(
        "the store creates one object twice: it has no atomic conditional requests (If-None-Match), so two writers could destroy the replica; use another store"
    )]
    NotAtomic,
    /// The moment lies before the first restore point.
    #[error(
        "its first restore point is of {}; restore that moment or a later one", time_text(*first_ms)
    )]
    TooEarly {
        /// Its time, in milliseconds since 1970.
        first_ms: u64,
    },
    /// There is no restore point of this number.
    #[error("there is no restore point {0} in the newest generation; densite replicas lists them")]
    NoSuchPoint(u64),
    /// The file that is restored cannot be written.
    #[error("{0}")]
    Local(densite_disk::Error),
    /// The database cannot be read.
    #[error("{0}")]
    Source(String),
    /// The database cannot be read, because its own disk is full.
    #[error("{0}")]
    SourceFull(String),
    /// A stored page of the database is damaged, so it is not sent as a base. What the replica has
    /// stays.
    #[error(
        "the database is damaged: {0}; no base of it is sent, and the replica keeps what it has; restore the database from there or from a backup"
    )]
    SourceDamaged(String),
    /// The database changes faster than it can be copied.
    #[error("the database changes faster than it can be copied; try again when it is written less")]
    TooFast,
    /// The caller stopped the work.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// The error of a database that cannot be read, because its disk is full or for another reason.
    pub fn source(message: String, is_full: bool) -> Error {
        match is_full {
            true => Error::SourceFull(message),
            false => Error::Source(message),
        }
    }
}

/// Which restore points need a base that is lost, and what can be done.
fn without_base(time_ms: u64, is_first: bool, next_ms: Option<u64>) -> String {
    let next = next_ms.map(time_text);
    let needs = match (is_first, next) {
        (true, None) => "all restore points need it, so none of them can be restored".to_owned(),
        (false, None) => format!(
            "the restore points from {} on need it: restore a moment before that with --at",
            time_text(time_ms)
        ),
        (true, Some(next)) => {
            format!("the restore points before {next} need it: restore that moment or a later one")
        }
        (false, Some(next)) => format!(
            "the restore points from {} on need it, up to that of {next}: restore an earlier or a later moment with --at",
            time_text(time_ms)
        ),
    };
    format!("{needs}; densite replicate --takeover sends a new base, if the database still exists")
}

fn head_lost(problem: &str, generations: &[String]) -> String {
    let of = match generations {
        [] => {
            return format!(
                "the object head {problem}; ship with --takeover, which makes a new one"
            );
        }
        [one] => one.clone(),
        [first, second] => format!("{first} and {second}"),
        [first, .., last] => format!("{first} to {last}"),
    };
    format!(
        "the object head {problem}, but objects of {of} are here; densite restore can do without the head; to ship here, use --takeover, which begins a new generation: what is stored stays restorable"
    )
}

impl From<densite_log::Error> for Error {
    fn from(error: densite_log::Error) -> Error {
        let message = format!("the log of the database: {error}");
        Error::source(message, matches!(error, densite_log::Error::Full(_)))
    }
}

impl From<densite_store::Error> for Error {
    fn from(error: densite_store::Error) -> Error {
        Error::source(
            error.to_string(),
            matches!(error, densite_store::Error::Full(_)),
        )
    }
}
