"""Three members of a stream on a NATS server that syncs every message: rows durable in the stream, the latency of their acknowledgement, what a writer pays, rows applied on all members and when, a new member, and idle ones.

    bench/python/run.sh target/release/libdensite.so target/bench-python cluster.py [--seconds N] [--rounds N] [--rows N] [--large N] [--idle N] [--only WORD] [--dir DIR] [--save bench]

Each member is a process of its own. The acknowledgement stands beside that of a bare publish to another stream of the same server.
"""

import argparse
import os
import tempfile

import densite
import result
from members import applied, newcomer, process, stream
from members.cluster import Cluster
from members.idle import Idle

options = argparse.ArgumentParser()
options.add_argument("--seconds", type=float, default=10, help="how long each measure writes in a round")
options.add_argument("--rounds", type=int, default=5)
options.add_argument("--rows", type=int, default=2_000_000, help="rows that all members apply in a round")
options.add_argument("--large", type=int, default=10_000_000, help="rows of the database of which a new member is a copy")
options.add_argument("--idle", type=float, default=600, help="how long members are idle, seconds, beside the other measures")
options.add_argument("--only", default="", help="measures whose names have this in them")
options.add_argument("--dir", help="where databases and the server's files are made; the system's folder for such things otherwise")
options.add_argument("--save", help="the folder whose results/ gets what was measured")
options.add_argument("--command", default="target/release/densite")
options.add_argument("--server", default="target/nats-server/bin/nats-server", help="lab/testing/nats/setup.sh builds it")
options.add_argument("--child", help=argparse.SUPPRESS)
options = options.parse_args()

DATA = "Rows of 20 bytes, three members on one machine"
MEASURES = {
    "rows": ("rows durable in the stream", stream.rows),
    "acknowledgement": ("acknowledgements of the stream", stream.acknowledgement),
    "commits": ("a writer with and without a stream", stream.commits),
    "everywhere": ("from COMMIT to all members", stream.everywhere),
    "applying": ("rows applied on all members", applied.applying),
    "quarter": ("from COMMIT to all members, at a quarter of the full rate", applied.quarter),
    "newcomer": ("a new member", newcomer.newcomer),
}
IDLE = ("idle", "members without rows")


def tell(name, title, figures, info, about):
    print(f"\n{title}")
    for one in figures:
        print(f"  {one['name']:90} {one['base']:12.3f} {one['ours']:12.3f} {one['value']:12.3f}")
    for what, value in info.items():
        print(f"    {what}: {value}", flush=True)
    if options.save:
        found = result.outcome(f"cluster-{name}", title, DATA, "without the stream", figures, about)
        found["info"] = info
        result.save(options.save, found)


def measured(name, title, measure):
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        about = result.machine(folder, densite.__version__)
        cluster = Cluster(options, folder)
        try:
            figures, info = measure(cluster)
            info["nats-server"] = cluster.server.about()["version"]
        finally:
            cluster.close()
    tell(name, title, figures, info, about)


def main():
    if not os.path.exists(options.server):
        raise SystemExit(f"{options.server} is missing: make nats-server")
    idle = Idle(options) if options.only in IDLE[0] else None
    try:
        for name, (title, measure) in MEASURES.items():
            if options.only in name:
                measured(name, title, measure)
        if idle:
            about = result.machine(idle.folder.name, densite.__version__)
            tell(*IDLE, *idle.figures(), about)
    finally:
        if idle:
            idle.close()


if options.child:
    process.KINDS[options.child](os.environ["JOB"])
else:
    main()
