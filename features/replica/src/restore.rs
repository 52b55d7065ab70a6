//! Puts a file and its log together from the objects of a replica.

mod large;

use crate::bucket::{Bucket, Stored};
use crate::chain::Chain;
use crate::error::{Error, Result};
use crate::extents::Object;
use crate::format::{Base, Footer, Generation, Head, Kind};
use crate::headless;
use crate::log_place::{Place, place};
use crate::names;
use crate::restore_plan::{Limit, NEWEST};
use densite_disk::{Dir, File, SyncKind};
use densite_log::RestoredLog;
use densite_store::CommitId;

/// An object of at most so many bytes is read with one request.
const WHOLE: u64 = 32 << 20;
/// A delta of more bytes is read alone.
const LARGE: u64 = 8 << 20;

/// The longest state of a log, bytes.
const STATE_MAX: usize = 16 << 20;

/// Which restore point is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The newest one.
    Newest,
    /// The newest one that is not after this moment, in milliseconds since 1970.
    Time(u64),
    /// The one of this number in the current generation.
    Number(u64),
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The name of its generation.
    pub generation: String,
    /// The number of the restore point.
    pub n: u64,
    /// When it was taken, in milliseconds since 1970.
    pub time_ms: u64,
    /// Its commit.
    pub mark: CommitId,
    /// Bytes of the file.
    pub image_len: u64,
    /// Whether the database has a log.
    pub has_log: bool,
    /// How many objects were read.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is wrong with the head, as the end of a sentence, if a list of the objects took its
    /// place.
    pub head_problem: Option<String>,
}

/// A restore point that was found, to be restored.
pub struct Restore<'a> {
    bucket: &'a dyn Bucket,
    at: At,
    limit: Limit,
    generation: Generation,
    base: Base,
    others: Others,
    /// See [`Restored`].
    head_problem: Option<String>,
    without_log: bool,
}

/// The bases beside one, which say what can be restored if it is lost.
pub(crate) struct Others {
    /// Whether there is none before it.
    is_first: bool,
    /// When the next one was taken, in milliseconds since 1970.
    next_ms: Option<u64>,
}

impl Others {
    /// Those of a base that the head names.
    pub(crate) fn of(head: &Head, base: &Base) -> Others {
        let generations = head.earlier.iter().chain([&head.current]);
        let all: Vec<&Base> = generations.flat_map(|g| &g.bases).collect();
        let at = all.iter().position(|other| other.name == base.name);
        let next = at.and_then(|at| all.get(at + 1));
        Others {
            is_first: at == Some(0),
            next_ms: next.map(|base| base.time_ms),
        }
    }

    /// The error of a base that is missing or damaged, which says what can be done; other errors as
    /// they are.
    pub(crate) fn explained(&self, e: Error, base: &Base) -> Error {
        let problem = match &e {
            Error::Missing(object) if *object == base.name => "missing".to_owned(),
            Error::Damaged { object, problem } if *object == base.name => {
                format!("damaged: {problem}")
            }
            _ => return e,
        };
        Error::BaseLost {
            object: base.name.clone(),
            problem,
            time_ms: base.time_ms,
            is_first: self.is_first,
            next_ms: self.next_ms,
        }
    }
}

impl<'a> Restore<'a> {
    /// Finds a restore point.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn find(bucket: &'a dyn Bucket, at: At) -> Result<Restore<'a>> {
        let (head, head_problem) = headless::head_or_list(bucket)?;
        let (generation, limit) = choose(&head, at)?;
        let base = generation.base_within(limit).cloned();
        let base = base.ok_or_else(|| Error::Missing(names::bases(&generation.name, 0)))?;
        Ok(Restore {
            bucket,
            at,
            limit,
            generation: generation.clone(),
            others: Others::of(&head, &base),
            base,
            head_problem,
            without_log: false,
        })
    }

    /// Restores the database alone, without its log.
    #[must_use]
    pub fn without_log(self) -> Restore<'a> {
        Restore {
            without_log: true,
            ..self
        }
    }

    /// Names what is restored: a file that an interrupted restore of the same name left can be
    /// completed. `None` if the base is read with one request, so that nothing is gained.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let at = match self.at {
            At::Newest => "newest".to_owned(),
            At::Time(time_ms) => format!("time-{time_ms}"),
            At::Number(n) => format!("number-{n}"),
        };
        (self.base.bytes > WHOLE).then(|| format!("{}-{at}", self.base.name))
    }

    /// Writes the file as of the restore point to `file`, and syncs it. The file is empty, or was
    /// left by an interrupted call with the same [`Restore::name`]: then the parts of the base that
    /// it has are not read again. The log of the database, if it has one, is written to `log`, a
    /// directory without files. `progress` gets the bytes that were read and those to be read as
    /// far as known, first before anything of the base is read, and stops the work by returning
    /// false.
    ///
    /// # Errors
    /// See [`Error`]. After [`Error::Damaged`], the file is of no use.
    pub fn write(
        self,
        file: &dyn File,
        log: &dyn Dir,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Restored> {
        let restoring = Restoring {
            bucket: self.bucket,
            file,
            log: (!self.without_log).then(|| RestoredLog::new(log)),
            state: Vec::new(),
            progress,
            objects: 0,
            bytes: 0,
            resumed: 0,
            expected: self.base.bytes,
            has_head: self.head_problem.is_none(),
        };
        let done = restoring.run(&self.generation, &self.base, self.limit);
        let done = done.map_err(|e| self.others.explained(e, &self.base))?;
        match self.at {
            At::Number(n) if done.n != n => Err(Error::NoSuchPoint(n)),
            _ => Ok(Restored {
                head_problem: self.head_problem,
                ..done
            }),
        }
    }
}

/// The generation that has the restore point, and how far to go in it.
fn choose(head: &Head, at: At) -> Result<(&Generation, Limit)> {
    let limit = match at {
        At::Newest => NEWEST,
        At::Number(n) => Limit { n, ..NEWEST },
        At::Time(time_ms) => Limit { time_ms, ..NEWEST },
    };
    // While the first base of a new generation is being uploaded, the one before has the newest
    // state.
    let mut begun = head.newest_first();
    let chosen = match at {
        At::Number(_) => begun.next(),
        _ => begun.find(|g| g.base_within(limit).is_some()),
    };
    let chosen = chosen.filter(|g| g.base_within(limit).is_some());
    if let Some(chosen) = chosen {
        return Ok((chosen, limit));
    }
    let first = head.newest_first().filter_map(|g| g.bases.first()).last();
    Err(match (at, first) {
        (_, None) => Error::NoReplica,
        (At::Number(n), _) => Error::NoSuchPoint(n),
        (_, Some(first)) => Error::TooEarly {
            first_ms: first.time_ms,
        },
    })
}

struct Restoring<'a> {
    bucket: &'a dyn Bucket,
    file: &'a dyn File,
    /// `None` if the database is restored alone.
    log: Option<RestoredLog<'a>>,
    /// The state of the log.
    state: Vec<u8>,
    progress: &'a mut dyn FnMut(u64, u64) -> bool,
    objects: u64,
    /// Bytes of objects that were read.
    bytes: u64,
    /// Bytes that an interrupted call had read.
    resumed: u64,
    expected: u64,
    has_head: bool,
}

impl Restoring<'_> {
    fn run(mut self, generation: &Generation, base: &Base, limit: Limit) -> Result<Restored> {
        let name = base.name.clone();
        let (mut footer, mut chain) = match base.bytes <= WHOLE {
            true => {
                self.received(0)?;
                let bytes = self.get(&name)?;
                let bytes = bytes.ok_or_else(|| Error::Missing(name.clone()))?;
                self.apply(&Object::decode(&name, bytes)?)?
            }
            false => self.apply_large(&name, base.bytes)?,
        };
        let mut chain_of = Chain::behind(self.bucket, generation, base, limit)?;
        self.expected += chain_of.merged_bytes();
        // Large deltas follow large ones: these are read one by one, for their memory.
        let mut at_once = self.bucket.at_once();
        'chain: loop {
            let names = chain_of.next(at_once);
            if names.is_empty() {
                break;
            }
            let found = get_all(self.bucket, &names);
            at_once = self.bucket.at_once();
            for (name, stored) in names.into_iter().zip(found) {
                let Some(stored) = stored? else {
                    chain_of.ends_before(&name)?;
                    break 'chain;
                };
                if stored.len > LARGE {
                    at_once = 1;
                }
                self.objects += 1;
                self.received(stored.len)?;
                let object = Object::decode(&name, stored.bytes)?;
                let follows = &object.index.footer;
                // Whoever began to take over can have ended the chain before the last base was sent.
                if follows.kind == Kind::End {
                    if !self.has_head && follows.time_ms <= limit.time_ms {
                        headless::must_be_last(self.bucket, &generation.name, follows.last)?;
                    }
                    break 'chain;
                }
                if follows.previous != chain || follows.first != footer.last + 1 {
                    return Err(Error::Damaged {
                        object: name,
                        problem: "it does not follow the object before it".to_owned(),
                    });
                }
                if follows.time_ms > limit.time_ms {
                    break 'chain;
                }
                (footer, chain) = self.apply(&object)?;
            }
        }
        self.finish(generation, &footer)
    }

    fn finish(mut self, generation: &Generation, footer: &Footer) -> Result<Restored> {
        let local = Error::Local;
        let has_log = footer.log.is_some() && self.log.is_some();
        if let (Some(logged), Some(log)) = (&footer.log, self.log.take()) {
            self.state.truncate(logged.state_len as usize);
            let finished = log.finish(&logged.span, &self.state);
            finished.map_err(log_failed)?;
        }
        self.file.set_len(footer.image_len).map_err(local)?;
        self.file.sync(SyncKind::Full).map_err(local)?;
        let mark = footer.to.ok_or_else(|| Error::Damaged {
            object: generation.name.clone(),
            problem: "a footer names no commit".to_owned(),
        })?;
        Ok(Restored {
            generation: generation.name.clone(),
            n: footer.last,
            time_ms: footer.time_ms,
            mark,
            image_len: footer.image_len,
            has_log,
            objects: self.objects,
            bytes: self.bytes,
            head_problem: None,
        })
    }

    fn get(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(stored) = self.bucket.get(name)? else {
            return Ok(None);
        };
        self.objects += 1;
        self.received(stored.len)?;
        Ok(Some(stored.bytes))
    }

    fn received(&mut self, bytes: u64) -> Result<()> {
        self.bytes += bytes;
        let done = self.bytes + self.resumed;
        match (self.progress)(done, self.expected.max(done)) {
            true => Ok(()),
            false => Err(Error::Stopped),
        }
    }

    /// Writes bytes to their place.
    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        match place(offset) {
            Place::File => self.file.write_at(bytes, offset).map_err(Error::Local),
            Place::Segment(number, at) => match &mut self.log {
                Some(log) => log.write(number, bytes, at).map_err(log_failed),
                None => Ok(()),
            },
            Place::State(at) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                let end = at.saturating_add(bytes.len());
                if end > STATE_MAX {
                    return Err(log_failed(densite_log::Error::Limit(
                        "its state is too long",
                    )));
                }
                self.state.resize(self.state.len().max(end), 0);
                if let Some(place) = self.state.get_mut(at..end) {
                    place.copy_from_slice(bytes);
                }
                Ok(())
            }
        }
    }

    /// Writes the extents of an object.
    fn apply(&mut self, object: &Object) -> Result<(Footer, [u8; 16])> {
        for (offset, bytes) in object.extents() {
            self.write(bytes, offset)?;
        }
        Ok((object.index.footer.clone(), object.index.chain))
    }
}

/// Reads several objects at once.
fn get_all(bucket: &dyn Bucket, names: &[String]) -> Vec<Result<Option<Stored>>> {
    if let [name] = names {
        return vec![bucket.get(name)];
    }
    std::thread::scope(|scope| {
        let reading: Vec<_> = names
            .iter()
            .map(|name| scope.spawn(move || bucket.get(name)))
            .collect();
        let panicked = |_| Err(Error::Bucket("a thread panicked".to_owned()));
        let read = reading.into_iter();
        read.map(|thread| thread.join().unwrap_or_else(panicked))
            .collect()
    })
}

fn log_failed(e: densite_log::Error) -> Error {
    match e {
        densite_log::Error::Io(e) | densite_log::Error::Full(e) => Error::Local(e),
        e => Error::Damaged {
            object: "of the log".to_owned(),
            problem: e.to_string(),
        },
    }
}
