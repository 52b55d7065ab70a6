//! Trains dictionaries while pages are written.
//!
//! The learner (one per file and process) samples written pages. If a family is worth it, training
//! runs on the pool. Some batches later, the dictionary is appended like any other record and used
//! from then on. A commit that fails loses its dictionaries, and this process does not use their
//! numbers again (rule S12).

use super::Transaction;
use crate::codec::Dictionary;
use crate::codec::dictionary_choice::{CANDIDATES, TrainedFamilies};
use crate::codec::family::Family;
use crate::codec::learn::{TrainingJob, TrainingResult};
use crate::connection::Connection;
use crate::encode::Job;
use crate::error::Result;
use crate::format::record::{Kind, RECORD_LEN, Record};
use crate::format::trailer::{DictInfo, Learned};
use crate::pool::{Pool, Task};
use crate::shared::Shared;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// An older dictionary is tried while at least one in so many of its family's pages uses it.
const PART: i64 = 16;

impl Transaction {
    /// Dictionaries for new frames, by family: those of the published state and of this commit. For
    /// each family the newest one, and older ones that suit a part of it.
    ///
    /// # Errors
    /// I/O, damage.
    pub(super) fn dictionaries(&self, connection: &mut Connection) -> Result<Arc<TrainedFamilies>> {
        let made_for = (self.commit, self.new_dicts.len());
        if let Some(known) = connection.training.trained(made_for) {
            return Ok(known);
        }
        let shared = connection.open.shared()?;
        let mut uses = {
            let writer = shared.writer.lock();
            let space = writer.accounting.space();
            space.map_or_else(HashMap::new, |space| space.dict_uses.clone())
        };
        for (id, pages) in &self.dict_uses {
            *uses.entry(*id).or_default() += pages;
        }
        let mut trained = TrainedFamilies::new();
        let state = shared.state.read();
        let new = self.new_dicts.iter();
        let new = new.filter(|info| !self.superseded.contains(&info.id));
        let all: Vec<&DictInfo> = state.dicts().iter().chain(new).collect();
        for info in suitable(&current(&all, self.learned), &uses, self.learned) {
            let dictionary = match shared.dictionaries.known(info.id) {
                Some(known) => known,
                None => shared.dictionary(connection.open.file(), &state, info.id)?,
            };
            trained
                .entry(Family(info.family))
                .or_default()
                .push(dictionary);
        }
        drop(state);
        let learning = &mut shared.writer.lock().learning;
        (learning.learner()).keep(|family| trained.contains_key(&family));
        let trained = Arc::new(trained);
        connection.training.keep(made_for, &trained);
        Ok(trained)
    }

    /// Gives numbers to dictionaries that were trained before the commit, on pages on their way to
    /// the WAL, if frames of the batch use them. A family for which another one was trained
    /// meanwhile keeps that.
    ///
    /// # Errors
    /// I/O, damage.
    pub(super) fn name_preencoded(
        &mut self,
        connection: &mut Connection,
        jobs: &[Job],
    ) -> Result<()> {
        let unnamed = jobs.iter().filter_map(|job| {
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
        let shared = connection.open.shared()?;
        let trained = self.dictionaries(connection)?;
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

    /// Installs the result of a training job, and starts one that is due. Call it once for each
    /// batch: both happen at places in the sequence of pages that do not depend on the pool.
    ///
    /// # Errors
    /// [`Error::NotDensite`](crate::Error::NotDensite) if the file is empty.
    pub(super) fn train(&mut self, connection: &mut Connection) -> Result<()> {
        let shared = connection.open.shared()?;
        // A bulk load makes the database larger than it was at the begin.
        let bytes = self.logical_len.max(shared.state.read().logical_len());
        (shared.writer.lock().learning.learner()).raise_database_bytes(bytes);
        if let Some(task) = connection.training.next_batch() {
            self.install(&shared, task.wait().unwrap_or_default());
        }
        // A family's first training job (0.02 s) runs at once, even if another one is running:
        // until then its pages are stored in a larger form.
        loop {
            let first = shared.writer.lock().learning.learner().due_first();
            let Some(training_job) = first else { break };
            let task = Task::lazy(move || training_job.train());
            self.install(&shared, task.wait().unwrap_or_default());
        }
        // Drift is local if a sample of all pages was trained on, or will be: models of the last
        // pages make the next ones larger, not smaller.
        let is_even = shared.writer.lock().learning.learner().is_even();
        if connection.training.is_running() || is_even || self.is_large(connection) {
            return Ok(());
        }
        let due = shared.writer.lock().learning.learner().due();
        if let Some(training_job) = due {
            let pool = connection.open.pool().cloned();
            connection.training.begin(training_job, &pool);
        }
        Ok(())
    }

    /// Appends the result of a training job.
    fn install(&mut self, shared: &Shared, results: Vec<TrainingResult>) {
        for trained in results {
            if self.install_one(shared, trained).is_none() {
                return;
            }
        }
    }

    pub(super) fn install_one(&mut self, shared: &Shared, trained: TrainingResult) -> Option<()> {
        let mut writer = shared.writer.lock();
        let next = shared.state.read().next_dict();
        let id = writer.learning.next_number(next)?;
        let space = writer.accounting.space_mut()?;
        let dict = Arc::new(Dictionary::new(id, trained.codec, trained.bytes));
        let (codec, payload) = dict.to_stored();
        let len = (RECORD_LEN + payload.len()) as u64;
        self.appender.make_room(space, len, self.commit).ok()?;
        let record = Record {
            codec: codec.0,
            ..Record::plain(Kind::Dictionary, id, self.commit)
        };
        let place = self.appender.push(record, &payload);
        self.new_dicts.push(DictInfo {
            id,
            family: trained.family.0,
            place,
            uses: 0,
        });
        shared.dictionaries.add(&dict);
        writer.learning.installed(trained.family, &dict);
        Some(())
    }

    /// Trains dictionaries and models from sample pages, drawn evenly from a database of `database`
    /// bytes that is about to be written.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn learn(
        &mut self,
        connection: &Connection,
        samples: &[Vec<u8>],
        database: u64,
    ) -> Result<()> {
        let shared = connection.open.shared()?;
        // Nothing is learned later that would make the first frames smaller.
        self.holds_back = false;
        let pages = database / u64::from(self.page_size);
        self.learned.pages = u32::try_from(pages).unwrap_or(u32::MAX);
        {
            let mut writer = shared.writer.lock();
            let learner = writer.learning.learner();
            learner.set_database_bytes(database);
            for s in samples {
                learner.observe(Family::of(s), s);
            }
            learner.flush();
        }
        let mut jobs = Vec::new();
        while let Some(job) = shared.writer.lock().learning.learner().due() {
            jobs.push(job);
        }
        let tokens: Vec<_> = jobs.iter().map(TrainingJob::token).collect();
        for results in train_all(jobs, connection.open.pool()) {
            self.install(&shared, results);
        }
        drop(tokens);
        Ok(())
    }
}

/// The results of training jobs, those of the most samples first. They run on the pool and on this
/// thread.
pub(super) fn train_all(
    mut jobs: Vec<TrainingJob>,
    pool: Option<&Arc<Pool>>,
) -> Vec<Vec<TrainingResult>> {
    jobs.sort_by_key(|job| Reverse(job.sample_bytes()));
    let threads = 1 + pool.map_or(0, |pool| pool.threads());
    let tasks = jobs.into_iter().map(|job| {
        let job = job.on(threads);
        Task::lazy(move || job.train())
    });
    let tasks: Vec<_> = tasks.collect();
    if let Some(pool) = pool {
        // It takes as many as it has room for.
        let _ = tasks.iter().all(|task| task.offer(pool));
    }
    let results = Task::wait_all(tasks).into_iter();
    results.map(Option::unwrap_or_default).collect()
}

/// Those that are not superseded by dictionaries of their family from `learned.first` on.
fn current<'a>(all: &[&'a DictInfo], learned: Learned) -> Vec<&'a DictInfo> {
    let is_newer = |info: &DictInfo| info.id >= learned.first;
    let newer = all.iter().filter(|info| is_newer(info));
    let families: HashSet<u16> = newer.map(|info| info.family).collect();
    let current = all.iter().copied();
    let current = current.filter(|info| is_newer(info) || !families.contains(&info.family));
    current.collect()
}

/// The dictionaries to try for pages of each family, the newest first: those of the last training
/// job, and those that many of its pages use.
fn suitable<'a>(
    all: &[&'a DictInfo],
    uses: &HashMap<u32, i64>,
    learned: Learned,
) -> Vec<&'a DictInfo> {
    let mut all = all.to_vec();
    all.sort_unstable_by_key(|info| Reverse(info.id));
    let used = |info: &DictInfo| uses.get(&info.id).copied().unwrap_or(0);
    // While pages are encoded again, those that new ones suit may still come.
    let is_coming = |info: &DictInfo| learned.next > 0 && info.id >= learned.first;
    let mut served: HashMap<u16, (i64, usize)> = HashMap::new();
    for info in &all {
        served.entry(info.family).or_default().0 += used(info);
    }
    let mut newer: HashMap<u16, u32> = HashMap::new();
    all.retain(|info| {
        let (in_all, taken) = served.entry(info.family).or_default();
        let of_one_job = newer.insert(info.family, info.id) == Some(info.id + 1);
        let is_new = used(info) == 0 || is_coming(info);
        let suits = used(info) * PART >= (*in_all).max(1) || is_new && of_one_job;
        let tried = *taken == 0 || *taken < CANDIDATES && suits;
        *taken += usize::from(tried);
        tried
    });
    all
}
