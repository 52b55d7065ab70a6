"""A new member: a restored replica that joins, and applies what the stream has behind it."""

import os
import statistics
import subprocess
import time

import result
from members.process import BATCH, MANY, SCHEMA, Child, opened

#: Most rounds: each restores two databases.
ROUNDS = 3


def restored(cluster, name):
    """Restores the replica. Returns how long it took, seconds."""
    begin = time.monotonic()
    subprocess.run([cluster.options.command, "restore", os.path.join(cluster.folder, "replica"), cluster.path(name)], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def applied(con, last):
    """Waits until a member has this row, and all others."""
    while con.execute("SELECT ifnull(max(id), 0) FROM event").fetchone()[0] < last:
        time.sleep(0.005)


def newcomer(cluster):
    """Restoring, joining and applying, beside restoring alone plus applying alone: by a member that
    joined before the rows were written."""
    large, rest = cluster.options.large, max(BATCH, cluster.options.large // 10)
    first = opened(cluster.path("a"))
    first.execute(SCHEMA)
    first.execute(f"INSERT INTO event {MANY}", (large, 0))
    cluster.join(first, "a")
    subprocess.run([cluster.options.command, "replicate", cluster.path("a"), os.path.join(cluster.folder, "replica"), "--once"], check=True, stdout=subprocess.DEVNULL)
    rounds = range(min(ROUNDS, cluster.options.rounds))
    restoring = []
    for i in rounds:
        restoring.append(restored(cluster, f"before{i}"))
        con = opened(cluster.path(f"before{i}"))
        cluster.join(con, f"before{i}")
        con.close()
    writer = Child("write", cluster.path("a"))
    writer.ask(many=rest)
    last = writer.answer()["last"]
    writer.close()
    first.close()
    applying, together = [], []
    for i in rounds:
        begin = time.monotonic()
        con = opened(cluster.path(f"before{i}"))
        applied(con, last)
        applying.append(time.monotonic() - begin)
        con.close()
        begin = time.monotonic()
        restored(cluster, f"new{i}")
        con = opened(cluster.path(f"new{i}"))
        cluster.join(con, f"new{i}")
        applied(con, last)
        together.append(time.monotonic() - begin)
        found = con.execute("SELECT count(*), sum(id) FROM event").fetchone()
        con.close()
        if found != (last, last * (last + 1) // 2):
            raise SystemExit(f"the new member has {found[0]} rows instead of {last}")
    apart = statistics.median(restoring) + statistics.median(applying)
    figure = result.figure(f"a new member with {large} rows, {rest} more in the stream, s; restoring plus applying, measured apart", apart, statistics.median(together), 1.2, "at most")
    return [figure], {"restoring, s": statistics.median(restoring), "applying, s": statistics.median(applying), "bytes of the database": os.path.getsize(cluster.path("a"))}
