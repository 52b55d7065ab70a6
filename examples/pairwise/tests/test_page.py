"""The status page, as text and in a browser."""

import dataclasses
import html.parser
import os
import pathlib
import shutil
import struct
import subprocess
import threading

from .. import page, plot
from ..dtw import distance
from ..histogram import BARS, Counts, count
from ..leases import take
from ..progress import Progress, WorkerProgress, progress
from ..results import deliver
from ..routes import Coordinator
from ..series import generate
from ..server import Server
from .support import Case


class Nesting(html.parser.HTMLParser):
    """Checks that elements are nested correctly."""

    EMPTY = {"meta", "link"}

    def __init__(self):
        super().__init__()
        self.open, self.problems = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """An element like <a/> needs no end tag."""

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append((tag, self.getpos()))


class Page(Case):
    def setUp(self):
        super().setUp()
        self.make(30, length=64, batch_pairs=100)
        self.con = self.connection()

    def compute(self, worker, batches):
        """Computes and delivers some batches."""
        for _ in range(batches):
            got = take(self.con, worker, 60)
            results = [[a, b, distance(generate(a, 64, 1).values, generate(b, 64, 1).values, 12)] for a, b in got.pairs]
            deliver(self.con, (got.batch, got.tries), worker, results)
        self.con.execute("SELECT densite_wait()").fetchone()

    def rendered(self):
        text = page.render(progress(self.con, self.path), count(self.con), self.path)
        nesting = Nesting()
        nesting.feed(text)
        self.assertEqual((nesting.open, nesting.problems), ([], []))
        return text

    def test_every_state_is_shown(self):
        text = self.rendered()
        for part in ("0.0 % of 435 pairs", "waiting for workers", "No worker yet", "No distances yet"):
            self.assertIn(part, text)
        self.compute("w1", 2)
        take(self.con, "w2", 45)
        text = self.rendered()
        for part in ("46.0 % of 435 pairs", ">working<", "200 done", "100 leased", "135 to do", "Distances of 200 pairs", "100 pairs, 45 s left"):
            self.assertIn(part, text)
        self.con.execute("UPDATE batch SET expires = 1")
        self.compute("w1", 3)
        text = self.rendered()
        for part in ("100 % of 435 pairs", ">finished<", '<b id="left">none</b>', "435 done", '<b id="repeated">1</b>'):
            self.assertIn(part, text)
        # The page has no external resources.
        self.assertNotIn("://", text.replace("http://www.w3.org/2000/svg", ""))

    def test_names_are_escaped(self):
        worker = WorkerProgress("<img src=x>", 1, 1, 0, None, 0.0)
        now = Progress(2, 1, 0, 0, 1, 0, 0, 0, 0.0, None, None, 0, 0, [worker])
        text = page.render(now, None, "/tmp/<b>.db")
        self.assertNotIn("<img", text)
        self.assertNotIn("</span>silent", text)
        later = dataclasses.replace(now, workers=[dataclasses.replace(worker, silent_seconds=11.0)])
        self.assertIn("</span>silent", page.render(later, None, ""))
        self.assertIn("&lt;b&gt;.db", text)

    def test_the_histogram_counts_every_distance(self):
        self.compute("w", 5)
        counts = count(self.con)
        self.assertLessEqual(len(counts.same), BARS + 1)
        kinds = {n: generate(n, 64, 1).kind for n in range(1, 31)}
        same, different = [0] * len(counts.same), [0] * len(counts.same)
        for a, b, value in self.con.execute("SELECT a, b, distance FROM result"):
            (same if kinds[a] == kinds[b] else different)[int(value / counts.width)] += 1
        self.assertEqual((counts.same, counts.different), (same, different))
        for odd in (Counts(1, [0], [0]), Counts(1, [1], [0]), Counts(0.5, [10**9, 0], [3, 0])):
            self.assertTrue(plot.histogram(odd).endswith("</svg>"))

    def test_durations_and_sizes_are_formatted(self):
        formatted = [page.duration(s) for s in (None, 0.04, 9.9, 42.2, 185, 7800)]
        self.assertEqual(formatted, ["–", "0.0 s", "9.9 s", "42 s", "3 min 5 s", "2 h 10 min"])
        self.assertEqual([page.size(n) for n in (0, 999, 1400, 8_540_000, 2e9)], ["0 bytes", "999 bytes", "1.4 kB", "8.54 MB", "2 GB"])

    def test_the_page_refreshes_itself_in_a_browser(self):
        """Chromium shows the page, and also batches that are done after it was opened."""
        chromium = shutil.which("chromium")
        if chromium is None:
            if os.environ.get("DENSITE_NO_SKIP"):
                self.fail("chromium is not installed")
            if path := os.environ.get("DENSITE_SKIPPED"):
                with open(path, "a", encoding="utf-8") as file:
                    file.write("chromium is not installed\n")
            self.skipTest("chromium is not installed")
        self.compute("first", 2)
        shown = threading.Semaphore(0)
        case = self

        class Watched(Coordinator):
            """Computes another batch when the page is requested for the second time."""

            requests = 0

            def get(self, path, query):
                if path == "/":
                    self.requests += 1
                    if self.requests == 2:
                        case.compute("second", 1)
                        shown.release()
                return super().get(path, query)

        coordinator = Watched(self.store(), 60.0)
        coordinator._histogram._next = float("inf")  # replaced by `count` below
        coordinator._histogram.get = count
        server = Server("127.0.0.1", 0, coordinator)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

        def browse(*arguments):
            profile = self.dir / "profile"
            return subprocess.run(
                [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
                 "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--virtual-time-budget=2500", *arguments, server.url],
                check=True, capture_output=True, timeout=60, env={**os.environ, "HOME": str(self.dir)},
            ).stdout.decode()  # fmt: skip

        dom = browse("--dump-dom")
        self.assertTrue(shown.acquire(timeout=0), "the page did not refresh itself")
        for part in ("All pairs of 30 samples", "300 done", "69.0", "Distances of 300 pairs", "first", "second", "<svg", "Time left"):
            self.assertIn(part, dom)
        picture = self.dir / "page.png"
        browse(f"--screenshot={picture}", "--window-size=1000,1000")
        content = pathlib.Path(picture).read_bytes()
        self.assertEqual(struct.unpack(">II", content[16:24]), (1000, 1000))
        self.assertGreater(len(content), 20_000)  # an empty page has about 5 kB
