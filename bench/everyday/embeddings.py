"""Vectors of chunks of the crates' sources.

A vector is the chunk's TF-IDF with hashed words and pairs of words, of length 1: what scikit-learn
calls a HashingVectorizer and a TfidfTransformer. Sums are in a fixed order, and logarithms are
rounded, so every processor makes the same bytes. A neural model would need gigabytes of downloads.
"""

import itertools
import math
import re
import zlib

import numpy

from crates import documents
from database import create, insert

DIMENSIONS = 256
#: Chunks overlap, as they usually do.
CHUNK, STEP = 2_000, 1_500
MOST = 36_000
WORD = re.compile(r"[A-Za-z]{2,}|[0-9]+")


def chunks(part):
    """The document's number, its crate and path, the chunk's first character, and its text."""
    number = 0
    for document, (crate, path, _, text) in enumerate(documents(part), 1):
        for start in range(0, len(text), STEP):
            if number == MOST:
                return
            number += 1
            yield document, f"{crate}/{path}", start, text[start : start + CHUNK]


def vectors(texts):
    """A matrix of float32, a row for each text."""
    counts = numpy.zeros((len(texts), DIMENSIONS))
    columns = {}
    for row, text in enumerate(texts):
        words = WORD.findall(text.lower())
        pairs = (f"{first} {second}" for first, second in zip(words, words[1:]))
        for word in itertools.chain(words, pairs):
            column = columns.get(word)
            if column is None:
                column = columns[word] = zlib.crc32(word.encode()) % DIMENSIONS
            counts[row, column] += 1
    having = (counts > 0).sum(axis=0)
    idf = numpy.array([round(1 + math.log((1 + len(texts)) / (1 + int(n))), 6) for n in having])
    weighted = counts * idf
    length = numpy.sqrt(numpy.cumsum(weighted * weighted, axis=1)[:, -1:])
    return (weighted / numpy.maximum(length, 1e-12)).astype("<f4")


def embeddings(path, part):
    """A table of chunks, and one of their vectors."""
    found = list(chunks(part))
    with create(path) as con:
        con.execute(
            """CREATE TABLE chunk (
                 id INTEGER PRIMARY KEY, document INTEGER NOT NULL, path TEXT NOT NULL,
                 start INTEGER NOT NULL);
               CREATE TABLE embedding (
                 chunk INTEGER PRIMARY KEY REFERENCES chunk(id), vector BLOB NOT NULL);
               CREATE INDEX chunk_document ON chunk(document)"""
        )
        insert(con, "chunk", ((i, d, p, s) for i, (d, p, s, _) in enumerate(found, 1)))
        matrix = vectors([text for _, _, _, text in found])
        insert(con, "embedding", ((i, row.tobytes()) for i, row in enumerate(matrix, 1)))
