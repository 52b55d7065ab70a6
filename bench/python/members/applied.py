"""Rows applied on all members: how many in a second, and how long after COMMIT."""

import bisect
import statistics

import result
from members.cluster import NAMES
from members.figures import ours, p99
from members.process import BATCH


def applying(cluster):
    """The same rows as fast as they go, until all three members have them, in turn with a database
    without a stream."""
    cluster.start()
    members, alone, written = [], [], []
    for _ in range(cluster.options.rounds):
        last = cluster.finish()
        for other in cluster.others:
            other.ask(until=last + cluster.options.rows, pause=0.01)
        cluster.writer.ask(many=cluster.options.rows)
        own = cluster.writer.answer()
        end = max(own["applied"], *(other.answer()["at"] for other in cluster.others))
        members.append(cluster.options.rows / (end - own["begin"]))
        written.append(cluster.options.rows / (own["written"] - own["begin"]))
        cluster.alone.ask(many=cluster.options.rows)
        own = cluster.alone.answer()
        alone.append(cluster.options.rows / (own["applied"] - own["begin"]))
    figure = result.figure("rows/s applied on all three members; a database without a stream, divided by three", statistics.median(alone) / 3, statistics.median(members), 0.8)
    return [figure], {"rows of a round": cluster.options.rows, "rows/s acknowledged by the log of a member": statistics.median(written)}


def quarter(cluster):
    """From COMMIT until all three members have the row, at a quarter of the rate that the stream
    takes."""
    cluster.start()
    cluster.writer.ask(rows=BATCH, seconds=cluster.options.seconds)
    full = cluster.writer.answer()["rate"]
    number = cluster.finish()
    observers = [cluster.child("read", NAMES[0]), *cluster.others]
    every = BATCH / (full / 4)
    count = max(1, int(cluster.options.seconds * cluster.options.rounds / every))
    for observer in observers:
        observer.ask(until=number + count * BATCH, pause=0.005, each=True)
    cluster.writer.ask(every=every, transactions=count)
    written = cluster.writer.answer()
    seen = [observer.answer()["seen"] for observer in observers]

    def after(which, last, committed):
        """How long after COMMIT these members had the row."""
        at = (found[bisect.bisect_left(found, last, key=lambda one: one[0])][1] for found in which)
        return max(0, max(at) - committed)

    everywhere = [after(seen, *one) for one in written["committed"]]
    own = [after(seen[:1], *one) for one in written["committed"]]
    return [
        ours("from COMMIT until all three members have the row, median, ms; the writer's own", statistics.median(everywhere) * 1000, None, statistics.median(own) * 1000),
        ours("from COMMIT until all three members have the row, p99, ms; the writer's own", p99(everywhere) * 1000, 250, p99(own) * 1000),
    ], {"rows/s that the stream takes": full, "rows/s": count * BATCH / written["seconds"], "transactions": count}
