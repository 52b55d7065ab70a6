//! Learning dictionaries while pages are written.
//!
//! The learner (one per file and process) samples what is written. When a family of pages is worth it, training runs on the
//! pool; when it is done, the dictionary is appended like any other record and used from then on. A commit that is never
//! made takes its dictionaries with it; numbers are not used again (rule 12).

use crate::codec::Dictionary;
use crate::codec::family::Family;
use crate::codec::learn::Trained;
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

/// A training under way.
#[derive(Default)]
pub(crate) struct Training {
    running: Option<Task<Option<Trained>>>,
    /// The newest dictionary of each family that the present commit may use.
    current: Arc<HashMap<Family, Arc<Dictionary>>>,
    /// The commit whose dictionaries `current` was made from, and how many of its own it has added.
    made_for: (u64, usize),
}

impl Handle {
    /// Dictionaries for new frames, by family: those of the published state and of the pending commit.
    pub(crate) fn dictionaries(&mut self) -> Result<Arc<HashMap<Family, Arc<Dictionary>>>> {
        let shared = self.shared()?;
        let Some(p) = &self.pending else {
            return Ok(Arc::default());
        };
        let key = (p.commit, p.new_dicts.len());
        if self.training.made_for != key {
            let mut map = HashMap::new();
            let state = shared.state.read();
            for info in &state.dicts {
                map.insert(
                    Family(info.family),
                    shared.dictionary(&*self.file, &state, info.id)?,
                );
            }
            for info in &p.new_dicts {
                if let Some(d) = shared.known_dictionary(info.id) {
                    map.insert(Family(info.family), d);
                }
            }
            drop(state);
            shared
                .writer
                .lock()
                .learner
                .keep(|family| map.contains_key(&family));
            self.training.current = Arc::new(map);
            self.training.made_for = key;
        }
        Ok(Arc::clone(&self.training.current))
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
        // A family's first lesson (0.02 s) is done at once, whatever else is under way: its pages are stored the larger way until then.
        loop {
            let first = shared.writer.lock().learner.due_first();
            let Some(lesson) = first else { break };
            self.install(&shared, Task::lazy(move || lesson.train()));
        }
        if self.training.running.is_some() {
            return Ok(());
        }
        let due = shared.writer.lock().learner.due();
        if let Some(lesson) = due {
            let task = Task::spawn(&self.pool, move || lesson.train());
            if self.pool.is_none() {
                self.install(&shared, task);
            } else {
                self.training.running = Some(task);
            }
        }
        Ok(())
    }

    /// Appends a trained dictionary to the pending commit, if the training brought one.
    fn install(&mut self, shared: &Arc<Shared>, task: Task<Option<Trained>>) {
        let (Some(trained), Some(p)) = (task.wait().flatten(), &mut self.pending) else {
            return;
        };
        let mut writer = shared.writer.lock();
        let id = shared.state.read().next_dict().max(writer.last_dict + 1);
        let Some((_, space)) = writer.space.as_mut().filter(|_| id < MAX_DICT) else {
            return;
        };
        let dict = Arc::new(Dictionary::new(id, trained.codec, trained.bytes));
        let len = (RECORD_LEN + dict.bytes().len()) as u64;
        if p.appender.make_room(space, len, p.commit).is_err() {
            return;
        }
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
            let lesson = shared.writer.lock().learner.due();
            let Some(lesson) = lesson else { break };
            tasks.push(Task::spawn(&self.pool, move || lesson.train()));
        }
        for task in tasks {
            self.install(&shared, task);
        }
        Ok(())
    }
}
