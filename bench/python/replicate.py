"""A database that `densite replicate` ships to a bucket: requests and bytes, restores, followers, the latency, and what a writer pays.

    bench/python/run.sh target/release/libdensite.so target/bench-python replicate.py [--seconds N] [--rounds N] [--only WORD] [--dir DIR] [--save bench]

The bucket is moto's server (lab/testing/s3/setup.sh installs it) behind a proxy that counts. Each figure stands beside that of Litestream where it was measured.
"""

import argparse
import collections
import hashlib
import http.client
import http.server
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import densite
import result

options = argparse.ArgumentParser()
options.add_argument("--seconds", type=float, default=60, help="how long ten transactions a second are written")
options.add_argument("--rounds", type=int, default=7, help="turns of a writer with and without a shipper")
options.add_argument("--databases", type=int, default=1000)
options.add_argument("--only", default="", help="measures whose names have this in them")
options.add_argument("--dir", help="where databases are made; the system's folder for such things otherwise")
options.add_argument("--save", help="the folder whose results/ gets what was measured")
options.add_argument("--plain", default="bench/data/tpch-sf0.1.db", help="TPC-H at scale factor 0.1; densite-bench tpch makes it if it is missing")
options.add_argument("--command", default="target/release/densite")
options.add_argument("--generator", default="target/release/densite-bench")
options.add_argument("--server", default="target/s3-server/env/bin/moto_server")
options.add_argument("--litestream", default="target/litestream/bin/litestream", help="the peer, for the measure beside; bench/peers/litestream.sh builds it")
options.add_argument("--child", help=argparse.SUPPRESS)
options = options.parse_args()

DATA = "Replication of TPC-H SF 0.1"
PEER = "Litestream 0.5.18, another machine"
#: Transactions a second of the measure of bytes.
RATE = 10
ORDERS = 150_000
COMMAND = os.path.abspath(options.command)
MB = 1_000_000


class Store:
    """A bucket behind a proxy that counts requests and bytes by method and kind of object."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.server = subprocess.Popen([options.server, "-H", "127.0.0.1", "-p", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.lock = threading.Lock()
        self.take()
        until(lambda: self.answers("PUT", "/bucket"), 30)
        store = self

        class Proxy(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def setup(self):
                super().setup()
                self.upstream = http.client.HTTPConnection("127.0.0.1", store.port)

            def finish(self):
                self.upstream.close()
                super().finish()

            def forward(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    self.upstream.putheader(name, value)
                self.upstream.endheaders(body or None)
                answer = self.upstream.getresponse()
                found = answer.read()
                # An object is in the bucket before its writer learns it: counted first.
                store.count(self.command, self.path, len(body), len(found))
                self.send_response_only(answer.status, answer.reason)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                        self.send_header(name, value)
                self.send_header("Content-Length", answer.getheader("Content-Length") if self.command == "HEAD" else str(len(found)))
                self.end_headers()
                self.wfile.write(found)
                self.wfile.flush()

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                """A client that ends in the middle of a request is killed on purpose."""

        self.proxy = Server(("127.0.0.1", 0), Proxy)
        threading.Thread(target=self.proxy.serve_forever, daemon=True).start()
        self.env = {
            **os.environ,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.server_address[1]}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def answers(self, method, path):
        try:
            con = http.client.HTTPConnection("127.0.0.1", self.port)
            con.request(method, path)
            return con.getresponse().status < 500
        except OSError:
            return False

    def count(self, method, path, sent, got):
        path, _, query = path.partition("?")
        name = urllib.parse.unquote(path).rpartition("/")[2]
        kinds = [kind for kind in ("base", "delta", "compacted") if f"-{kind}-" in name]
        if method == "GET" and "list-type" in query:
            method, kind = "LIST", ""
        else:
            kind = kinds[0] if kinds else "head" if name == "head" else "other"
        with self.lock:
            one = self.counts[(method, kind)]
            one[0] += 1
            one[1] += sent
            one[2] += got

    def take(self):
        """What was counted since the last call."""
        with self.lock:
            counts, self.counts = getattr(self, "counts", None), collections.defaultdict(lambda: [0, 0, 0])
        return Counts(counts or {})

    def total(self):
        """Bytes that were sent since the last take."""
        with self.lock:
            return Counts(getattr(self, "counts", None) or {}).sent()

    def close(self):
        self.proxy.shutdown()
        self.server.terminate()
        self.server.wait()


class Counts(dict):
    def requests(self, method=None, kind=None):
        return sum(one[0] for (m, k), one in self.items() if method in (None, m) and kind in (None, k))

    def sent(self):
        return sum(one[1] for one in self.values())

    def got(self):
        return sum(one[2] for one in self.values())

    def info(self, phase):
        found = {}
        for (method, kind), one in sorted(self.items()):
            for name, value in zip(("requests", "bytes sent", "bytes received"), one):
                found[f"{phase}: {method} {kind}".strip() + f", {name}"] = value
        return found


class Shipper:
    """`densite replicate --json`, and the moments at which its events came."""

    def __init__(self, store, *arguments):
        self.process = subprocess.Popen([COMMAND, "replicate", *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=store.env)
        self.events, self.said = [], []
        threading.Thread(target=self.read, daemon=True).start()
        threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            now = time.monotonic()
            if line.startswith('{"'):
                self.events.append((now, json.loads(line)))

    def of(self, kind):
        return [(moment, event) for moment, event in self.events if event["event"] == kind]

    def wait(self, kind, count, seconds):
        """The moment of the last of so many events of this kind."""
        until(lambda: len(self.of(kind)) >= count or self.process.poll() is not None, seconds)
        if len(self.of(kind)) < count:
            raise SystemExit(f"densite replicate ended: {''.join(self.said)}")
        return self.of(kind)[count - 1][0]

    def rest(self, seconds):
        """Waits until there was no event for so long."""
        until(lambda: self.events and time.monotonic() - self.events[-1][0] > seconds, 120)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60):
            raise SystemExit(f"densite replicate ended with {self.process.returncode}: {''.join(self.said)}")
        failed = [event["message"] for _, event in self.of("failed")]
        if failed:
            raise SystemExit(f"densite replicate: {failed[0]}")


def until(true, seconds):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"nothing happened for {seconds} s")
        time.sleep(0.01)


def run(store, *arguments):
    done = subprocess.run([COMMAND, *arguments], env=store.env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"densite {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def opened(path):
    return densite.connect(path, isolation_level=None, timeout=60)


def key(number):
    """TPC-H uses 8 of 32 numbers for orders."""
    return number // 8 * 32 + number % 8


def change(con, number, start=700_000):
    """Transaction `number`: an order is inserted, or one anywhere in the table is updated. The same for the same number."""
    chosen = random.Random(number)
    if number % 2:
        row = (start + number, chosen.randrange(1, 15_000), "O", chosen.randrange(100_000, 40_000_000) / 100, "1998-08-02", "3-MEDIUM", f"Clerk#{chosen.randrange(1, 100):09}", number, f"order {number} of the benchmark")
        con.execute("INSERT INTO ORDERS VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    else:
        row = (chosen.randrange(100_000, 40_000_000) / 100, number, key(chosen.randrange(1, ORDERS)))
        assert con.execute("UPDATE ORDERS SET O_TOTALPRICE = ?, O_SHIPPRIORITY = ? WHERE O_ORDERKEY = ?", row).rowcount == 1


def state(con):
    """The newest transaction, and a hash of the table."""
    rows = con.execute("SELECT * FROM ORDERS ORDER BY O_ORDERKEY").fetchall()
    return max(row[7] for row in rows), hashlib.sha256(repr(rows).encode()).hexdigest()


def original(folder):
    """A compressed copy of TPC-H with a WAL."""
    if not os.path.exists(options.plain):
        os.makedirs(os.path.dirname(options.plain) or ".", exist_ok=True)
        subprocess.run([options.generator, "tpch", "--sf", "0.1", "--out", options.plain], check=True)
    path = os.path.join(folder, "app.db")
    subprocess.run([COMMAND, "compress", "--quiet", options.plain, path], check=True)
    con = opened(path)
    con.execute("PRAGMA journal_mode=WAL")
    con.close()
    return path


def ours(name, value, target=None, base=None, limit="at most"):
    """A figure of its own; `base` is that of the peer."""
    met = None if target is None else value <= target if limit == "at most" else value >= target
    return {"name": name, "base": float(base or 0), "ours": float(value), "compare": "ours" if limit == "at most" else "ours at least", "value": float(value), "target": target, "met": met}


def changes(store, folder):
    path, url, info = original(folder), "s3://bucket/app", {}
    kept = os.path.join(folder, "kept.db")
    shutil.copyfile(path, kept)
    size = os.path.getsize(path)
    shipper = Shipper(store, path, url)
    shipper.wait("began", 1, 60)
    time.sleep(2)
    upload = store.take()
    info.update(upload.info("first upload"))

    con, moments, begin = opened(path), [], time.monotonic()
    for number in range(1, int(options.seconds * RATE) + 1):
        time.sleep(max(0, begin + number / RATE - time.monotonic()))
        change(con, number)
        moments.append(time.time())
    shipper.wait("compacted", 1, 60)
    time.sleep(1)
    writing = store.take()
    info.update(writing.info("transactions"))
    written = state(con)
    con.close()

    time.sleep(13)
    store.take()
    time.sleep(60)
    idle = store.take()

    newest = os.path.join(folder, "newest.db")
    run(store, "restore", url, newest)
    restored = store.take()
    info.update(restored.info("restore"))
    con = opened(newest)
    assert state(con) == written, "the restored database differs"
    con.close()

    moment = moments[len(moments) // 2]
    then = os.path.join(folder, "then.db")
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment * 1000) % 1000:03}"
    run(store, "restore", url, then, "--at", at)
    earlier = store.take()
    info.update(earlier.info("restore --at"))
    con = opened(then)
    last, found = state(con)
    con.close()
    # The state at this moment, made again: the transactions that the restore point has.
    con = opened(kept)
    con.execute("BEGIN")
    for number in range(1, last + 1):
        change(con, number)
    con.execute("COMMIT")
    assert state(con) == (last, found), "the state of the moment differs"
    con.close()
    age = moment - moments[last - 1]
    assert age >= 0, "a restore point after the moment was restored"

    run(store, "sql", url + "/", "SELECT O_TOTALPRICE FROM ORDERS WHERE O_ORDERKEY = 1")
    first = store.take()
    info.update(first.info("first query of a follower"))
    follower = child(store, "follow", url=url + "/", seconds=10)
    follower.stdout.readline()
    store.take()
    start = time.monotonic()
    follower.stdin.write("go\n")
    follower.stdin.flush()
    queries = json.loads(follower.stdout.readline())["queries"]
    polled = store.take().requests() / (time.monotonic() - start)
    follower.wait()
    shipper.stop()

    info.update({"bytes of the file": size, "queries of the follower in 10 s": queries})
    count = len(moments)
    peer = [
        ours("first upload, MB", upload.sent() / MB, round(1.05 * size / MB, 2), 233),
        ours(f"{count} transactions in {options.seconds:.0f} s, merging included, MB sent", writing.sent() / MB, 1.4, 3.70),
        ours(f"{count} transactions in {options.seconds:.0f} s, merging included, requests", writing.requests(), None, 82),
        ours("idle, requests a minute", idle.requests(), 0, 10),
        ours("restore after that, MB", restored.got() / MB, 20, 79),
        ours("restore after that, requests", restored.requests(), 8, 33),
    ]
    own = [
        ours(f"{count} transactions in {options.seconds:.0f} s: PUT of deltas", writing.requests("PUT", "delta"), 65),
        ours(f"{count} transactions in {options.seconds:.0f} s: PUT of the head", writing.requests("PUT", "head"), 10),
        ours(f"{count} transactions in {options.seconds:.0f} s: LIST", writing.requests("LIST"), 0),
        ours("restore of a moment among them: bytes / those of the newest", earlier.got() / restored.got(), 1.3),
        ours("restore of a moment among them: age of the restored state, s", age),
        ours("restore of a moment among them: requests", earlier.requests()),
        ours("follower, first query by a key: requests", first.requests(), 4),
        ours("follower, first query by a key: MB received", first.got() / MB),
        ours("follower, 2 connections that query all the time: requests a second", polled, 1.05),
    ]
    return peer, own, info


def databases(store, folder):
    small = os.path.join(folder, "small.db")
    run(store, "sql", "--create", small, "PRAGMA journal_mode=WAL; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    many = os.path.join(folder, "many")
    os.mkdir(many)
    for number in range(options.databases):
        shutil.copyfile(small, os.path.join(many, f"{number:05}.db"))
    store.take()
    shipper = Shipper(store, many, "s3://bucket/many")
    start = time.monotonic()
    began = shipper.wait("began", options.databases, 600) - start
    time.sleep(20)
    upload = store.take()
    busy = cpu(shipper.process.pid)
    time.sleep(30)
    idle = store.take()
    busy = cpu(shipper.process.pid) - busy
    rss, peak = (int(line.split()[1]) / 1024 for name in ("VmRSS", "VmHWM") for line in open(f"/proc/{shipper.process.pid}/status") if line.startswith(name))
    # A change of one of them is noticed.
    con = opened(os.path.join(many, "00007.db"))
    con.execute("INSERT INTO t VALUES (3, 'three')")
    con.close()
    changed = time.monotonic()
    noticed = shipper.wait("shipped", 1, 60) - changed
    shipper.stop()
    of = f"{options.databases:,} idle databases in one process"
    peer = [ours(f"{of}: resident memory, MiB; base: 5,000 of them", rss, 100, 1800)]
    own = [
        ours(f"{of}: requests in 30 s", idle.requests(), 0),
        ours(f"{of}: largest resident memory, MiB", peak),
        ours(f"{of}: cores that the process takes", busy / 30),
        ours(f"{of}: first upload, requests of each", upload.requests() / options.databases),
        ours(f"{of}: first upload, s", began),
        ours(f"{of}: a change of one of them is in the bucket, s", noticed),
    ]
    return peer, own, upload.info("first upload")


def cpu(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def latency(store, folder):
    path, url = original(folder), "s3://bucket/latency"
    con = opened(path)
    change(con, 1)
    shipper = Shipper(store, path, url)
    shipper.wait("began", 1, 60)
    time.sleep(2)
    follower = child(store, "watch", url=url + "/")
    seen = {}

    def watch():
        for line in follower.stdout:
            number, moment = json.loads(line)
            seen[number] = moment

    threading.Thread(target=watch, daemon=True).start()
    until(lambda: 1 in seen, 30)
    chosen, shipped, visible, after = random.Random(1), [], [], []
    before = len(shipper.of("shipped"))
    count = max(10, int(options.seconds * 1.5))
    for i in range(count):
        # At any moment between two restore points.
        time.sleep(chosen.random())
        number = 2 * i + 3
        change(con, number)
        committed = time.monotonic()
        acknowledged = shipper.wait("shipped", before + i + 1, 30)
        shipped.append(acknowledged - committed)
        until(lambda: number in seen, 30)
        visible.append(seen[number] - committed)
        after.append(seen[number] - acknowledged)
    con.close()
    follower.stdin.close()
    follower.wait()
    shipper.stop()
    of = f"{count} commits, --interval 1"
    own = [
        ours(f"{of}: COMMIT until it is in the bucket, median, s", statistics.median(shipped), 1.2),
        ours(f"{of}: COMMIT until it is in the bucket, 99th percentile, s", p99(shipped), 2.5),
        ours(f"{of}: in the bucket until a follower sees it, median, s", statistics.median(after), 1),
        ours(f"{of}: in the bucket until a follower sees it, 99th percentile, s", p99(after)),
        ours(f"{of}: COMMIT until a follower sees it, median, s", statistics.median(visible)),
        ours(f"{of}: COMMIT until a follower sees it, 99th percentile, s", p99(visible)),
    ]
    return [], own, {}


def p99(taken):
    return sorted(taken)[len(taken) * 99 // 100]


def slowdown(store, folder):
    """One writer in turn without a shipper, with one to the bucket (whose server takes one of the same cores), and with one to a directory."""
    path, seconds = original(folder), max(1, options.seconds / 10)
    ways = {"none": None, "bucket": "s3://bucket/slow", "directory": os.path.join(folder, "replica")}
    rates, commits, info = ({way: [] for way in ways} for _ in range(3))
    number = 1
    for pace in (0, 100):
        for turn in range(options.rounds if pace == 0 else max(1, options.rounds // 2 + 1)):
            names = list(ways)
            for way in names[turn % 3 :] + names[: turn % 3]:
                shipper = None
                if ways[way]:
                    shipper = Shipper(store, path, ways[way])
                    shipper.wait("began", 1, 60)
                    shipper.rest(2.5)
                store.take()
                writer = child(store, "write", path=path, first=number, seconds=seconds, pace=pace)
                taken = json.loads(writer.stdout.readline())
                writer.wait()
                number = taken["next"]
                (commits if pace else rates)[way].append(taken["median"] if pace else taken["rate"])
                if shipper:
                    if way == "bucket" and not pace:
                        for name, value in store.take().info("at full speed").items():
                            info[name] = info.get(name, 0) + value
                    shipper.stop()
    info = {name: value for name, value in info.items() if isinstance(value, int)}

    def slower(way, taken, faster):
        pairs = zip(taken["none"], taken[way])
        return (statistics.median(none / one if faster else one / none for none, one in pairs) - 1) * 100

    own = [
        ours("one writer at full speed, without a shipper, transactions/s", statistics.median(rates["none"])),
        ours("the same, shipped to a bucket on the same two cores: slower by, %", slower("bucket", rates, True), 5),
        ours("the same, shipped to a directory: slower by, %", slower("directory", rates, True), 5),
        ours("100 transactions a second, without a shipper, median COMMIT, ms", statistics.median(commits["none"]) * 1000),
        ours("the same, shipped to a bucket on the same two cores: slower by, %", slower("bucket", commits, False), 5),
        ours("the same, shipped to a directory: slower by, %", slower("directory", commits, False), 5),
    ]
    return [], own, info


def ingest(store, folder):
    """Rows of ingest in turn without a shipper, with one to the bucket (whose server takes one of the same cores), and with one to a directory."""
    seconds, info = max(1, options.seconds / 10), {}
    path, url = os.path.join(folder, "log.db"), "s3://bucket/log"
    ways = {"none": None, "bucket": url, "directory": os.path.join(folder, "replica")}
    rates = {way: [] for way in ways}
    con = opened(path)
    con.execute("PRAGMA journal_mode=WAL")
    con.execute("CREATE TABLE event(id INTEGER PRIMARY KEY, at REAL, who TEXT, what TEXT)")
    con.close()
    number, rows, sent = 1, 0, 0
    for turn in range(options.rounds):
        names = list(ways)
        for way in names[turn % 3 :] + names[: turn % 3]:
            shipper = None
            if ways[way]:
                shipper = Shipper(store, path, ways[way])
                shipper.wait("began", 1, 60)
                shipper.rest(2.5)
            store.take()
            writer = child(store, "append", path=path, first=number, seconds=seconds)
            taken = json.loads(writer.stdout.readline())
            rates[way].append(taken["rate"])
            writer.stdin.close()
            writer.wait()
            if shipper:
                shipper.rest(2.5)
                shipper.stop()
            if way == "bucket":
                rows += taken["next"] - number
                counts = store.take()
                sent += counts.sent()
                for name, value in counts.info("rows of ingest").items():
                    info[name] = info.get(name, 0) + value
            number = taken["next"]
    copy = os.path.join(folder, "copy.db")
    run(store, "restore", url, copy)
    con = opened(copy)
    con.execute("CREATE VIRTUAL TABLE temp.event_in USING densite_ingest(event)")
    found = con.execute("SELECT count(*), max(id) FROM event_in").fetchone()
    con.close()
    assert rows <= found[0] <= number - 1 and found[1] == found[0], f"{found} of {number - 1} rows"

    def slower(way):
        return (statistics.median(none / one for none, one in zip(rates["none"], rates[way])) - 1) * 100

    own = [
        ours("ingest, transactions of 100 rows, without a shipper, rows/s", statistics.median(rates["none"])),
        ours("the same, shipped to a bucket on the same two cores: slower by, %", slower("bucket"), 5),
        ours("the same, shipped to a directory: slower by, %", slower("directory"), 5),
        ours("the same: bytes sent for each row", sent / rows),
    ]
    return [], own, {name: value for name, value in info.items() if isinstance(value, int)}


def append(job):
    con, number = opened(job["path"]), job["first"]
    con.execute("CREATE VIRTUAL TABLE temp.event_in USING densite_ingest(event)")
    chosen, first, begin = random.Random(number), number, time.monotonic()
    while time.monotonic() < begin + job["seconds"]:
        rows = [(number + i, time.time(), f"user {chosen.randrange(10_000)}", f"opened page {chosen.randrange(1_000)} of {chosen.getrandbits(64):x}") for i in range(100)]
        con.execute("BEGIN")
        con.executemany("INSERT INTO event_in VALUES (?, ?, ?, ?)", rows)
        con.execute("COMMIT")
        number += 100
    print(json.dumps({"next": number, "rate": (number - first) / (time.monotonic() - begin)}), flush=True)
    # The rows are applied before the process ends.
    sys.stdin.read()
    con.execute("SELECT densite_wait()")
    con.close()


def beside(store, folder):
    """The same transactions on a compressed database and on a plain one, shipped by this program and by Litestream to servers of their own."""
    import sqlite3

    path, url, plain = original(folder), "s3://bucket/app", os.path.join(folder, "plain.db")
    shutil.copyfile(options.plain, plain)
    other = sqlite3.connect(plain, isolation_level=None, timeout=60)
    other.execute("PRAGMA journal_mode=WAL")
    theirs = Store()
    # Litestream ends at once if this is set.
    theirs.env.pop("AWS_CA_BUNDLE", None)
    try:
        settings = os.path.join(folder, "litestream.yml")
        with open(settings, "w") as out:
            out.write(f"""dbs:
  - path: {plain}
    replica:
      type: s3
      bucket: bucket
      path: plain
      endpoint: {theirs.env["AWS_ENDPOINT_URL"]}
      region: us-east-1
      access-key-id: x
      secret-access-key: x
      force-path-style: true
""")
        said = open(os.path.join(folder, "litestream.log"), "w")
        peer = subprocess.Popen([options.litestream, "replicate", "-config", settings], stdout=said, stderr=said, env=theirs.env)
        shipper = Shipper(store, path, url)
        shipper.wait("began", 1, 60)
        # Litestream uploads for a while.
        before = -1
        while before != theirs.total():
            before = theirs.total()
            time.sleep(10)
        first = store.take(), theirs.take()
        con, begin = opened(path), time.monotonic()
        count = int(options.seconds * RATE)
        for number in range(1, count + 1):
            time.sleep(max(0, begin + number / RATE - time.monotonic()))
            change(con, number)
            change(other, number)
        time.sleep(20)
        sent = store.take(), theirs.take()
        busy, theirs_busy = cpu(shipper.process.pid), cpu(peer.pid)
        time.sleep(60)
        idle = store.take(), theirs.take()
        written = state(con), state(other)
        con.close()
        shipper.stop()
        peer.send_signal(signal.SIGTERM)
        peer.wait(60)
        store.take(), theirs.take()
        newest, restored = os.path.join(folder, "newest.db"), os.path.join(folder, "restored.db")
        run(store, "restore", url, newest)
        back = subprocess.run([options.litestream, "restore", "-config", settings, "-o", restored, plain], env=theirs.env, capture_output=True, text=True)
        if back.returncode:
            raise SystemExit(f"litestream: {back.stderr}{open(said.name).read()[-3000:]}")
        got = store.take(), theirs.take()
        con, back = opened(newest), sqlite3.connect(restored)
        assert state(con) == written[0], "the restored database differs"
        info = {"Litestream's copy is the same": int(state(back) == written[1])}
        con.close()
    finally:
        theirs.close()
    for name, one in zip(("Densite", "Litestream"), sent):
        info.update(one.info(name))
    of = f"{count} transactions in {options.seconds:.0f} s"
    return [
        ours("first upload, MB", first[0].sent() / MB, None, first[1].sent() / MB),
        ours(f"{of}: MB sent", sent[0].sent() / MB, None, sent[1].sent() / MB),
        ours(f"{of}: requests", sent[0].requests(), None, sent[1].requests()),
        ours(f"{of}: processor time of the shipper, s", busy, None, theirs_busy),
        ours("idle, requests a minute", idle[0].requests(), 0, idle[1].requests()),
        ours("restore after that, MB", got[0].got() / MB, None, got[1].got() / MB),
        ours("restore after that, requests", got[0].requests(), None, got[1].requests()),
    ], [], info


def child(store, what, **job):
    return subprocess.Popen([sys.executable, __file__, "--child", what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**store.env, "JOB": json.dumps(job)})


def follow(job):
    """Queries all the time through two connections."""
    cons = [densite.connect(job["url"]) for _ in range(2)]
    query = "SELECT max(O_ORDERKEY) FROM ORDERS"
    for con in cons:
        con.execute(query).fetchone()
    print("ready", flush=True)
    sys.stdin.readline()
    queries, end = 0, time.monotonic() + job["seconds"]
    while time.monotonic() < end:
        cons[queries % 2].execute(query).fetchone()
        queries += 1
        time.sleep(0.001)
    print(json.dumps({"queries": queries}), flush=True)


def watch(job):
    """Prints the newest order and when it was seen, until its reader is gone."""
    con, last = densite.connect(job["url"]), None
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    while not ended.is_set():
        newest = con.execute("SELECT max(O_ORDERKEY) FROM ORDERS").fetchone()[0] - 700_000
        if newest != last:
            last = newest
            print(json.dumps([newest, time.monotonic()]), flush=True)
        time.sleep(0.01)


def write(job):
    con, number, taken = opened(job["path"]), job["first"], []
    con.execute("SELECT count(*) FROM ORDERS").fetchone()
    begin = time.monotonic()
    while time.monotonic() < begin + job["seconds"]:
        if job["pace"]:
            time.sleep(max(0, begin + len(taken) / job["pace"] - time.monotonic()))
        start = time.perf_counter()
        change(con, number)
        taken.append(time.perf_counter() - start)
        number += 1
    print(json.dumps({"next": number, "rate": len(taken) / (time.monotonic() - begin), "median": statistics.median(taken)}), flush=True)


MEASURES = {
    "changes": ("requests and bytes", changes),
    "databases": ("many databases", databases),
    "latency": ("latency", latency),
    "slowdown": ("a writer beside the shipper", slowdown),
    "ingest": ("rows of ingest beside the shipper", ingest),
    "beside": ("beside Litestream", beside),
}

if options.child:
    {"follow": follow, "watch": watch, "write": write, "append": append}[options.child](json.loads(os.environ["JOB"]))
    raise SystemExit
for name, (title, measure) in MEASURES.items():
    if options.only not in name:
        continue
    if name == "beside" and not os.path.exists(options.litestream):
        print(f"\n{title}: {options.litestream} is missing")
        continue
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        about = result.machine(folder, densite.__version__)
        store = Store()
        try:
            peer, own, info = measure(store, folder)
        finally:
            store.close()
    print(f"\n{title}")
    for one in peer + own:
        print(f"  {one['name']:100} {one['base']:10.3f} {one['value']:10.3f} {'' if one['target'] is None else one['target']:>8} {'' if one['met'] is None else 'met' if one['met'] else 'missed'}")
    for what, value in info.items():
        print(f"    {what}: {value}")
    if options.save:
        other = "Litestream 0.5.18, in the same run" if name == "beside" else PEER
        for suffix, label, figures in (("-peer", other, peer), ("", "not measured", own)):
            if figures:
                found = result.outcome(f"replicate-{name}{suffix}", title, DATA, label, figures, about)
                found["info"] = {} if suffix and own else info
                result.save(options.save, found)
