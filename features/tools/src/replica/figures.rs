//! What is known of the shipping of a database, for its users and for monitoring.

use super::traffic::Traffic;
use crate::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A restore point in the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointInBucket {
    /// The name of its generation.
    pub generation: String,
    /// Its number.
    pub n: u64,
    /// When it was taken, in milliseconds since 1970.
    pub time_ms: u64,
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Figures {
    db: PathBuf,
    url: PathBuf,
    point: Option<PointInBucket>,
    /// Everything that was committed before this moment is in the bucket.
    complete: Option<Instant>,
    is_held_back: bool,
    failure: Option<String>,
    is_final: bool,
    errors: u64,
    traffic: Arc<Traffic>,
}

/// How a round of a database ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Everything that was committed before the round is in the bucket.
    Complete,
    /// There can be more.
    Incomplete,
    /// Readers or writers hold back the next restore point.
    HeldBack,
}

impl Figures {
    pub(super) fn new(db: &Path, url: PathBuf) -> Figures {
        Figures {
            db: db.to_path_buf(),
            url,
            point: None,
            complete: None,
            is_held_back: false,
            failure: None,
            is_final: false,
            errors: 0,
            traffic: Arc::default(),
        }
    }

    /// The database.
    #[must_use]
    pub fn db(&self) -> &Path {
        &self.db
    }

    /// The replica, without secrets.
    #[must_use]
    pub fn url(&self) -> &Path {
        &self.url
    }

    /// The newest restore point in the bucket, if it is known.
    #[must_use]
    pub fn point(&self) -> Option<&PointInBucket> {
        self.point.as_ref()
    }

    /// The age of the last moment before which all commits are in the bucket; `None` before the
    /// first one.
    #[must_use]
    pub fn lag(&self) -> Option<Duration> {
        self.complete.map(|at| at.elapsed())
    }

    /// Everything that was committed before this moment is in the bucket.
    #[must_use]
    pub fn complete(&self) -> Option<Instant> {
        self.complete
    }

    /// Whether readers or writers hold back the next restore point.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.is_held_back
    }

    /// The last failure, if nothing has succeeded since.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether shipping has failed for good.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// How many rounds failed.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Requests that were sent, and bytes of objects in them.
    #[must_use]
    pub fn sent(&self) -> (u64, u64) {
        self.traffic.sent()
    }

    pub(super) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    pub(super) fn is_at(&mut self, point: PointInBucket) {
        self.point = Some(point);
    }

    /// Notes a round that began at this moment.
    pub(super) fn ended(&mut self, begun: Instant, how: &Ended) {
        self.failure = None;
        self.is_held_back = matches!(how, Ended::HeldBack);
        if matches!(how, Ended::Complete) {
            self.complete = Some(begun);
        }
    }

    /// Notes a round that failed.
    pub(super) fn failed(&mut self, error: &Error, is_final: bool) {
        self.errors += 1;
        self.failure = Some(error.to_string());
        self.is_held_back = false;
        self.is_final = is_final;
    }
}
