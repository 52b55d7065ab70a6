//! Plans a prune: which rows it deletes, and why it keeps the others.

mod topics;
mod types;

pub use types::{CollectionPlan, GonePlan, PrunePlan, SegmentPlan};

use super::dir::ChromaDir;
use super::hold::Hold;
use super::leftovers;
use super::scan::{self, Target};
use super::schema::{self, Schema};
use super::segments::{self, Collection, Segment, Stored};
use super::setting::{self, AutoPurge, PurgeChange};
use super::sql::Sql;
use crate::error::Result;
use densite_sqlite::Connection;
use std::collections::HashMap;
use std::path::Path;
use topics::{Rows, topics};

/// The rows that a prune deletes.
#[derive(Default)]
pub(super) struct Cut {
    /// Rows below this, by topic ...
    pub(super) below: Vec<(String, i64)>,
    /// ... except these.
    pub(super) keep: Vec<i64>,
}

/// Plans a prune. Reads the database and the index files, and changes nothing.
///
/// # Errors
/// [`crate::Error::NotChroma`]; [`crate::Error::Unsupported`] for an unknown schema; errors of
/// SQLite.
pub fn plan(conn: &Connection, dir: &ChromaDir) -> Result<PrunePlan> {
    let sql = Sql::new(conn, dir.database());
    if !conn.is_autocommit() {
        return Ok(find(&sql, dir)?.0);
    }
    // The transaction makes all queries read one state, even while other connections write.
    sql.exec("BEGIN")?;
    let found = find(&sql, dir);
    let ended = sql.exec("COMMIT");
    let (plan, _) = found?;
    ended.map(|()| plan)
}

/// The plan, and the rows it deletes.
pub(super) fn find(sql: &Sql<'_>, dir: &ChromaDir) -> Result<(PrunePlan, Cut)> {
    let schema = schema::read(sql)?;
    let automatically_purge = setting::read(sql, schema)?;
    let last = sql
        .integer("SELECT max(seq_id) FROM embeddings_queue")?
        .unwrap_or(0);
    let mut segments = segments::segments(sql)?;
    let mut topics = topics(sql)?;
    let mut targets = HashMap::new();
    let mut collections = Vec::new();
    for collection in segments::collections(sql)? {
        let own = segments.remove(&collection.id).unwrap_or_default();
        let rows = topics.known.remove(&collection.id).unwrap_or_default();
        let (plan, target) = one(collection, &own, &rows, schema, dir.dir(), last);
        if let (Some(target), [(topic, _)]) = (target, rows.as_slice()) {
            targets.insert(topic.clone(), target);
        }
        collections.push((plan, rows.into_iter().next().map(|(topic, _)| topic)));
    }
    let mut gone = GonePlan::default();
    let mut gone_topics = Vec::new();
    for (id, rows) in topics.known {
        let all = rows.iter().map(|(_, rows)| rows.count);
        if segments.contains_key(&id) {
            // The collection is half deleted: its segments could still read the rows.
            topics.foreign_rows += all.sum::<u64>();
            continue;
        }
        gone.collections += 1;
        gone.queue_rows += all.sum::<u64>();
        for (topic, _) in rows {
            targets.insert(topic.clone(), Target::below(last));
            gone_topics.push(topic);
        }
    }

    let metadata_len = match targets.is_empty() {
        true => 0,
        false => scan::scan(sql, &mut targets)?,
    };
    let mut plan = PrunePlan {
        dir: dir.dir().to_path_buf(),
        schema,
        queue_rows: topics.rows,
        rows: 0,
        bytes: 0,
        collections: Vec::new(),
        gone,
        foreign_rows: topics.foreign_rows,
        leftovers: leftovers::find(sql, dir)?,
        automatically_purge,
        change: PurgeChange::None,
    };
    let mut cut = Cut::default();
    for topic in gone_topics {
        let Some(target) = targets.remove(&topic) else {
            continue;
        };
        // Unknown operations do not matter here: no segment reads this topic.
        plan.gone.rows += target.rows;
        plan.gone.bytes += target.bytes + target.rows * metadata_len;
        cut.below.push((topic, target.below));
    }
    for (mut collection, topic) in collections {
        if let Some((topic, target)) = topic.and_then(|t| targets.remove_entry(&t)) {
            cut.take(&mut collection, topic, &target, metadata_len);
        }
        plan.collections.push(collection);
    }
    cut.keep.sort_unstable();
    let sum = |of: fn(&CollectionPlan) -> u64| plan.collections.iter().map(of).sum::<u64>();
    plan.rows = plan.gone.rows + sum(|c| c.rows);
    plan.bytes = plan.gone.bytes + sum(|c| c.bytes);
    plan.change = match automatically_purge {
        AutoPurge::On | AutoPurge::NoPlace => PurgeChange::None,
        _ if plan.collections.iter().all(CollectionPlan::is_sound) => PurgeChange::TurnOn,
        _ => PurgeChange::LeftOff,
    };
    Ok((plan, cut))
}

impl Cut {
    /// Adds the result of the scan for the rows of one collection.
    fn take(
        &mut self,
        collection: &mut CollectionPlan,
        topic: String,
        target: &Target,
        metadata_len: u64,
    ) {
        if let Some(row) = target.unknown {
            collection.hold = Some(Hold::UnknownOperation { row });
            collection.position = None;
            return;
        }
        let keep: Vec<i64> = target.only_copies().collect();
        collection.only_copies = keep.len() as u64;
        collection.rows = target.rows.saturating_sub(collection.only_copies);
        let bytes = target.bytes + target.rows * metadata_len;
        // The estimate assumes that the kept rows have the average length.
        collection.bytes = bytes / target.rows.max(1) * collection.rows;
        self.keep.extend(keep);
        self.below.push((topic, target.below));
    }
}

/// For one collection: how far its segments are, and which of its rows this allows to delete.
fn one(
    collection: Collection,
    segments: &[Segment],
    rows: &[(String, Rows)],
    schema: Schema,
    dir: &Path,
    last: i64,
) -> (CollectionPlan, Option<Target>) {
    let mut plan = CollectionPlan {
        tenant: collection.tenant,
        database: collection.database,
        name: collection.name,
        id: collection.id,
        queue_rows: rows.iter().map(|(_, r)| r.count).sum(),
        first_row: rows.iter().map(|(_, r)| r.first).min(),
        last_row: rows.iter().map(|(_, r)| r.last).max(),
        segments: Vec::new(),
        position: None,
        hold: None,
        rows: 0,
        bytes: 0,
        only_copies: 0,
    };
    let mut target = Target::default();
    for segment in segments {
        let mut shown = SegmentPlan {
            id: segment.id.clone(),
            scope: segment.scope.clone(),
            position: None,
            hold: None,
        };
        if rows.is_empty() {
            if let Stored::At(n) = segment.stored {
                shown.position = Some(n);
            }
        } else {
            match segments::position(segment, schema, dir, last) {
                Ok(found) => {
                    shown.position = Some(found.at);
                    match found.index {
                        Some(index) => target.indexes.push(index),
                        None => target.metadata.push(segment.id.clone()),
                    }
                }
                Err(hold) => shown.hold = Some(hold),
            }
        }
        plan.segments.push(shown);
    }
    if rows.is_empty() {
        return (plan, None);
    }
    let missing = ["METADATA", "VECTOR"]
        .into_iter()
        .find(|scope| !segments.iter().any(|s| s.scope == *scope));
    if let Some(scope) = missing {
        plan.hold = Some(Hold::MissingSegment { scope });
    } else if rows.len() > 1 {
        plan.hold = Some(Hold::SeveralTopics);
    } else if plan.segments.iter().all(|s| s.hold.is_none()) {
        plan.position = plan.segments.iter().filter_map(|s| s.position).min();
    }
    let Some(position) = plan.position else {
        return (plan, None);
    };
    // A position is at most `last`, so the newest row stays.
    target.below = position;
    let any = plan.first_row.is_some_and(|first| first < position);
    (plan, any.then_some(target))
}
