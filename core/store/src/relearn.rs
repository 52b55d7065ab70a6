//! Learns again at rest, from pages drawn evenly from the whole file, and encodes again what becomes
//! smaller (docs/decisions/same-size.md, At rest).
//!
//! Small commits train on what comes first. When the database has grown by half since it was last
//! learned from evenly, this draws a sample, trains on the pool, and adds the models and
//! dictionaries that are better. Then it goes through the pages, and encodes those again whose model
//! is superseded. Each step is short and has at most one commit. [`Learned`] says in the file how
//! far this has come, so any process can continue. A sample that was begun is lost with its process.
//!
//! A process that was killed leaves raw frames of pages that were hot (`heat`). They are encoded by
//! such a pass, too, without learning.

use crate::connection::Connection;
use crate::error::Result;
use crate::format::trailer::Learned;
use crate::options::CodecChoice;
use crate::publish;
use crate::relearn_state::{Sampling, Stage};
use crate::shared::Shared;
use crate::stored_frames::StoredFrames;

/// When the database is learned from again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelearnWhen {
    /// At a close: if it has grown by half. A sample that an earlier process began and lost counts
    /// as learned from: a program that always ends too early would draw one each time.
    Closing,
    /// At rest: if it has grown by half.
    Idle,
    /// If a user asks for it and waits: if it has grown by an eighth.
    Asked,
}

impl RelearnWhen {
    /// The pages from which on a database is learned from again, beyond those of the first time.
    fn pages(self, learned: Learned) -> u64 {
        let of = |pages: u32, part: u64| u64::from(pages) + u64::from(pages) / part;
        match self {
            RelearnWhen::Closing => of(learned.pages.max(learned.tried), 2),
            RelearnWhen::Idle => of(learned.pages, 2),
            RelearnWhen::Asked => of(learned.pages, 8),
        }
    }
}

/// What a step has left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelearnStep {
    /// Nothing.
    Done,
    /// Another step.
    More,
    /// Another step, after the pool has trained for a while.
    Waits,
}

/// Whether [`step`] has something to do.
pub(crate) fn is_due(connection: &Connection, shared: &Shared, when: RelearnWhen) -> bool {
    let options = connection.open.options();
    let trains = matches!(options.codec, CodecChoice::Auto | CodecChoice::Zstd);
    if !trains || options.read_only {
        return false;
    }
    let state = shared.state.read();
    let learned = state.learned();
    let least = when.pages(learned).max(options.tuning.relearn_pages);
    let has_grown = state.pages() >= least && state.pages() > u64::from(learned.pages);
    let stage_is_idle = || matches!(*shared.relearning.lock(), Stage::Idle);
    learned.next > 0 || has_grown || has_raw_frames(shared, learned, when) || !stage_is_idle()
}

/// Whether the file has raw frames that another process left. If that process may still live, this
/// process looks for them only once, and else leaves them to it.
fn has_raw_frames(shared: &Shared, learned: Learned, when: RelearnWhen) -> bool {
    let heat = &shared.preencoded.heat;
    match when {
        RelearnWhen::Idle => heat.has_inherited(learned),
        RelearnWhen::Closing | RelearnWhen::Asked => heat.has_others(learned),
    }
}

/// Does a step, until `stop` or for about a mebibyte of pages that are encoded. The caller has the
/// right to write, between transactions. Publishes, without a sync.
///
/// # Errors
/// I/O, a full disk, damage in the page map: the step changed nothing.
pub(crate) fn step(
    connection: &mut Connection,
    when: RelearnWhen,
    stop: &dyn Fn() -> bool,
) -> Result<RelearnStep> {
    connection.open.check_writable()?;
    if !connection.open.attach()? {
        return Ok(RelearnStep::Done);
    }
    let shared = connection.open.shared()?;
    shared.refresh(connection.open.file())?;
    if !is_due(connection, &shared, when) {
        return Ok(RelearnStep::Done);
    }
    let learned = shared.state.read().learned();
    if learned.next > 0 || has_raw_frames(&shared, learned, when) {
        publish::in_transaction(connection, |transaction, connection| {
            transaction.encode_superseded(connection, stop)
        })?;
        return Ok(RelearnStep::More);
    }
    let stage = std::mem::take(&mut *shared.relearning.lock());
    if stage.is_overtaken(shared.state.read().learned()) {
        return Ok(RelearnStep::More);
    }
    let next = match stage {
        Stage::Idle => Stage::Sampling(begin(connection)?),
        Stage::Sampling(mut sampling) => match draw(connection, &shared, &mut sampling, stop)? {
            true => Stage::Training(sampling.train()),
            false => Stage::Sampling(sampling),
        },
        Stage::Training(mut training) => {
            if !training.goes_on(connection.open.pool()) {
                *shared.relearning.lock() = Stage::Training(training);
                return Ok(RelearnStep::Waits);
            }
            let (pages, better) = (training.pages(), training.better());
            publish::in_transaction(connection, |transaction, connection| {
                transaction.supersede(connection, pages, better)
            })?;
            Stage::Idle
        }
    };
    *shared.relearning.lock() = next;
    Ok(RelearnStep::More)
}

/// Notes in the file that a sample is drawn, and begins it.
fn begin(connection: &mut Connection) -> Result<Sampling> {
    let level = connection.open.options().level;
    publish::in_transaction(connection, |transaction, connection| {
        let settings = transaction.encode_settings(connection)?;
        let pages = transaction.begins_to_learn();
        Ok(Sampling::new(
            settings,
            level,
            transaction.page_size(),
            pages,
        ))
    })
}

/// Draws pages until `stop`. Returns whether the sample is complete.
fn draw(
    connection: &Connection,
    shared: &Shared,
    sampling: &mut Sampling,
    stop: &dyn Fn() -> bool,
) -> Result<bool> {
    let file = connection.open.file();
    let page_size = shared.state.read().page_size();
    while let Some(page) = sampling.next_page(page_size) {
        let mut frames = StoredFrames::default();
        frames.read(file, shared, page)?;
        let dicts = shared.dictionaries_of(file, &frames.held)?;
        if let Some(held) = frames.held.first() {
            let pages = held.pages(&frames.records, &dicts).unwrap_or_default();
            for (_, bytes) in pages.iter().filter(|(number, _)| *number == page) {
                let dict = dicts.get(&held.record.model);
                sampling.sample().add(bytes, &held.record, dict);
            }
        }
        if stop() {
            return Ok(false);
        }
    }
    Ok(true)
}
