"""What the stream costs: rows that it has durably, acknowledgements, COMMIT, and one row everywhere."""

import json
import statistics
import time

import result
from members.figures import ours, p99
from members.process import BATCH
from members.server import Client


def beside(name, of, member, other, target=None):
    """A quantile of times in seconds, in ms, divided by that of the other times."""
    return result.figure(name, of(other) * 1000, of(member) * 1000, target, "at most")


def rows(cluster):
    """Transactions of many rows as fast as they go, until the stream has the last one."""
    cluster.start()
    rates = []
    for _ in range(cluster.options.rounds):
        cluster.writer.ask(rows=BATCH, seconds=cluster.options.seconds)
        rates.append(cluster.writer.answer()["rate"])
    count = cluster.finish()
    return [ours(f"one origin, transactions of {BATCH} rows: rows/s durable in the stream", statistics.median(rates), 500_000, limit="at least")], {"rows": count}


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
        beside("COMMIT and densite_wait(seq, 'stream'), median, ms; a bare publish", statistics.median, found, bare),
        beside("COMMIT and densite_wait(seq, 'stream'), p99, ms; a bare publish", p99, found, bare, 2),
    ], {"waits": len(found), "bare publishes": len(bare)}


def commits(cluster):
    """COMMIT of one row, in turn in a member and in a database without a stream: 100 a second, then
    half as many as that database takes."""
    cluster.start()
    cluster.alone.ask(seconds=cluster.options.seconds)
    peak = cluster.alone.answer()["rate"]
    figures, info = [], {"COMMITs a second without a stream": peak}
    for name, pace, target in (("100 a second", 100, None), ("half of the full rate", peak / 2, 1.2)):
        member, plain = [], []
        for _ in range(cluster.options.rounds):
            for who, taken in ((cluster.writer, member), (cluster.alone, plain)):
                who.ask(pace=pace, seconds=cluster.options.seconds)
                taken += who.answer()["taken"]
        figures += [
            beside(f"COMMIT of one row, {name}, median, ms; without a stream", statistics.median, member, plain),
            beside(f"COMMIT of one row, {name}, p99, ms; without a stream", p99, member, plain, target),
        ]
        info[f"commits, {name}"] = len(member)
    return figures, info


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
