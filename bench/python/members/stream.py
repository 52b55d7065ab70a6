"""What the stream costs: rows that it has durably, acknowledgements, COMMIT, and one row everywhere."""

import json
import statistics
import time

from members.figures import ours, p99
from members.process import BATCH
from members.server import Client


def rows(cluster):
    """Transactions of many rows as fast as they go, until the stream has the last one."""
    cluster.start()
    rates = []
    for _ in range(cluster.options.rounds):
        cluster.writer.ask(rows=BATCH, seconds=cluster.options.seconds)
        rates.append(cluster.writer.answer()["rate"])
    count = cluster.finish()
    return [ours(f"one origin, transactions of {BATCH} rows: rows/s durable in the stream", statistics.median(rates))], {"rows": count}


def acknowledgement(cluster):
    """One row at a time, until the stream has it, in turn with a bare publish of as many bytes."""
    cluster.start()
    client = Client(cluster.server.port)
    client.request("$JS.API.STREAM.CREATE.BARE", json.dumps({"name": "BARE", "subjects": ["bare.a"], "storage": "file"}).encode())
    found, bare = [], []
    for _ in range(cluster.options.rounds):
        cluster.writer.ask(waits=True, seconds=cluster.options.seconds / 2)
        found += cluster.writer.answer()["taken"]
        end = time.monotonic() + cluster.options.seconds / 2
        while time.monotonic() < end:
            start = time.perf_counter()
            client.request("bare.a", b"x" * 120)
            bare.append(time.perf_counter() - start)
    return [
        ours("COMMIT and densite_wait(seq, 'stream'), median, ms; a bare publish", statistics.median(found) * 1000, None, statistics.median(bare) * 1000),
        ours("COMMIT and densite_wait(seq, 'stream'), p99, ms; a bare publish", p99(found) * 1000, None, p99(bare) * 1000),
    ], {"waits": len(found), "bare publishes": len(bare)}


def commits(cluster):
    """COMMIT of one row, 100 a second, in turn in a member and in a database without a stream."""
    cluster.start()
    member, plain = [], []
    for _ in range(cluster.options.rounds):
        for who, taken in ((cluster.writer, member), (cluster.alone, plain)):
            who.ask(pace=100, seconds=cluster.options.seconds)
            taken += who.answer()["taken"]
    return [
        ours("COMMIT of one row, 100 a second, median, ms; without a stream", statistics.median(member) * 1000, None, statistics.median(plain) * 1000),
        ours("COMMIT of one row, 100 a second, p99, ms; without a stream", p99(member) * 1000, None, p99(plain) * 1000),
    ], {"commits": len(member)}


def everywhere(cluster):
    """From COMMIT until the tables of all three members have the row."""
    cluster.start()
    number, own, all_members = cluster.finish(), [], []
    end = time.monotonic() + cluster.options.seconds * cluster.options.rounds
    while time.monotonic() < end:
        number += 1
        for other in cluster.others:
            other.ask(until=number)
        cluster.writer.ask(one=True)
        written = cluster.writer.answer()
        own.append(written["applied"] - written["committed"])
        last = max(other.answer()["at"] for other in cluster.others)
        all_members.append(max(last, written["applied"]) - written["committed"])
    return [
        ours("from COMMIT until all three members have the row, median, ms; the writer's own", statistics.median(all_members) * 1000, None, statistics.median(own) * 1000),
        ours("from COMMIT until all three members have the row, p99, ms; the writer's own", p99(all_members) * 1000, None, p99(own) * 1000),
    ], {"rows": len(own)}
