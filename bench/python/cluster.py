"""Three members of a stream on a NATS server that syncs every message: rows durable in the stream, the latency of their acknowledgement, what a writer pays, and when all members have a row.

    bench/python/run.sh target/release/libdensite.so target/bench-python cluster.py [--seconds N] [--rounds N] [--only WORD] [--dir DIR] [--save bench]

Each member is a process of its own. The acknowledgement stands beside that of a bare publish to another stream of the same server.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import densite
import result

options = argparse.ArgumentParser()
options.add_argument("--seconds", type=float, default=10, help="how long each measure writes in a round")
options.add_argument("--rounds", type=int, default=5)
options.add_argument("--only", default="", help="measures whose names have this in them")
options.add_argument("--dir", help="where databases and the server's files are made; the system's folder for such things otherwise")
options.add_argument("--save", help="the folder whose results/ gets what was measured")
options.add_argument("--server", default="target/nats-server/bin/nats-server", help="crates/testing/nats/setup.sh builds it")
options.add_argument("--child", help=argparse.SUPPRESS)
options = options.parse_args()

DATA = "Rows of 20 bytes, three members on one machine"
MEMBERS = ("a", "b", "c")
#: Rows of one transaction.
BATCH = 1000
SCHEMA = "CREATE TABLE event(id INTEGER PRIMARY KEY, at INT, value INT)"
INGEST = "CREATE VIRTUAL TABLE temp.event_in USING densite_ingest(event)"


def until(true, seconds):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"nothing happened for {seconds} s")
        time.sleep(0.001)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server:
    """nats-server with JetStream, which syncs each message before it acknowledges it."""

    def __init__(self, folder):
        self.port, monitor = free_port(), free_port()
        config = os.path.join(folder, "nats.conf")
        with open(config, "w") as out:
            out.write(f'listen: 127.0.0.1:{self.port}\nhttp: 127.0.0.1:{monitor}\njetstream {{ store_dir: "{folder}/store", sync_interval: always }}\n')
        self.process = subprocess.Popen([options.server, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self.listens, 20)
        self.url, self.monitor = f"nats://127.0.0.1:{self.port}/BENCH", f"http://127.0.0.1:{monitor}"

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        except OSError:
            return False

    def close(self):
        self.process.terminate()
        self.process.wait()


class Client:
    """Requests in the protocol of NATS, for the bare publish."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        self.file.readline()
        self.socket.sendall(b'CONNECT {"verbose":false}\r\nSUB inbox 1\r\n')

    def request(self, subject, body):
        self.socket.sendall(b"PUB %s inbox %d\r\n%s\r\n" % (subject.encode(), len(body), body))
        while True:
            line = self.file.readline()
            if line.startswith(b"MSG"):
                answer = json.loads(self.file.read(int(line.split()[-1]) + 2))
                if "error" in answer:
                    raise SystemExit(f"nats-server: {answer['error']}")
                return answer
            if line.startswith(b"PING"):
                self.socket.sendall(b"PONG\r\n")


def opened(path):
    return densite.connect(path, isolation_level=None, timeout=60)


def members(server, folder):
    """Paths of databases that have joined."""
    paths = [os.path.join(folder, f"{name}.db") for name in MEMBERS]
    first = opened(paths[0])
    first.execute("PRAGMA journal_mode=WAL")
    first.execute(SCHEMA)
    join(first, server, MEMBERS[0])
    for name, path in zip(MEMBERS[1:], paths[1:]):
        first.execute("VACUUM INTO ?", (path,))
        con = opened(path)
        con.execute("PRAGMA journal_mode=WAL")
        join(con, server, name)
        con.close()
    first.close()
    return paths


def join(con, server, name):
    settings = json.dumps({"origin": name, "monitor": [server.monitor]})
    con.execute("SELECT densite_join(?, ?)", (server.url, settings)).fetchone()


class Child:
    """A process of its own, which answers one line for each that it gets."""

    def __init__(self, what, **job):
        environment = {**os.environ, "JOB": json.dumps(job)}
        self.process = subprocess.Popen([sys.executable, __file__, "--child", what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.answer()

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a process of the measure ended: {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def p99(taken):
    return sorted(taken)[len(taken) * 99 // 100]


def ours(name, value, target=None, base=None, limit="at most"):
    """A figure of its own; `base` is that of the same without the stream."""
    met = None if target is None else value <= target if limit == "at most" else value >= target
    return {"name": name, "base": float(base or 0), "ours": float(value), "compare": "ours" if limit == "at most" else "ours at least", "value": float(value), "target": target, "met": met}


def rows(server, folder, writer, others, alone):
    """Transactions of many rows as fast as they go, until the stream has the last one."""
    rates = []
    for _ in range(options.rounds):
        writer.ask(rows=BATCH, seconds=options.seconds)
        rates.append(writer.answer()["rate"])
    count = finish(writer, others)
    return [ours(f"one origin, transactions of {BATCH} rows: rows/s durable in the stream", statistics.median(rates))], {"rows": count}


def finish(writer, others):
    """All members have all rows. Returns how many there are."""
    writer.ask(settle=True)
    last = writer.answer()["last"]
    for other in others:
        other.ask(until=last)
        other.answer()
    return last


def acknowledgement(server, folder, writer, others, alone):
    """One row at a time, until the stream has it, in turn with a bare publish of as many bytes."""
    client = Client(server.port)
    client.request("$JS.API.STREAM.CREATE.BARE", json.dumps({"name": "BARE", "subjects": ["bare.a"], "storage": "file"}).encode())
    found, bare = [], []
    for _ in range(options.rounds):
        writer.ask(waits=True, seconds=options.seconds / 2)
        found += writer.answer()["taken"]
        end = time.monotonic() + options.seconds / 2
        while time.monotonic() < end:
            start = time.perf_counter()
            client.request("bare.a", b"x" * 120)
            bare.append(time.perf_counter() - start)
    return [
        ours("COMMIT and densite_wait(seq, 'stream'), median, ms; a bare publish", statistics.median(found) * 1000, None, statistics.median(bare) * 1000),
        ours("COMMIT and densite_wait(seq, 'stream'), p99, ms; a bare publish", p99(found) * 1000, None, p99(bare) * 1000),
    ], {"waits": len(found), "bare publishes": len(bare)}


def commits(server, folder, writer, others, alone):
    """COMMIT of one row, 100 a second, in turn in a member and in a database without a stream."""
    member, plain = [], []
    for _ in range(options.rounds):
        for who, taken in ((writer, member), (alone, plain)):
            who.ask(pace=100, seconds=options.seconds)
            taken += who.answer()["taken"]
    return [
        ours("COMMIT of one row, 100 a second, median, ms; without a stream", statistics.median(member) * 1000, None, statistics.median(plain) * 1000),
        ours("COMMIT of one row, 100 a second, p99, ms; without a stream", p99(member) * 1000, None, p99(plain) * 1000),
    ], {"commits": len(member)}


def everywhere(server, folder, writer, others, alone):
    """From COMMIT until the tables of all three members have the row."""
    number, own, all_members = finish(writer, others), [], []
    end = time.monotonic() + options.seconds * options.rounds
    while time.monotonic() < end:
        number += 1
        for other in others:
            other.ask(until=number)
        writer.ask(one=True)
        written = writer.answer()
        own.append(written["applied"] - written["committed"])
        last = max(other.answer()["at"] for other in others)
        all_members.append(max(last, written["applied"]) - written["committed"])
    return [
        ours("from COMMIT until all three members have the row, median, ms; the writer's own", statistics.median(all_members) * 1000, None, statistics.median(own) * 1000),
        ours("from COMMIT until all three members have the row, p99, ms; the writer's own", p99(all_members) * 1000, None, p99(own) * 1000),
    ], {"rows": len(own)}


def writing(job):
    """A process that writes."""
    con = opened(job["path"])
    con.execute(INGEST)
    number = con.execute("SELECT ifnull(max(id), 0) FROM event_in").fetchone()[0]
    print("{}", flush=True)
    for line in sys.stdin:
        asked, begin, taken, first = json.loads(line), time.monotonic(), [], number
        if "settle" in asked:
            con.execute("SELECT densite_wait()").fetchone()
            print(json.dumps({"last": number}), flush=True)
            continue
        if "one" in asked:
            # The clock of all processes of a machine.
            number, at = number + 1, time.monotonic()
            con.execute("INSERT INTO event_in VALUES (?, ?, ?)", (number, number, number))
            committed = time.monotonic()
            until(lambda: con.execute("SELECT 1 FROM event WHERE id = ?", (number,)).fetchone(), 60)
            print(json.dumps({"number": number, "at": at, "committed": committed, "applied": time.monotonic()}), flush=True)
            continue
        count = asked.get("rows", 1)
        while time.monotonic() < begin + asked["seconds"]:
            if asked.get("pace"):
                time.sleep(max(0, begin + len(taken) / asked["pace"] - time.monotonic()))
            some = [(number + i, number + i, i) for i in range(1, count + 1)]
            start = time.perf_counter()
            con.execute("BEGIN")
            con.executemany("INSERT INTO event_in VALUES (?, ?, ?)", some)
            con.execute("COMMIT")
            if asked.get("waits"):
                con.execute("SELECT densite_wait(densite_last_seq(), 'stream')").fetchone()
            taken.append(time.perf_counter() - start)
            number += count
        if "rows" in asked:
            con.execute("SELECT densite_wait(densite_last_seq(), 'stream')").fetchone()
            print(json.dumps({"rate": (number - first) / (time.monotonic() - begin)}), flush=True)
        else:
            print(json.dumps({"taken": taken}), flush=True)
    con.close()


def reading(job):
    """A process of another member: it says when it has a row."""
    con = opened(job["path"])
    con.execute(INGEST)
    print("{}", flush=True)
    for line in sys.stdin:
        number = json.loads(line)["until"]
        until(lambda: con.execute("SELECT ifnull(max(id), 0) >= ? FROM event", (number,)).fetchone()[0], 600)
        print(json.dumps({"at": time.monotonic()}), flush=True)
    con.close()


MEASURES = {
    "rows": ("rows durable in the stream", rows),
    "acknowledgement": ("acknowledgements of the stream", acknowledgement),
    "commits": ("a writer with and without a stream", commits),
    "everywhere": ("from COMMIT to all members", everywhere),
}

if options.child:
    {"write": writing, "read": reading}[options.child](json.loads(os.environ["JOB"]))
    raise SystemExit
if not os.path.exists(options.server):
    raise SystemExit(f"{options.server} is missing: make nats-server")
for name, (title, measure) in MEASURES.items():
    if options.only not in name:
        continue
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        about = result.machine(folder, densite.__version__)
        server = Server(folder)
        try:
            paths = members(server, folder)
            plain = os.path.join(folder, "alone.db")
            con = opened(plain)
            con.execute("PRAGMA journal_mode=WAL")
            con.execute(SCHEMA)
            con.close()
            children = [Child("write", path=paths[0]), Child("write", path=plain), *(Child("read", path=path) for path in paths[1:])]
            figures, info = measure(server, folder, children[0], children[2:], children[1])
            for one in children:
                one.close()
        finally:
            server.close()
    print(f"\n{title}")
    for one in figures:
        print(f"  {one['name']:90} {one['base']:12.3f} {one['value']:12.3f}")
    for what, value in info.items():
        print(f"    {what}: {value}")
    if options.save:
        found = result.outcome(f"cluster-{name}", title, DATA, "without the stream", figures, about)
        found["info"] = info
        result.save(options.save, found)
