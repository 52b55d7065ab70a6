//! Made-up Chroma directories: the tables and files that Chroma creates in three ages, as far as a
//! prune reads them.

use densite_sqlite::Connection as Ours;
use densite_tools::chroma::{ChromaDir, PrunePlan, Pruned, plan, prune, recognise};
use rusqlite::{Connection, params, types::Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// An age of Chroma, by its formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    /// 0.5.4: positions of metadata as blobs, those of vectors in the pickle.
    Old,
    /// 0.5.23: positions of both as blobs.
    Middle,
    /// 1.5: positions of both as integers.
    New,
}

pub(crate) const AGES: [Age; 3] = [Age::Old, Age::Middle, Age::New];

const SYSDB: [&str; 10] = [
    "collections",
    "segments",
    "collection-dimension",
    "tenants-databases",
    "remove-topic",
    "collection-segment-metadata",
    "collection-config",
    "maintenance-log",
    "segment-collection-not-null",
    "collection-schema",
];
const METADB: [&str; 6] = [
    "embedding-metadata",
    "embedding-metadata",
    "full-text-tokenize",
    "metadata-indices",
    "max-seq-id-int",
    "metadata-array-support",
];
const QUEUE: [&str; 2] = ["embeddings", "embeddings-queue-config"];

pub(crate) const OFF: &str =
    r#"{"automatically_purge": false, "_type": "EmbeddingsQueueConfigurationInternal"}"#;

/// The ids of a collection.
#[derive(Debug, Clone)]
pub(crate) struct Coll {
    pub(crate) id: String,
    pub(crate) vectors: String,
    pub(crate) metadata: String,
}

impl Coll {
    pub(crate) fn topic(&self) -> String {
        format!("persistent://default/default/{}", self.id)
    }
}

/// An operation on a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Add = 0,
    Update = 1,
    Upsert = 2,
    Delete = 3,
}

pub(crate) struct Made {
    pub(crate) db: Connection,
    pub(crate) age: Age,
    next: u32,
    /// The last field, so it is dropped after the connection that has files in it open.
    pub(crate) dir: tempfile::TempDir,
}

impl Made {
    pub(crate) fn new(age: Age) -> Made {
        let dir = tempfile::tempdir().expect("a directory");
        let db = Connection::open(dir.path().join("chroma.sqlite3")).expect("open");
        let position = if age == Age::New {
            "INTEGER"
        } else {
            "BLOB NOT NULL"
        };
        db.execute_batch(&format!(
            "PRAGMA synchronous = OFF;
             CREATE TABLE migrations(dir TEXT NOT NULL, version INTEGER NOT NULL, filename TEXT NOT NULL, sql TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY(dir, version));
             CREATE TABLE tenants(id TEXT PRIMARY KEY);
             CREATE TABLE databases(id TEXT PRIMARY KEY, name TEXT NOT NULL, tenant_id TEXT NOT NULL);
             CREATE TABLE collections(id TEXT PRIMARY KEY, name TEXT NOT NULL, database_id TEXT NOT NULL, dimension INTEGER, UNIQUE(name, database_id));
             CREATE TABLE segments(id TEXT PRIMARY KEY, type TEXT NOT NULL, scope TEXT NOT NULL, collection TEXT);
             CREATE TABLE embeddings(id INTEGER PRIMARY KEY, segment_id TEXT NOT NULL, embedding_id TEXT NOT NULL, seq_id BLOB NOT NULL, UNIQUE(segment_id, embedding_id));
             CREATE TABLE max_seq_id(segment_id TEXT PRIMARY KEY, seq_id {position});
             CREATE TABLE embeddings_queue(seq_id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, operation INTEGER NOT NULL,
               topic TEXT NOT NULL, id TEXT NOT NULL, vector BLOB, encoding TEXT, metadata TEXT);
             INSERT INTO tenants VALUES('default_tenant');
             INSERT INTO databases VALUES('00000000-0000-0000-0000-000000000000', 'default_database', 'default_tenant');"
        ))
        .expect("tables");
        let counts = match age {
            Age::Old => (7, 3, 1),
            Age::Middle => (9, 4, 2),
            Age::New => (10, 6, 2),
        };
        for (name, files) in [
            ("sysdb", &SYSDB[..counts.0]),
            ("metadb", &METADB[..counts.1]),
            ("embeddings_queue", &QUEUE[..counts.2]),
        ] {
            for (i, file) in (1..).zip(files) {
                let file = format!("{i:05}-{file}.sqlite.sql");
                db.execute(
                    "INSERT INTO migrations VALUES(?, ?, ?, '', '')",
                    params![name, i, file],
                )
                .expect("a migration");
            }
        }
        let mut made = Made {
            db,
            age,
            next: 0,
            dir,
        };
        if age != Age::Old {
            made.sql("CREATE TABLE embeddings_queue_config(id INTEGER PRIMARY KEY, config_json_str TEXT)");
            made.config(OFF);
        }
        made
    }

    pub(crate) fn sql(&self, sql: &str) {
        self.db
            .execute_batch(sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    pub(crate) fn config(&mut self, json: &str) {
        self.db
            .execute(
                "INSERT OR REPLACE INTO embeddings_queue_config VALUES(1, ?)",
                [json],
            )
            .expect("a setting");
    }

    /// The current text of the setting.
    pub(crate) fn config_now(&self) -> Option<String> {
        self.db
            .query_row(
                "SELECT config_json_str FROM embeddings_queue_config",
                [],
                |r| r.get(0),
            )
            .ok()
    }

    fn uuid(&mut self) -> String {
        self.next += 1;
        format!("{:08x}-0000-4000-8000-{:012x}", self.next, 0xABCDEF)
    }

    /// Creates a collection in Chroma's default database.
    pub(crate) fn collection(&mut self, name: &str) -> Coll {
        self.collection_in("00000000-0000-0000-0000-000000000000", name)
    }

    pub(crate) fn collection_in(&mut self, database: &str, name: &str) -> Coll {
        let coll = Coll {
            id: self.uuid(),
            vectors: self.uuid(),
            metadata: self.uuid(),
        };
        self.db
            .execute(
                "INSERT INTO collections VALUES(?, ?, ?, 2)",
                params![coll.id, name, database],
            )
            .expect("a collection");
        for (id, kind, scope) in [
            (
                &coll.vectors,
                "urn:chroma:segment/vector/hnsw-local-persisted",
                "VECTOR",
            ),
            (
                &coll.metadata,
                "urn:chroma:segment/metadata/sqlite",
                "METADATA",
            ),
        ] {
            self.db
                .execute(
                    "INSERT INTO segments VALUES(?, ?, ?, ?)",
                    params![id, kind, scope, coll.id],
                )
                .expect("a segment");
        }
        coll
    }

    /// Adds a row to the queue. The metadata segment does not take it.
    pub(crate) fn queue(&self, topic: &str, op: i64, id: &str) -> i64 {
        let vector = (op != 3).then(|| vec![7u8; 8]);
        self.db
            .execute(
                "INSERT INTO embeddings_queue(operation, topic, id, vector, encoding, metadata) VALUES(?, ?, ?, ?, 'FLOAT32', '{\"a\": 1}')",
                params![op, topic, id, vector],
            )
            .expect("a row");
        self.db.last_insert_rowid()
    }

    /// Adds a row to the queue, and the metadata segment takes it as Chroma's does.
    pub(crate) fn write(&self, coll: &Coll, op: Op, id: &str) -> i64 {
        let seq = self.queue(&coll.topic(), op as i64, id);
        let sql = match op {
            Op::Add | Op::Upsert => {
                "INSERT OR IGNORE INTO embeddings(segment_id, embedding_id, seq_id) VALUES(?, ?, ?)"
            }
            Op::Update => {
                "UPDATE embeddings SET seq_id = ?3 WHERE segment_id = ?1 AND embedding_id = ?2"
            }
            Op::Delete => {
                "DELETE FROM embeddings WHERE segment_id = ?1 AND embedding_id = ?2 AND ?3"
            }
        };
        self.db
            .execute(sql, params![coll.metadata, id, seq])
            .expect("its metadata");
        self.position(&coll.metadata, seq);
        seq
    }

    /// Adds records with this name and these numbers.
    pub(crate) fn add(&self, coll: &Coll, name: &str, numbers: std::ops::Range<u32>) -> i64 {
        numbers
            .map(|i| self.write(coll, Op::Add, &format!("{name}{i}")))
            .last()
            .expect("some")
    }

    /// Stores the position of a segment in the format of this age.
    pub(crate) fn position(&self, segment: &str, seq: i64) {
        let value = match self.age {
            Age::New => Value::Integer(seq),
            _ => Value::Blob(seq.to_be_bytes().to_vec()),
        };
        self.raw_position(segment, value);
    }

    pub(crate) fn raw_position(&self, segment: &str, value: Value) {
        self.db
            .execute(
                "INSERT OR REPLACE INTO max_seq_id VALUES(?, ?)",
                params![segment, value],
            )
            .expect("a position");
    }

    /// The folder of the vector segment.
    pub(crate) fn folder(&self, coll: &Coll) -> PathBuf {
        self.dir.path().join(&coll.vectors)
    }

    /// Writes the index as the vector segment does: all rows of the queue up to `seq`, and its
    /// position where this age stores it.
    pub(crate) fn persist(&self, coll: &Coll, seq: i64) {
        let mut held = self.held(coll);
        self.replay(coll, self.taken(coll), seq, &mut held);
        self.persist_with(coll, seq, held.keys().map(String::as_str));
    }

    /// The same with other records.
    pub(crate) fn persist_with<'a>(
        &self,
        coll: &Coll,
        seq: i64,
        ids: impl Iterator<Item = &'a str>,
    ) {
        let ids: Vec<&str> = ids.collect();
        let pickled = (self.age == Age::Old).then_some(seq);
        self.files(coll, pickled, &ids);
        if self.age != Age::Old {
            self.position(&coll.vectors, seq);
        }
    }

    /// Writes the files of the index.
    pub(crate) fn files(&self, coll: &Coll, max_seq_id: Option<i64>, ids: &[&str]) {
        let folder = self.folder(coll);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(
            folder.join("index_metadata.pickle"),
            pickled(max_seq_id, ids),
        )
        .expect("pickle");
        let (elements, room, each) = (ids.len() as u64, ids.len() as u64 + 10, 20u64);
        let mut header = vec![0u8; 100];
        header[0..4].copy_from_slice(&1u32.to_le_bytes());
        header[12..20].copy_from_slice(&room.to_le_bytes());
        header[20..28].copy_from_slice(&elements.to_le_bytes());
        header[28..36].copy_from_slice(&each.to_le_bytes());
        fs::write(folder.join("header.bin"), header).expect("header");
        fs::write(
            folder.join("data_level0.bin"),
            vec![1; (room * each) as usize],
        )
        .expect("data");
        fs::write(folder.join("length.bin"), vec![1; room as usize * 4]).expect("lengths");
        fs::write(folder.join("link_lists.bin"), b"").expect("links");
        fs::write(folder.join("held.txt"), ids.join("\n")).expect("for the model");
    }

    /// Ids of the records in the index on disk (a copy, for the model, of the ids in the pickle).
    pub(crate) fn held(&self, coll: &Coll) -> BTreeMap<String, ()> {
        let text = fs::read_to_string(self.folder(coll).join("held.txt")).unwrap_or_default();
        text.lines().map(|l| (l.to_string(), ())).collect()
    }

    /// The position of the vector segment as Chroma would find it; -1 if it has none.
    pub(crate) fn taken(&self, coll: &Coll) -> i64 {
        if self.age == Age::Old {
            let path = self.folder(coll).join("index_metadata.pickle");
            let Ok(bytes) = fs::read(path) else { return -1 };
            let index =
                densite_tools::chroma::pickle::IndexMetadata::read(&bytes[..], bytes.len() as u64);
            return index.expect("an index").max_seq_id.unwrap_or(-1);
        }
        let found: Option<Value> = self
            .db
            .query_row(
                "SELECT seq_id FROM max_seq_id WHERE segment_id = ?",
                [&coll.vectors],
                |r| r.get(0),
            )
            .ok();
        match found {
            Some(Value::Integer(n)) => n,
            Some(Value::Blob(b)) => i64::from_be_bytes(b.try_into().expect("8 bytes")),
            _ => -1,
        }
    }

    /// Takes the rows of the queue above `from` up to `to`, as a starting vector segment does.
    pub(crate) fn replay(&self, coll: &Coll, from: i64, to: i64, held: &mut BTreeMap<String, ()>) {
        let mut rows = self
            .db
            .prepare("SELECT operation, id FROM embeddings_queue WHERE topic = ? AND seq_id > ? AND seq_id <= ? ORDER BY seq_id")
            .expect("a query");
        let rows = rows
            .query_map(params![coll.topic(), from, to], |r| {
                Ok((r.get::<_, i64>(0)?, r.get::<_, String>(1)?))
            })
            .expect("rows");
        for row in rows {
            match row.expect("a row") {
                (0 | 2, id) => {
                    held.insert(id, ());
                }
                (3, id) => {
                    held.remove(&id);
                }
                _ => {}
            }
        }
    }

    /// All `seq_id`s in the queue.
    pub(crate) fn rows(&self) -> Vec<i64> {
        let mut rows = self
            .db
            .prepare("SELECT seq_id FROM embeddings_queue ORDER BY seq_id")
            .expect("a query");
        let rows = rows.query_map([], |r| r.get(0)).expect("rows");
        rows.map(|r| r.expect("a row")).collect()
    }

    pub(crate) fn found(&self) -> ChromaDir {
        recognise(self.dir.path())
            .expect("looked at")
            .expect("a Chroma directory")
    }

    pub(crate) fn ours(&self) -> Ours {
        crate::connect(&self.dir.path().join("chroma.sqlite3"))
    }

    pub(crate) fn plan(&self) -> densite_tools::Result<PrunePlan> {
        plan(&self.ours(), &self.found())
    }

    pub(crate) fn prune(&self) -> densite_tools::Result<Pruned> {
        prune(&self.ours(), &self.found())
    }
}

/// A pickle in the format of Chroma 1.0 and newer. With a `max_seq_id` it has the content of older
/// ones, except for the class.
fn pickled(max_seq_id: Option<i64>, ids: &[&str]) -> Vec<u8> {
    fn text(out: &mut Vec<u8>, s: &str) {
        out.push(b'X');
        out.extend((s.len() as u32).to_le_bytes());
        out.extend(s.as_bytes());
    }
    fn int(out: &mut Vec<u8>, n: i64) {
        out.extend([0x8a, 8]);
        out.extend(n.to_le_bytes());
    }
    let mut out = b"\x80\x03}(".to_vec();
    text(&mut out, "dimensionality");
    int(&mut out, 2);
    text(&mut out, "max_seq_id");
    match max_seq_id {
        Some(n) => int(&mut out, n),
        None => out.push(b'N'),
    }
    text(&mut out, "id_to_label");
    out.push(b'}');
    for batch in ids.chunks(1000) {
        out.push(b'(');
        for (i, id) in (1..).zip(batch) {
            text(&mut out, id);
            int(&mut out, i);
        }
        out.push(b'u');
    }
    out.extend(b"u.");
    out
}
