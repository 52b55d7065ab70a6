//! Reads collections, their segments, and the position of each segment.

use super::hold::Hold;
use super::index;
use super::pickle::IndexMetadata;
use super::schema::Schema;
use super::sql::Sql;
use crate::error::Result;
use densite_sqlite::ValueRef;
use std::collections::HashMap;
use std::path::Path;

const PERSISTED_VECTORS: &str = "urn:chroma:segment/vector/hnsw-local-persisted";
const METADATA: &str = "urn:chroma:segment/metadata/sqlite";

/// A row of `collections`, with the database and tenant it belongs to.
pub(super) struct Collection {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) database: Option<String>,
    pub(super) tenant: Option<String>,
}

/// The value of `max_seq_id` for a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stored {
    Nothing,
    At(i64),
    Bad(String),
}

/// A row of `segments`.
pub(super) struct Segment {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) scope: String,
    pub(super) stored: Stored,
}

/// The position of a segment, and the index of a vector segment.
pub(super) struct Position {
    pub(super) at: i64,
    pub(super) index: Option<IndexMetadata>,
}

/// All collections, ordered by tenant, database and name.
pub(super) fn collections(sql: &Sql<'_>) -> Result<Vec<Collection>> {
    let mut found = Vec::new();
    sql.each(
        "SELECT c.id, c.name, d.name, d.tenant_id FROM collections c LEFT JOIN databases d ON d.id = c.database_id ORDER BY 4, 3, 2, 1",
        &[],
        |row| {
            let text = |i| row.column(i).as_str().map(str::to_string);
            found.push(Collection {
                id: text(0).unwrap_or_default(),
                name: text(1).unwrap_or_default(),
                database: text(2),
                tenant: text(3),
            });
            Ok(())
        },
    )?;
    Ok(found)
}

/// All segments, by the id of their collection.
pub(super) fn segments(sql: &Sql<'_>) -> Result<HashMap<String, Vec<Segment>>> {
    let mut found: HashMap<String, Vec<Segment>> = HashMap::new();
    sql.each(
        "SELECT s.id, s.type, s.scope, s.collection, m.segment_id IS NOT NULL, m.seq_id
         FROM segments s LEFT JOIN max_seq_id m ON m.segment_id = s.id ORDER BY s.scope, s.id",
        &[],
        |row| {
            let text = |i| row.column(i).as_str().unwrap_or_default().to_string();
            let stored = match row.column(4).as_i64() {
                Some(1) => stored(row.column(5)),
                _ => Stored::Nothing,
            };
            found.entry(text(3)).or_default().push(Segment {
                id: text(0),
                kind: text(1),
                scope: text(2),
                stored,
            });
            Ok(())
        },
    )?;
    Ok(found)
}

/// Parses the value of `max_seq_id.seq_id`. Chroma uses -1 for "nothing yet".
fn stored(value: ValueRef<'_>) -> Stored {
    let number = match value {
        ValueRef::Integer(n) => Some(n),
        ValueRef::Blob(bytes) => <[u8; 8]>::try_from(bytes).ok().map(i64::from_be_bytes),
        _ => None,
    };
    match (number, value) {
        (Some(n @ 0..), _) => Stored::At(n),
        (Some(-1), ValueRef::Integer(_)) => Stored::Nothing,
        (_, ValueRef::Blob(bytes)) => Stored::Bad(format!("a blob of {} bytes", bytes.len())),
        (Some(n), _) => Stored::Bad(n.to_string()),
        (None, ValueRef::Null) => Stored::Bad("NULL".into()),
        (None, ValueRef::Real(_)) => Stored::Bad("a real number".into()),
        (None, _) => Stored::Bad("a text".into()),
    }
}

/// The position of a segment according to the files on disk; `last` is the largest `seq_id` in the
/// queue.
pub(super) fn position(
    segment: &Segment,
    schema: Schema,
    dir: &Path,
    last: i64,
) -> std::result::Result<Position, Hold> {
    let stored = match &segment.stored {
        Stored::Nothing => None,
        Stored::At(n) => Some(*n),
        Stored::Bad(found) => {
            return Err(Hold::BadPosition {
                found: found.clone(),
            });
        }
    };
    let found = match (segment.kind.as_str(), segment.scope.as_str()) {
        (METADATA, "METADATA") => Position {
            at: stored.ok_or(Hold::NoPosition)?,
            index: None,
        },
        (PERSISTED_VECTORS, "VECTOR") => vectors(&segment.id, stored, schema, dir)?,
        _ => {
            return Err(Hold::UnknownSegment {
                kind: segment.kind.clone(),
            });
        }
    };
    if found.at > last {
        return Err(Hold::BeyondEnd {
            position: found.at,
            last,
        });
    }
    Ok(found)
}

fn vectors(
    id: &str,
    stored: Option<i64>,
    schema: Schema,
    dir: &Path,
) -> std::result::Result<Position, Hold> {
    // The id becomes part of a path.
    if !is_uuid(id) {
        return Err(Hold::UnknownSegment {
            kind: format!("one with the id {}", id.escape_debug()),
        });
    }
    let folder = dir.join(id);
    let Some(index) = index::read(&folder)? else {
        return Err(match stored {
            None => Hold::NoPosition,
            Some(_) => Hold::IndexMissing {
                file: folder.join(index::PICKLE).display().to_string(),
            },
        });
    };
    if index.records() == 0 {
        return Err(Hold::EmptyIndex);
    }
    // Since 0.5.6 the row has the current position, and the pickle keeps the position at the
    // upgrade. Before, only the pickle counts.
    let at = match (stored, index.max_seq_id) {
        (Some(row), _) if schema.has_config() => Some(row),
        (Some(row), Some(pickled)) => Some(row.min(pickled)),
        (_, pickled) => pickled,
    };
    Ok(Position {
        at: at.ok_or(Hold::NoPosition)?,
        index: Some(index),
    })
}

/// Whether this is a UUID in Chroma's form: 36 characters, with lower-case hexadecimal digits in
/// groups of 8, 4, 4, 4 and 12.
pub(super) fn is_uuid(s: &str) -> bool {
    s.len() == 36
        && s.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => matches!(b, b'0'..=b'9' | b'a'..=b'f'),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_as_stored() {
        let blob = |bytes: &[u8]| stored(ValueRef::Blob(bytes));
        assert_eq!(stored(ValueRef::Integer(7)), Stored::At(7));
        assert_eq!(stored(ValueRef::Integer(-1)), Stored::Nothing);
        assert_eq!(blob(&2504i64.to_be_bytes()), Stored::At(2504));
        for bad in [
            stored(ValueRef::Integer(-2)),
            stored(ValueRef::Null),
            stored(ValueRef::Text(b"7")),
            stored(ValueRef::Real(7.0)),
            blob(&[0; 7]),
            blob(&[0; 24]),
            blob(&[0xff; 8]),
        ] {
            assert!(matches!(bad, Stored::Bad(_)), "{bad:?}");
        }
    }

    #[test]
    fn only_lower_case_uuids_are_allowed_in_paths() {
        assert!(is_uuid("93e4bf37-215d-4dd1-9fbf-bdf2f81d36ba"));
        for not in [
            "",
            "../../../../../../../../../../../x",
            "93e4bf37-215d-4dd1-9fbf-bdf2f81d36bA",
            "93e4bf37x215d-4dd1-9fbf-bdf2f81d36ba",
        ] {
            assert!(!is_uuid(not), "{not}");
        }
    }
}
