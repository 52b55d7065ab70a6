"""The command works on a directory of Chroma release 1.5: its database, and the files of an index
that a vacuum reads. `features/tools/tests/chroma` tests directories of all releases.
"""

import os
import struct

from .commands import Command
from .scenario import FIRST

#: The migrations of release 1.5.
MIGRATIONS = {
    "sysdb": "collections segments collection-dimension tenants-databases remove-topic collection-segment-metadata collection-config maintenance-log segment-collection-not-null collection-schema",
    "metadb": "embedding-metadata embedding-metadata full-text-tokenize metadata-indices max-seq-id-int metadata-array-support",
    "embeddings_queue": "embeddings embeddings-queue-config",
}
SCHEMA = """
CREATE TABLE migrations(dir TEXT NOT NULL, version INTEGER NOT NULL, filename TEXT NOT NULL, sql TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY(dir, version));
CREATE TABLE tenants(id TEXT PRIMARY KEY);
CREATE TABLE databases(id TEXT PRIMARY KEY, name TEXT NOT NULL, tenant_id TEXT NOT NULL);
CREATE TABLE collections(id TEXT PRIMARY KEY, name TEXT NOT NULL, database_id TEXT NOT NULL, dimension INTEGER, UNIQUE(name, database_id));
CREATE TABLE segments(id TEXT PRIMARY KEY, type TEXT NOT NULL, scope TEXT NOT NULL, collection TEXT);
CREATE TABLE embeddings(id INTEGER PRIMARY KEY, segment_id TEXT NOT NULL, embedding_id TEXT NOT NULL, seq_id BLOB NOT NULL, UNIQUE(segment_id, embedding_id));
CREATE TABLE max_seq_id(segment_id TEXT PRIMARY KEY, seq_id INTEGER);
CREATE TABLE embeddings_queue(seq_id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, operation INTEGER NOT NULL,
  topic TEXT NOT NULL, id TEXT NOT NULL, vector BLOB, encoding TEXT, metadata TEXT);
CREATE TABLE embeddings_queue_config(id INTEGER PRIMARY KEY, config_json_str TEXT);
INSERT INTO tenants VALUES('default_tenant');
INSERT INTO databases VALUES('00000000-0000-0000-0000-000000000000', 'default_database', 'default_tenant');
INSERT INTO embeddings_queue_config VALUES(1, '{"automatically_purge": false, "_type": "EmbeddingsQueueConfigurationInternal"}');
"""
KINDS = {"VECTOR": "urn:chroma:segment/vector/hnsw-local-persisted", "METADATA": "urn:chroma:segment/metadata/sqlite"}


class Collection:
    """A collection. Chroma stores metadata at once, but vectors only when they are persisted."""

    def __init__(self, con, number):
        self.con, self.rows, self.persisted = con, [], []
        self.id, self.vectors, self.metadata = (f"{number:08x}-0000-4000-8000-{part:012x}" for part in range(3))
        self.topic = f"persistent://default/default/{self.id}"
        con.execute("INSERT INTO collections VALUES (?, ?, '00000000-0000-0000-0000-000000000000', 2)", (self.id, f"collection {number}"))
        for segment, scope in (self.vectors, "VECTOR"), (self.metadata, "METADATA"):
            con.execute("INSERT INTO segments VALUES (?, ?, ?, ?)", (segment, KINDS[scope], scope, self.id))

    def add(self, record, vector):
        con = self.con
        con.execute("BEGIN")
        queued = "INSERT INTO embeddings_queue(operation, topic, id, vector, encoding, metadata) VALUES (0, ?, ?, ?, 'FLOAT32', '{}')"
        row = con.execute(queued, (self.topic, record, vector)).lastrowid
        con.execute("INSERT INTO embeddings(segment_id, embedding_id, seq_id) VALUES (?, ?, ?)", (self.metadata, record, row))
        con.execute("INSERT OR REPLACE INTO max_seq_id VALUES (?, ?)", (self.metadata, row))
        con.execute("COMMIT")
        self.rows.append((row, record))

    def persist(self):
        """Persists all vectors so far. Rows of the queue before the last one are no longer
        needed."""
        self.persisted = list(self.rows)
        self.con.execute("INSERT OR REPLACE INTO max_seq_id VALUES (?, ?)", (self.vectors, self.position))

    @property
    def position(self):
        return self.persisted[-1][0] if self.persisted else 0

    def write_index(self, folder):
        if not self.persisted:
            return
        os.mkdir(f"{folder}/{self.vectors}")
        many, room, each = len(self.persisted), len(self.persisted) + 10, 20
        files = {
            "index_metadata.pickle": pickled([record.encode() for _, record in self.persisted]),
            "header.bin": struct.pack("<IQQQQ", 1, 0, room, many, each).ljust(100, b"\0"),
            "data_level0.bin": b"\1" * room * each,
            "length.bin": b"\1" * room * 4,
            "link_lists.bin": b"",
        }
        for name, content in files.items():
            with open(f"{folder}/{self.vectors}/{name}", "wb") as file:
                file.write(content)


def pickled(records):
    def text(s):
        return b"X" + struct.pack("<I", len(s)) + s

    def number(n):
        return b"\x8a\x08" + struct.pack("<q", n)

    labels = b"".join(text(record) + number(n) for n, record in enumerate(records, 1))
    return b"\x80\x03}(" + text(b"dimensionality") + number(2) + text(b"max_seq_id") + b"N" + text(b"id_to_label") + b"}(" + labels + b"uu."


class VacuumChroma(Command):
    """The vacuum removes all unneeded rows of Chroma's queue or none. All other rows stay."""

    name = "chroma.sqlite3"

    def __init__(self, *given):
        super().__init__(*given)
        for collection in self.collections:
            collection.write_index(self.folder)

    def fill(self, con):
        """Adds records to two collections in turn. Only the first one is persisted."""
        con.executescript(SCHEMA)
        for part, files in MIGRATIONS.items():
            for version, name in enumerate(files.split(), 1):
                con.execute("INSERT INTO migrations VALUES (?, ?, ?, '', '')", (part, version, f"{version:05}-{name}.sqlite.sql"))
        self.collections = [Collection(con, number) for number in (1, 2)]
        for n in range(FIRST):
            for collection in self.collections:
                for i in range(self.random.choice([1, 5, 20])):
                    collection.add(f"record {n} {i}", self.random.randbytes(512))
            if self.random.random() < 0.2:
                self.collections[0].persist()
            yield n
        self.before = self.summary(con)

    def states(self):
        others, rows, _ = self.before
        first = self.collections[0]
        kept = [row for row in rows if row[3] != first.topic or row[0] >= first.position]
        return [self.before, (others, kept, 1)]

    def summary(self, con):
        """All other tables, the queue, and the setting by which Chroma purges the queue."""
        names = [name for (name,) in con.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'embeddings_queue%' ORDER BY 1")]
        others = [(name, con.execute(f"SELECT * FROM {name} ORDER BY rowid").fetchall()) for name in names]
        rows = con.execute("SELECT * FROM embeddings_queue ORDER BY 1").fetchall()
        ((purges,),) = con.execute("SELECT config_json_str ->> 'automatically_purge' FROM embeddings_queue_config")
        return others, rows, purges

    def arguments(self):
        return [self.command, "vacuum", self.random.choice([self.folder, self.path]), "--yes"]

    def done(self, output, has_ended):
        return int(has_ended), 1
