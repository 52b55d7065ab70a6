//! The one pass over the queue: which rows can go, and which of them are the only copy of a record.
//!
//! The queue says which records there should be: an ADD or UPSERT makes one, a DELETE ends it. A
//! row below the position that makes a record must have left it in the index and in the metadata,
//! unless a later DELETE ended it. If it did not, the row is the only copy, and it and what follows
//! it for that record stays.

use super::pickle::{IndexMetadata, TextHash};
use super::sql::Sql;
use crate::error::Result;
use densite_sqlite::Value;
use std::collections::HashMap;

// Operations, as Chroma numbers them.
const ADD: i64 = 0;
const UPDATE: i64 = 1;
const UPSERT: i64 = 2;
const DELETE: i64 = 3;

/// Of so many rows the metadata is looked at, to estimate the bytes of all: a document may lie on
/// pages that need not be read otherwise.
const SAMPLE: i64 = 16;

/// Bytes of a row beyond its texts and its vector: numbers, time, encoding, SQLite's own.
const ROW_BYTES: u64 = 40;

/// The rows of one topic that may go.
#[derive(Default)]
pub(super) struct Target {
    /// Rows below this.
    pub(super) below: i64,
    /// Where each record must be: in each of these indexes ...
    pub(super) indexes: Vec<IndexMetadata>,
    /// ... and in the metadata of each of these segments.
    pub(super) metadata: Vec<String>,

    /// Rows below the limit, those that stay included.
    pub(super) rows: u64,
    /// Their bytes, estimated, without their metadata.
    pub(super) bytes: u64,
    /// A row with an operation that is not known.
    pub(super) unknown: Option<i64>,
    /// Rows that are the only copy of a record, by the record.
    only: HashMap<TextHash, Vec<i64>>,
}

impl Target {
    /// Rows below `below`, with no place where their records must be.
    pub(super) fn below(below: i64) -> Target {
        Target {
            below,
            ..Target::default()
        }
    }

    /// Rows below the limit that stay.
    pub(super) fn only_copies(&self) -> impl Iterator<Item = i64> + '_ {
        self.only.values().flatten().copied()
    }
}

/// Goes through the queue; answers the average length of a row's metadata in bytes.
pub(super) fn scan(sql: &Sql<'_>, targets: &mut HashMap<String, Target>) -> Result<u64> {
    let mut known = sql.check(
        sql.conn
            .prepare("SELECT 1 FROM embeddings WHERE segment_id = ? AND embedding_id = ?"),
    )?;
    let (mut sampled, mut sampled_bytes) = (0u64, 0u64);
    sql.each(
        "SELECT seq_id, topic, operation, id, length(vector),
                CASE WHEN seq_id % ? = 0 THEN ifnull(length(CAST(metadata AS BLOB)), 0) END
         FROM embeddings_queue ORDER BY seq_id",
        &[Value::Integer(SAMPLE)],
        |row| {
            let seq = row.column(0).as_i64().unwrap_or(i64::MAX);
            let topic = row.column(1).as_str().unwrap_or_default();
            let Some(target) = targets.get_mut(topic) else {
                return Ok(());
            };
            let operation = row.column(2).as_i64().unwrap_or(-1);
            let id = row.column(3).as_bytes().unwrap_or_default();
            if seq < target.below {
                let len = |i| row.column(i).as_i64().and_then(|n| u64::try_from(n).ok());
                if let Some(n) = len(5) {
                    sampled += 1;
                    sampled_bytes += n;
                }
                target.rows += 1;
                target.bytes +=
                    ROW_BYTES + (topic.len() + id.len()) as u64 + len(4).unwrap_or_default();
            }
            let hash = TextHash::of(id);
            match operation {
                DELETE => {
                    target.only.remove(&hash);
                }
                ADD | UPSERT | UPDATE if seq >= target.below => {}
                ADD | UPSERT | UPDATE => {
                    if let Some(rows) = target.only.get_mut(&hash) {
                        rows.push(seq);
                        return Ok(());
                    }
                    // An UPDATE of what is not there does nothing.
                    if operation == UPDATE {
                        return Ok(());
                    }
                    let mut there = target.indexes.iter().all(|i| i.holds_hash(hash));
                    for segment in &target.metadata {
                        if !there {
                            break;
                        }
                        known.reset();
                        sql.check(known.bind(1, &Value::Text(segment.clone())))?;
                        sql.check(known.bind(2, &row.column(3).to_owned()))?;
                        there = sql.check(known.step())?;
                    }
                    if !there {
                        target.only.insert(hash, vec![seq]);
                    }
                }
                _ => target.unknown = target.unknown.or(Some(seq)),
            }
            Ok(())
        },
    )?;
    Ok(sampled_bytes.checked_div(sampled).unwrap_or(0))
}
