//! Scans the queue once: finds rows that can be deleted, and rows that are the only copy of a
//! record.
//!
//! The queue says which records must exist: an ADD or UPSERT creates a record, and a DELETE removes
//! it. A row below the position that creates a record must have put it into the index and into the
//! metadata, unless a later DELETE removed it. Otherwise the row is the only copy: it stays, and so
//! do the later rows for that record.

use super::pickle::{IndexMetadata, TextHash};
use super::sql::Sql;
use crate::error::Result;
use densite_sqlite::Value;
use std::collections::HashMap;

// Chroma's numbers of the operations.
const ADD: i64 = 0;
const UPDATE: i64 = 1;
const UPSERT: i64 = 2;
const DELETE: i64 = 3;

/// The metadata of one row in this many is read to estimate the total. Reading all would be slow: a
/// document can be on overflow pages that are not read otherwise.
const SAMPLE: i64 = 16;

/// Bytes of a row besides its texts and its vector: numbers, time, encoding and SQLite's overhead.
const ROW_BYTES: u64 = 40;

/// The rows of one topic that can be deleted.
#[derive(Default)]
pub(super) struct Target {
    /// Rows below this.
    pub(super) below: i64,
    /// Each record must be in all of these indexes ...
    pub(super) indexes: Vec<IndexMetadata>,
    /// ... and in the metadata of all of these segments.
    pub(super) metadata: Vec<String>,

    /// Rows below the limit, including those that stay.
    pub(super) rows: u64,
    /// Their estimated size in bytes, without their metadata.
    pub(super) bytes: u64,
    /// A row with an unknown operation.
    pub(super) unknown: Option<i64>,
    /// Rows that are the only copy of a record, by the record.
    only: HashMap<TextHash, Vec<i64>>,
}

impl Target {
    /// Rows below `below` of a topic that no segment reads: no place must hold their records.
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

/// Scans the queue. Returns the average length of the metadata of a row in bytes.
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
                    // An UPDATE of a record that does not exist has no effect.
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
