"""What the tests do in Chroma itself. Run with the Python of a venv that has chromadb; embeddings are given, so that no model is loaded.

    driver.py make DIR        a directory with collections of every sort
    driver.py look DIR FILE   everything that can be read: all records, and the answers to queries, as JSON
    driver.py leave DIR       a collection with an index, `left`, for `drop`
    driver.py drop DIR        deletes it without opening its index, as a process does that only cleans up
    driver.py more DIR        goes on writing, and checks that what was written is found
"""

import json
import os
import sys

os.environ["ANONYMIZED_TELEMETRY"] = "False"
import logging

logging.disable(logging.CRITICAL)
import chromadb  # noqa: E402
import numpy as np  # noqa: E402
from chromadb.config import Settings  # noqa: E402

DIMENSIONS = 16
# (tenant, database); the first pair is Chroma's default.
PLACES = [("default_tenant", "default_database"), ("default_tenant", "archive"), ("acme", "shop")]
# So exact that the same records give the same answers, whatever the order in which the index was
# built.
EXACT = {"hnsw:search_ef": 500, "hnsw:construction_ef": 300, "hnsw:M": 32, "hnsw:num_threads": 1}


def settings():
    return Settings(anonymized_telemetry=False)


def client(path, tenant, database):
    return chromadb.PersistentClient(path, settings=settings(), tenant=tenant, database=database)


def vectors(seed, n):
    return np.random.default_rng(seed).random((n, DIMENSIONS)).astype("float32").tolist()


def fill(collection, seed, n, batch=100, name="id"):
    for start in range(0, n, batch):
        ids = [f"{name}{i}" for i in range(start, min(start + batch, n))]
        collection.add(
            ids=ids,
            embeddings=vectors(seed + start, len(ids)),
            metadatas=[{"n": int(i[len(name):]), "even": int(i[len(name):]) % 2 == 0} for i in ids],
            documents=[f"document {i} of {collection.name}" for i in ids],
        )


def change(collection, seed, upto):
    """Updates, upserts of old and new records, deletes, and one record that comes back."""
    ids = [f"id{i}" for i in range(0, upto, 7)]
    collection.update(ids=ids, embeddings=vectors(seed, len(ids)), metadatas=[{"n": -1}] * len(ids))
    ids = [f"id{i}" for i in range(upto - 5, upto + 5)]
    collection.upsert(ids=ids, embeddings=vectors(seed + 1, len(ids)), documents=["upserted"] * len(ids))
    collection.delete(ids=[f"id{i}" for i in range(3, upto, 11)])
    collection.delete(ids=["id50"])
    collection.upsert(ids=["id50"], embeddings=vectors(seed + 2, 1))


def make(path):
    admin = chromadb.AdminClient(Settings(is_persistent=True, persist_directory=path, anonymized_telemetry=False))
    admin.create_database("archive")
    admin.create_tenant("acme")
    admin.create_database("shop", "acme")
    a, b, c = (client(path, *place) for place in PLACES)
    make_one = lambda client, name: client.create_collection(name, metadata=EXACT, embedding_function=None)
    idle = make_one(a, "idle")
    fill(idle, 10, 1250)
    big = make_one(a, "big")
    fill(big, 1000, 2300)
    gone = make_one(a, "gone")
    fill(gone, 2000, 300)
    for at, other in enumerate((b, c)):
        same_name = make_one(other, "big")
        fill(same_name, 30000 + 10000 * at, 1150 + 100 * at)
        change(same_name, 31 + at, 300)
    odd = make_one(a, "odd-ids")
    names = ["max_seq_id", "id_to_label", "a'b\"c", "€ 😀", "x" * 300, "line\nbreak", "\\u0041"]
    odd.add(ids=names, embeddings=vectors(77, len(names)))
    fill(odd, 5000, 1100, name="odd ")
    small = make_one(a, "small")
    fill(small, 3000, 60)
    make_one(b, "empty")
    change(big, 4, 1200)
    a.delete_collection("gone")
    change(small, 5, 60)


def look(path, out):
    found = {}
    for tenant, database in PLACES:
        con = client(path, tenant, database)
        for item in con.list_collections():
            collection = con.get_collection(getattr(item, "name", item), embedding_function=None)
            rows = collection.get(include=["embeddings", "metadatas", "documents"])
            embeddings = rows["embeddings"] if rows["embeddings"] is not None else []
            records = {
                id: [np.asarray(e, dtype="float32").tolist(), m, d]
                for id, e, m, d in zip(rows["ids"], embeddings, rows["metadatas"], rows["documents"])
            }
            answers = []
            if records:
                n = min(10, len(records))
                got = collection.query(query_embeddings=vectors(99, 20), n_results=n)
                answers = [got["ids"], [[round(float(d), 4) for d in ds] for ds in got["distances"]]]
                got = collection.query(query_embeddings=vectors(98, 5), n_results=n, where={"even": True})
                answers.append(got["ids"])
            found["/".join((tenant, database, collection.name))] = {
                "count": collection.count(),
                "records": dict(sorted(records.items())),
                "answers": answers,
            }
    with open(out, "w") as file:
        json.dump(found, file, sort_keys=True)


def more(path):
    for at, place in enumerate(PLACES):
        con = client(path, *place)
        for item in con.list_collections():
            collection = con.get_collection(getattr(item, "name", item), embedding_function=None)
            before = collection.count()
            fill(collection, 60000 + at, 1300, name="later")
            assert collection.count() == before + 1300, (place, collection.name, before, collection.count())
            collection.delete(ids=["later1"])
            wanted = vectors(60000 + at, 100)
            got = collection.query(query_embeddings=[wanted[i] for i in (0, 50, 99)], n_results=1)
            # (0.5.4 can return one more result than requested.)
            assert [ids[0] for ids in got["ids"]] == ["later0", "later50", "later99"], got
            assert got["distances"][0][0] < 1e-6, got


def leave(path):
    con = client(path, *PLACES[0])
    fill(con.create_collection("left", metadata=EXACT, embedding_function=None), 70000, 1250)


def drop(path):
    client(path, *PLACES[0]).delete_collection("left")


if __name__ == "__main__":
    verb, *args = sys.argv[1:]
    {"make": make, "look": look, "more": more, "leave": leave, "drop": drop}[verb](*args)
