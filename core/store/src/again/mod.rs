//! Encodes frames again with models and dictionaries that were trained on an even sample.
//!
//! A large transaction does this with its own frames before it is published (`transaction::again`).
//! At rest it is done with the frames of the whole file (`relearn`). See
//! docs/decisions/same-size.md.

mod frames;
mod sample;

pub(crate) use frames::{Again, Encoded, Held, Outdated, Quick};
pub(crate) use sample::EvenSample;

use crate::error::Result;
use crate::pool::{Pool, Task};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of frames that one task of the pool encodes again.
const TASK_BYTES: usize = 32 << 10;

/// Encodes those of the frames again that are outdated, on the pool, and passes all of them to
/// `place` in order.
///
/// # Errors
/// Those of `place`.
pub(crate) fn encode_all(
    again: &Arc<Again>,
    held: &[Held],
    pool: Option<&Arc<Pool>>,
    mut place: impl FnMut(Encoded) -> Result<()>,
) -> Result<()> {
    let most = pool.map_or(0, |pool| 4 * pool.threads() + 4);
    let mut tasks: VecDeque<(Vec<Held>, Task<Vec<Encoded>>)> = VecDeque::new();
    let mut rest = held;
    while !rest.is_empty() || !tasks.is_empty() {
        if !rest.is_empty() && tasks.len() <= most {
            let mut bytes = 0;
            let count = rest.iter().take_while(|held| {
                let before = bytes;
                bytes += held.record_len();
                before < TASK_BYTES
            });
            let (now, later) = rest.split_at(count.count());
            rest = later;
            let (of_task, again) = (now.to_vec(), Arc::clone(again));
            let task = Task::spawn(&pool.cloned(), move || again.encode(&of_task));
            tasks.push_back((now.to_vec(), task));
            continue;
        }
        let Some((of_task, task)) = tasks.pop_front() else {
            break;
        };
        // If the task panicked, its frames stay as they are.
        let all = || of_task.iter().map(|held| Encoded::Kept(*held)).collect();
        for encoded in task.wait().unwrap_or_else(all) {
            place(encoded)?;
        }
    }
    Ok(())
}
