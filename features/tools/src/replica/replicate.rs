//! Ships one database, or all compressed databases of a directory.

use super::bucket::Place;
use super::doubts::doubts;
use super::figures::{Ended, Figures, PointInBucket};
use super::gated::Gated;
use super::object::is_object;
use super::open_state::{Look, State};
use super::owner::owner;
use super::shipped_database::{Database, now_ms};
use super::traffic::Counted;
use crate::error::{Error, Result};
use crate::form::{self, Form};
use crate::progress::Progress;
use crate::target::{self, COMPANIONS, TEMP_MARK};
use densite_replica::{Error as Wrong, Shipper, ShipperOptions, Step};
use densite_sqlite::{Api, Code, fork_gate};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How databases are shipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicateOptions {
    /// How long restore points are kept; at least an hour.
    pub retain: Duration,
    /// After this time, the next change is shipped with a new image of the whole file.
    pub base_every: Duration,
    /// Continue although the replica has another database or another history, or another process
    /// ships to it.
    pub takeover: bool,
}

impl Default for ReplicateOptions {
    fn default() -> ReplicateOptions {
        let options = ShipperOptions::default();
        ReplicateOptions {
            retain: options.retain,
            base_every: options.base_every,
            takeover: options.takeover,
        }
    }
}

/// What became of one database in a round.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Shipped {
    /// Shipping begins or continues at this restore point.
    Began {
        /// The database.
        db: PathBuf,
        /// The replica, without secrets.
        url: PathBuf,
        /// The name of the generation.
        generation: String,
        /// The newest restore point in the bucket.
        n: u64,
        /// The database names a log (`densite_ingest`) that is not beside it.
        lacks_log: bool,
        /// What a restore will warn of, and what to do about it.
        warnings: Vec<String>,
    },
    /// A restore point is in the bucket.
    Point {
        /// The database.
        db: PathBuf,
        /// Its number.
        n: u64,
        /// Bytes that were sent.
        bytes: u64,
        /// It has new rows of the log alone: readers or writers hold back the next state of the
        /// database.
        is_held_back: bool,
    },
    /// Deltas were merged.
    Compacted {
        /// The database.
        db: PathBuf,
        /// Bytes of the merged object.
        bytes: u64,
    },
    /// Readers or writers hold back the next restore point.
    HeldBack {
        /// The database.
        db: PathBuf,
        /// When the newest restore point in the bucket was taken, in milliseconds since 1970.
        since_ms: u64,
    },
    /// Shipping failed, and is tried again in the next round unless the failure is final.
    Failed {
        /// The database.
        db: PathBuf,
        /// What is wrong.
        error: Error,
        /// Whether it is not tried again.
        is_final: bool,
    },
}

/// A database that is shipped.
struct Replica {
    place: Place,
    shipper: Shipper,
    state: State,
    /// The last step failed. So the next one can send a delta that was made before it.
    has_failed: bool,
}

impl Replica {
    fn point(&self) -> PointInBucket {
        let (n, ..) = self.shipper.position();
        PointInBucket {
            generation: self.shipper.generation().to_owned(),
            n,
            time_ms: self.shipper.state_ms(),
        }
    }
}

/// All databases that are shipped by this process.
pub struct Replicas {
    api: Api,
    given: PathBuf,
    url: PathBuf,
    options: ReplicateOptions,
    is_directory: bool,
    open: BTreeMap<PathBuf, Replica>,
    /// Databases whose shipping failed for good.
    ended: BTreeSet<PathBuf>,
    figures: BTreeMap<PathBuf, Figures>,
}

impl Replicas {
    /// Prepares shipping a database, or all compressed databases of a directory, each to its file
    /// name under the URL. Sends nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Setting`] for a URL that is not understood.
    pub fn new(api: Api, given: &Path, url: &Path, options: ReplicateOptions) -> Result<Replicas> {
        let meta = std::fs::metadata(given).map_err(|e| Error::from_std(given, "reach it", &e))?;
        Place::to_read(url)?;
        Ok(Replicas {
            api,
            given: given.to_path_buf(),
            url: url.to_path_buf(),
            options,
            is_directory: meta.is_dir(),
            open: BTreeMap::new(),
            ended: BTreeSet::new(),
            figures: BTreeMap::new(),
        })
    }

    /// Whether all databases of a directory are shipped.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Ships what is new in each database. Nothing new takes no request. `progress` gets the bytes
    /// of images that are sent.
    ///
    /// # Errors
    /// If the directory cannot be read. Failures of a database are among the results.
    pub fn round(&mut self, progress: &mut dyn Progress) -> Result<Vec<Shipped>> {
        self.round_with(Look::AtFiles, progress)
    }

    /// As [`Replicas::round`], but it opens databases that look unchanged. A change just before can
    /// have left their time stamps as they were.
    ///
    /// # Errors
    /// As [`Replicas::round`].
    pub fn thorough_round(&mut self, progress: &mut dyn Progress) -> Result<Vec<Shipped>> {
        self.round_with(Look::Inside, progress)
    }

    /// What is known of each database.
    pub fn figures(&self) -> impl Iterator<Item = &Figures> {
        self.figures.values()
    }

    fn round_with(&mut self, look: Look, progress: &mut dyn Progress) -> Result<Vec<Shipped>> {
        let mut results = Vec::new();
        for db in self.databases()? {
            if self.ended.contains(&db) || progress.cancelled() {
                continue;
            }
            let begun = Instant::now();
            let done = self.one(&db, look, &mut results, progress);
            match done {
                Ok(how) => self.figures_of(&db).ended(begun, &how),
                Err(Failure { error, is_final }) => {
                    if is_final {
                        self.ended.insert(db.clone());
                        let _inside = fork_gate::enter();
                        self.open.remove(&db);
                    }
                    self.figures_of(&db).failed(&error, is_final);
                    results.push(Shipped::Failed {
                        db,
                        error,
                        is_final,
                    });
                }
            }
        }
        Ok(results)
    }

    fn figures_of(&mut self, db: &Path) -> &mut Figures {
        let url = Place::shown_name(&self.url_of(db));
        let new = || Figures::new(db, url);
        self.figures.entry(db.to_path_buf()).or_insert_with(new)
    }

    /// The databases that are there now.
    fn databases(&mut self) -> Result<Vec<PathBuf>> {
        if !self.is_directory {
            return Ok(vec![self.given.clone()]);
        }
        let failed = |e| Error::from_std(&self.given, "read it", &e);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.given).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().map(|name| name.to_string_lossy());
            let name = name.unwrap_or_default();
            let is_beside = COMPANIONS.iter().any(|end| name.ends_with(end));
            if is_beside || name.contains(TEMP_MARK) || !path.is_file() {
                continue;
            }
            let is_known = self.open.contains_key(&path) || self.ended.contains(&path);
            let is_compressed = || {
                let form = target::resolve(&path).and_then(|t| form::form(self.api, &t));
                let is_compressed = form.is_ok_and(|form| form == Form::Compressed);
                is_compressed && !is_object(self.api, &path)
            };
            if is_known || is_compressed() {
                found.push(path);
            }
        }
        found.sort();
        self.open.retain(|path, _| found.contains(path));
        self.figures.retain(|path, _| found.contains(path));
        Ok(found)
    }

    /// Ships what is new in one database.
    fn one(
        &mut self,
        db: &Path,
        look: Look,
        results: &mut Vec<Shipped>,
        progress: &mut dyn Progress,
    ) -> std::result::Result<Ended, Failure> {
        if !self.open.contains_key(db) {
            let replica = self.begin(db, progress)?;
            let point = replica.point();
            self.figures_of(db).is_at(point.clone());
            results.push(Shipped::Began {
                db: db.to_path_buf(),
                url: replica.place.shown().to_path_buf(),
                generation: point.generation,
                n: point.n,
                lacks_log: crate::log::is_missing(self.api, db),
                warnings: self.doubts(db),
            });
            self.open.insert(db.to_path_buf(), replica);
        }
        let Some(replica) = self.open.get_mut(db) else {
            return Ok(Ended::Incomplete);
        };
        let Replica {
            place,
            shipper,
            state,
            has_failed,
        } = replica;
        let inside = fork_gate::enter();
        let Some(database) = state.database(self.api, db, look)? else {
            return Ok(Ended::Complete);
        };
        drop(inside);
        let had_failed = std::mem::replace(has_failed, true);
        let step = shipper.step(&mut Gated(database), now_ms(), &mut |done| {
            told(progress, done)
        });
        let step = step.map_err(|e| Failure::of(place, &e))?;
        *has_failed = false;
        let inside = fork_gate::enter();
        state.rest(&step, db);
        drop(inside);
        let compacted = shipper.take_compacted();
        let point = replica.point();
        let since_ms = point.time_ms;
        self.figures_of(db).is_at(point);
        let db = db.to_path_buf();
        let ended = match step {
            Step::Idle => Ended::Complete,
            Step::HeldBack => Ended::HeldBack,
            Step::Shipped {
                n,
                bytes,
                is_held_back,
            } => {
                results.push(Shipped::Point {
                    db: db.clone(),
                    n,
                    bytes,
                    is_held_back,
                });
                match (is_held_back, had_failed) {
                    (true, _) => Ended::HeldBack,
                    (false, true) => Ended::Incomplete,
                    (false, false) => Ended::Complete,
                }
            }
            Step::Compacted { bytes } => {
                let db = db.clone();
                results.push(Shipped::Compacted { db, bytes });
                Ended::Complete
            }
        };
        if let Some(bytes) = compacted {
            let db = db.clone();
            results.push(Shipped::Compacted { db, bytes });
        }
        if ended == Ended::HeldBack {
            results.push(Shipped::HeldBack { db, since_ms });
        }
        Ok(ended)
    }

    /// What a restore will warn of. The error log of the process has it, too.
    fn doubts(&self, db: &Path) -> Vec<String> {
        let _inside = fork_gate::enter();
        let doubts = doubts(self.api, db);
        for doubt in &doubts {
            let message = format!("densite: {}: {doubt}", db.display());
            self.api.log(Code::WARNING, &message);
        }
        doubts
    }

    fn begin(
        &mut self,
        db: &Path,
        progress: &mut dyn Progress,
    ) -> std::result::Result<Replica, Failure> {
        let traffic = self.figures_of(db).traffic();
        let inside = fork_gate::enter();
        if is_object(self.api, db) {
            return Err(Error::Setting(format!(
                "{}: this is an object of a replica, not a database; densite restore makes a database of the replica",
                db.display()
            ))
            .into());
        }
        let mut database = Database::open(self.api, db)?;
        drop(inside);
        let place = Place::to_write(&self.url_of(db))?;
        let options = ShipperOptions {
            retain: self.options.retain,
            base_every: self.options.base_every,
            takeover: self.options.takeover,
            owner: owner(database.path())?,
            ..ShipperOptions::default()
        };
        progress.phase("replicating", crate::target::len_or_zero(db));
        let bucket = place.shared();
        let shipper = Shipper::begin(
            Arc::new(Counted { bucket, traffic }),
            &mut Gated(&mut database),
            options,
            now_ms(),
            &mut |done| told(progress, done),
        );
        let shipper = match shipper {
            Ok(shipper) => shipper,
            Err(e) => {
                let _inside = fork_gate::enter();
                drop(database);
                return Err(Failure::of(&place, &e));
            }
        };
        Ok(Replica {
            place,
            state: State::open(database, shipper.is_merged()),
            shipper,
            has_failed: false,
        })
    }

    /// Where a database goes.
    fn url_of(&self, db: &Path) -> PathBuf {
        match db.file_name() {
            Some(name) if self.is_directory => {
                let mut url = self.url.as_os_str().to_owned();
                if !url.to_string_lossy().ends_with('/') {
                    url.push("/");
                }
                url.push(name);
                url.into()
            }
            _ => self.url.clone(),
        }
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        // Closes the databases.
        let _inside = fork_gate::enter();
        self.open.clear();
    }
}

fn told(progress: &mut dyn Progress, done: u64) -> bool {
    progress.done(done);
    !progress.cancelled()
}

/// A failure, of the replica or before.
struct Failure {
    error: Error,
    /// Whether trying again is of no use.
    is_final: bool,
}

impl Failure {
    fn of(place: &Place, e: &Wrong) -> Failure {
        Failure {
            error: place.failed(e),
            is_final: matches!(
                e,
                Wrong::AnotherDatabase
                    | Wrong::AnotherHistory
                    | Wrong::AnotherWriter { .. }
                    | Wrong::TakenOver
                    | Wrong::NotAtomic
                    | Wrong::Newer { .. }
                    | Wrong::Damaged { .. }
                    | Wrong::HeadLost { .. }
                    | Wrong::Missing(_)
                    | Wrong::Gap { .. }
            ),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let is_final = matches!(
            error,
            Error::Setting(_)
                | Error::NotADatabase { .. }
                | Error::OtherFormat { .. }
                | Error::Damaged { .. }
        );
        Failure { error, is_final }
    }
}
