"""Makes the fixtures beside it with Python's own pickle, in every protocol. The class looks like
Chroma's and is in a module of the same name."""

import os
import pickle
import sys
import types

MODULE = "chromadb.segment.impl.vector.local_persistent_hnsw"
for i in range(1, MODULE.count(".") + 2):
    name = ".".join(MODULE.split(".")[:i])
    sys.modules[name] = types.ModuleType(name)


class PersistentData:
    pass


PersistentData.__module__ = MODULE
PersistentData.__qualname__ = "PersistentData"
sys.modules[MODULE].PersistentData = PersistentData

# More than a batch of 1000 dictionary entries, and more than 256 values in the memo.
IDS = ["max_seq_id", "a'b\"c", "€ 😀", "ä", "line\nbreak", "back\\slash \\u0041", "x" * 300] + [f"id{i}" for i in range(1010)]


def state(max_seq_id, ids=IDS):
    labels = {id: i + 1 for i, id in enumerate(ids)}
    return {
        "dimensionality": 16,
        "total_elements_added": len(ids),
        "max_seq_id": max_seq_id,
        "id_to_label": labels,
        "label_to_id": {label: id for id, label in labels.items()},
        "id_to_seq_id": {id: 70000 + label for id, label in labels.items()},
    }


def put(name, value, protocol):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), "wb") as file:
        pickle.dump(value, file, protocol)


for protocol in range(6):
    for name, ids in (("object", IDS), ("small", IDS[:4])):
        data = PersistentData()
        data.__dict__.update(state(3_000_000_000, ids))
        put(f"{name}-{protocol}.pickle", data, protocol)
put("dict-3.pickle", state(None), 3)
put("call.pickle", os.system, 4)
