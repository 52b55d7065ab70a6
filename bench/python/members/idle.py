"""Members without rows: how many messages they send to the server."""

import tempfile
import threading
import time

from members.cluster import NAMES, Cluster
from members.figures import ours

#: Pauses of an idle member double up to 75 s. It has reached them after this time, seconds.
SETTLED = 150


class Idle:
    """Members that begin to be idle now, beside other measures: they take no time of a core."""

    def __init__(self, options):
        self.folder = tempfile.TemporaryDirectory(dir=options.dir)
        self.cluster = Cluster(options, self.folder.name)
        self.cluster.start()
        settled = min(SETTLED, options.idle / 2)
        self.end = time.monotonic() + options.idle
        self.first = threading.Timer(settled, self.count)
        self.first.start()
        self.counts = []

    def count(self):
        about = self.cluster.server.about()
        self.counts.append((time.monotonic(), about["in_msgs"], about["out_msgs"]))

    def figures(self):
        """Waits until the time is over."""
        time.sleep(max(0, self.end - time.monotonic()))
        self.first.join()
        self.count()
        (begin, sent, got), (end, sent_last, got_last) = self.counts
        each = (end - begin) / 60 * len(NAMES)
        return [ours("idle: messages a minute that a member sends", (sent_last - sent) / each, 1)], {"minutes": (end - begin) / 60, "messages a minute that a member gets": (got_last - got) / each}

    def close(self):
        self.first.cancel()
        self.cluster.close()
        self.folder.cleanup()
