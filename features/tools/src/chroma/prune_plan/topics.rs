//! Groups the rows of the queue by collection.

use crate::chroma::segments::is_uuid;
use crate::chroma::sql::Sql;
use crate::error::Result;
use std::collections::HashMap;

/// The rows of a topic.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) count: u64,
    pub(super) first: i64,
    pub(super) last: i64,
}

/// The topics of the queue.
pub(super) struct Topics {
    /// Topics by the id of the collection in their name.
    pub(super) known: HashMap<String, Vec<(String, Rows)>>,
    pub(super) foreign_rows: u64,
    pub(super) rows: u64,
}

/// Reads the topics of the queue.
pub(super) fn topics(sql: &Sql<'_>) -> Result<Topics> {
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

/// The collection id in a topic `persistent://TENANT/NAMESPACE/ID`. Tenant and namespace are
/// settings of Chroma (both "default"), not properties of the collection.
fn collection_of(topic: &str) -> Option<&str> {
    let rest = topic.strip_prefix("persistent://")?;
    let (names, id) = rest.rsplit_once('/')?;
    let (tenant, namespace) = names.split_once('/')?;
    (!tenant.is_empty() && !namespace.is_empty() && is_uuid(id)).then_some(id)
}
