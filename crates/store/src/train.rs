//! Learning dictionaries while pages are written.
//!
//! The learner (one per file and process) samples what is written. When a family of pages is worth it, training runs on the
//! pool; when it is done, the dictionary is appended like any other record and used from then on. A commit that is never
//! made takes its dictionaries with it; numbers are not used again (rule 12).

use crate::codec::Dictionary;
use crate::codec::choice::{CANDIDATES, TrainedFamilies};
use crate::codec::family::Family;
use crate::codec::learn::TrainingResult;
use crate::error::Result;
use crate::format::MAX_DICT;
use crate::format::record::{Kind, RECORD_LEN, Record};
use crate::format::trailer::DictInfo;
use crate::handle::Handle;
use crate::map::NodeRef;
use crate::pool::Task;
use crate::shared::Shared;
use std::collections::HashMap;
use std::sync::Arc;

/// An older dictionary is tried while it serves one in so many of its family's pages.
const PART: i64 = 16;

/// A training under way.
#[derive(Default)]
pub(crate) struct Training {
    running: Option<Task<Vec<TrainingResult>>>,
    /// What the present commit may use.
    current: Arc<TrainedFamilies>,
    /// The commit whose dictionaries `current` was made from, and how many of its own it has added.
    made_for: (u64, usize),
}

impl Handle {
    /// Dictionaries for new frames, by family: those of the published state and of the pending commit. Of each family the newest, and
    /// older ones that suit a part of it.
    pub(crate) fn dictionaries(&mut self) -> Result<Arc<TrainedFamilies>> {
        let shared = self.shared()?;
        let Some(p) = &self.pending else {
            return Ok(Arc::default());
        };
        let key = (p.commit, p.new_dicts.len());
        if self.training.made_for != key {
            let uses = {
                let writer = shared.writer.lock();
                let space = writer.space.as_ref();
                space.map_or_else(HashMap::new, |(_, space)| space.dict_uses.clone())
            };
            let mut trained = TrainedFamilies::new();
            let state = shared.state.read();
            for info in suitable(state.dicts.iter().chain(&p.new_dicts), &uses) {
                let dictionary = match shared.known_dictionary(info.id) {
                    Some(known) => known,
                    None => shared.dictionary(&*self.file, &state, info.id)?,
                };
                trained
                    .entry(Family(info.family))
                    .or_default()
                    .push(dictionary);
            }
            drop(state);
            shared
                .writer
                .lock()
                .learner
                .keep(|family| trained.contains_key(&family));
            self.training.current = Arc::new(trained);
            self.training.made_for = key;
        }
        Ok(Arc::clone(&self.training.current))
    }

    /// Gives numbers to what was learned before the commit, from pages on their way to the WAL, where frames of the batch were coded with it. A family
    /// for which something else was trained meanwhile keeps that.
    pub(crate) fn name_preencoded(&mut self) -> Result<()> {
        let batch = self.pending.iter().flat_map(|p| &p.batch);
        let unnamed = batch.filter_map(|job| {
            let frame = &job.preencoded.as_ref()?.frame;
            Some((frame.family, Arc::clone(frame.unnamed()?)))
        });
        let mut found: Vec<(Family, Arc<Dictionary>)> = Vec::new();
        for (family, dict) in unnamed {
            if !found.iter().any(|(_, known)| Arc::ptr_eq(known, &dict)) {
                found.push((family, dict));
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        let (shared, trained) = (self.shared()?, self.dictionaries()?);
        for (family, dict) in found {
            if !trained.contains_key(&family) {
                let trained = TrainingResult {
                    family,
                    codec: dict.codec(),
                    bytes: dict.bytes().to_vec(),
                    ratio: 0.0,
                };
                self.install_one(&shared, trained);
            }
        }
        Ok(())
    }

    /// Takes in a training that is done, and starts one that is due. Without a pool it is done at once.
    pub(crate) fn train(&mut self) -> Result<()> {
        let shared = self.shared()?;
        if let Some(p) = &self.pending {
            // A bulk load's pages are worth more than the database was when it began.
            let bytes = p.logical_len.max(shared.state.read().logical_len);
            shared.writer.lock().learner.raise_database_bytes(bytes);
        }
        if let Some(task) = self.training.running.take() {
            if task.is_done() {
                self.install(&shared, task);
            } else {
                self.training.running = Some(task);
            }
        }
        // A family's first training job (0.02 s) is done at once, whatever else is under way: its pages are stored the larger way until then.
        loop {
            let first = shared.writer.lock().learner.due_first();
            let Some(training_job) = first else { break };
            self.install(&shared, Task::lazy(move || training_job.train()));
        }
        if self.training.running.is_some() {
            return Ok(());
        }
        let due = shared.writer.lock().learner.due();
        if let Some(training_job) = due {
            let task = Task::spawn(&self.pool, move || training_job.train());
            if self.pool.is_none() {
                self.install(&shared, task);
            } else {
                self.training.running = Some(task);
            }
        }
        Ok(())
    }

    /// Appends what a training job brought to the pending commit.
    fn install(&mut self, shared: &Arc<Shared>, task: Task<Vec<TrainingResult>>) {
        for trained in task.wait().into_iter().flatten() {
            if self.install_one(shared, trained).is_none() {
                return;
            }
        }
    }

    fn install_one(&mut self, shared: &Arc<Shared>, trained: TrainingResult) -> Option<()> {
        let p = self.pending.as_mut()?;
        let mut writer = shared.writer.lock();
        let id = shared.state.read().next_dict().max(writer.last_dict + 1);
        let (_, space) = writer.space.as_mut().filter(|_| id < MAX_DICT)?;
        let dict = Arc::new(Dictionary::new(id, trained.codec, trained.bytes));
        let len = (RECORD_LEN + dict.bytes().len()) as u64;
        p.appender.make_room(space, len, p.commit).ok()?;
        let place: NodeRef = p.appender.push(
            Record {
                codec: trained.codec.0,
                ..Record::plain(Kind::Dictionary, id, p.commit)
            },
            dict.bytes(),
        );
        writer.last_dict = id;
        writer.first_dict = writer.first_dict.min(id);
        p.new_dicts.push(DictInfo {
            id,
            family: trained.family.0,
            place,
            uses: 0,
        });
        shared.add_dictionary(&dict);
        writer.learner.installed(trained.family, &dict);
        Some(())
    }

    /// Trains dictionaries from sample pages drawn evenly from a database of `database` bytes that is about to be written.
    ///
    /// # Errors
    /// I/O.
    pub fn learn(&mut self, samples: &[Vec<u8>], database: u64) -> Result<()> {
        self.begin_write(samples.first().map_or(0, Vec::len) as u32)?;
        let shared = self.shared()?;
        {
            let mut writer = shared.writer.lock();
            writer.learner.set_database_bytes(database);
            for s in samples {
                writer.learner.observe(Family::of(s), s);
            }
            writer.learner.flush();
        }
        let mut tasks = Vec::new();
        loop {
            let training_job = shared.writer.lock().learner.due();
            let Some(training_job) = training_job else {
                break;
            };
            tasks.push(Task::spawn(&self.pool, move || training_job.train()));
        }
        for task in tasks {
            self.install(&shared, task);
        }
        Ok(())
    }
}

/// Of each family what pages are tried with, the newest first: what the last training job brought, and what serves a good part of its pages.
fn suitable<'a>(
    all: impl Iterator<Item = &'a DictInfo>,
    uses: &HashMap<u32, i64>,
) -> Vec<&'a DictInfo> {
    let mut all: Vec<&DictInfo> = all.collect();
    all.sort_unstable_by_key(|info| std::cmp::Reverse(info.id));
    let used = |info: &DictInfo| uses.get(&info.id).copied().unwrap_or(0);
    let mut served: HashMap<u16, (i64, usize)> = HashMap::new();
    for info in &all {
        served.entry(info.family).or_default().0 += used(info);
    }
    let mut newer: HashMap<u16, u32> = HashMap::new();
    all.retain(|info| {
        let (in_all, taken) = served.entry(info.family).or_default();
        let of_one_job = newer.insert(info.family, info.id) == Some(info.id + 1);
        let unused = used(info) == 0;
        let suits = used(info) * PART >= (*in_all).max(1) || unused && of_one_job;
        let tried = *taken == 0 || *taken < CANDIDATES && suits;
        *taken += usize::from(tried);
        tried
    });
    all
}
