//! What a prune would do, and why not more.

use super::dir::ChromaDir;
use super::hold::Hold;
use super::scan::{self, Target};
use super::schema::{self, Schema};
use super::segments::{self, Collection, Segment, Stored, is_uuid};
use super::setting::{self, AutoPurge, PurgeChange};
use super::sql::Sql;
use crate::error::Result;
use densite_sqlite::Connection;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What a prune would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunePlan {
    /// The directory.
    pub dir: PathBuf,
    /// The schema's version.
    pub schema: Schema,
    /// Rows in the queue.
    pub queue_rows: u64,
    /// Rows that go.
    pub rows: u64,
    /// What they hold in bytes, estimated.
    pub bytes: u64,
    /// Every collection, by tenant, database and name.
    pub collections: Vec<CollectionPlan>,
    /// Rows of collections that are gone.
    pub gone: GonePlan,
    /// Rows under topics of a form that Chroma does not make; they stay.
    pub foreign_rows: u64,
    /// What `automatically_purge` is.
    pub automatically_purge: AutoPurge,
    /// What becomes of it.
    pub change: PurgeChange,
}

/// Which rows go.
#[derive(Default)]
pub(super) struct Cut {
    /// Rows below this, by topic ...
    pub(super) below: Vec<(String, i64)>,
    /// ... but not these.
    pub(super) keep: Vec<i64>,
}

/// Of one collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionPlan {
    /// Its tenant; `None` if its database is not listed.
    pub tenant: Option<String>,
    /// Its database.
    pub database: Option<String>,
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Its rows in the queue.
    pub queue_rows: u64,
    /// The smallest `seq_id` of them.
    pub first_row: Option<i64>,
    /// The largest.
    pub last_row: Option<i64>,
    /// Its segments. Without rows in the queue their indexes are not looked at.
    pub segments: Vec<SegmentPlan>,
    /// The smallest position of its segments, if all have one and nothing holds its rows back.
    pub position: Option<i64>,
    /// What holds its rows back as a whole.
    pub hold: Option<Hold>,
    /// Rows that go.
    pub rows: u64,
    /// What they hold in bytes, estimated.
    pub bytes: u64,
    /// Rows below the position that stay, for they are the only copy of a record.
    pub only_copies: u64,
}

/// Of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentPlan {
    /// Its id.
    pub id: String,
    /// `VECTOR` or `METADATA`.
    pub scope: String,
    /// Its position.
    pub position: Option<i64>,
    /// Why it has none, or none that counts.
    pub hold: Option<Hold>,
}

/// Of collections that are gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GonePlan {
    /// How many there are.
    pub collections: u64,
    /// Their rows in the queue.
    pub queue_rows: u64,
    /// Rows that go.
    pub rows: u64,
    /// What they hold in bytes, estimated.
    pub bytes: u64,
}

impl CollectionPlan {
    /// The segment that holds the most rows back: the first without a position, or the one with the smallest.
    pub fn slowest(&self) -> Option<&SegmentPlan> {
        self.segments
            .iter()
            .min_by_key(|s| (s.hold.is_none(), s.position))
    }

    /// Whether nothing looked wrong.
    fn is_sound(&self) -> bool {
        let holds = self.segments.iter().filter_map(|s| s.hold.as_ref());
        self.only_copies == 0 && holds.chain(&self.hold).all(Hold::is_normal)
    }
}

/// A topic's rows.
#[derive(Clone, Copy)]
struct Rows {
    count: u64,
    first: i64,
    last: i64,
}

/// Finds out what a prune would do. Reads the database and the index files, and changes nothing.
///
/// # Errors
/// [`crate::Error::NotChroma`]; [`crate::Error::Unsupported`] for a schema that is not known; SQLite's.
pub fn plan(conn: &Connection, dir: &ChromaDir) -> Result<PrunePlan> {
    let sql = Sql::new(conn, dir.database());
    if !conn.is_autocommit() {
        return Ok(find(&sql, dir)?.0);
    }
    // One state, whatever others write meanwhile.
    sql.exec("BEGIN")?;
    let found = find(&sql, dir);
    let ended = sql.exec("COMMIT");
    let (plan, _) = found?;
    ended.map(|()| plan)
}

/// The plan, and the rows.
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
            // Half deleted: nothing says that nobody reads it.
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
        automatically_purge,
        change: PurgeChange::None,
    };
    let mut cut = Cut::default();
    for topic in gone_topics {
        let Some(target) = targets.remove(&topic) else {
            continue;
        };
        // What operations it has does not matter: no segment reads it.
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
    /// Enters what was found out about a collection's rows.
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
        // The rows that stay are taken to be like the others.
        collection.bytes = bytes / target.rows.max(1) * collection.rows;
        self.keep.extend(keep);
        self.below.push((topic, target.below));
    }
}

/// Of one collection: how far its segments came, and which of its rows may go by that.
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
    // A position is at most `last`, so that the newest row stays.
    target.below = position;
    let any = plan.first_row.is_some_and(|first| first < position);
    (plan, any.then_some(target))
}

/// The queue's topics.
struct Topics {
    /// By the id of the collection that they name.
    known: HashMap<String, Vec<(String, Rows)>>,
    foreign_rows: u64,
    rows: u64,
}

fn topics(sql: &Sql<'_>) -> Result<Topics> {
    let mut found = Topics {
        known: HashMap::new(),
        foreign_rows: 0,
        rows: 0,
    };
    sql.each(
        "SELECT topic, count(*), min(seq_id), max(seq_id) FROM embeddings_queue GROUP BY topic ORDER BY topic",
        &[],
        |row| {
            let rows = Rows {
                count: u64::try_from(row.column(1).as_i64().unwrap_or(0)).unwrap_or(0),
                first: row.column(2).as_i64().unwrap_or(0),
                last: row.column(3).as_i64().unwrap_or(0),
            };
            found.rows += rows.count;
            let topic = row.column(0).as_str().unwrap_or_default();
            match collection_of(topic) {
                Some(id) => found
                    .known
                    .entry(id.to_string())
                    .or_default()
                    .push((topic.to_string(), rows)),
                None => found.foreign_rows += rows.count,
            }
            Ok(())
        },
    )?;
    Ok(found)
}

/// The collection of a topic, `persistent://TENANT/NAMESPACE/ID`. Tenant and namespace are settings of Chroma ("default" both), not those of
/// the collection.
fn collection_of(topic: &str) -> Option<&str> {
    let rest = topic.strip_prefix("persistent://")?;
    let (names, id) = rest.rsplit_once('/')?;
    let (tenant, namespace) = names.split_once('/')?;
    (!tenant.is_empty() && !namespace.is_empty() && is_uuid(id)).then_some(id)
}
