"""Killed workers and coordinators: nothing acknowledged is lost, every pair is there once."""

from urllib.parse import urlsplit
from ..verify import verify
from .support import Case, end_well, free_port, stopped


class Kill(Case):
    def test_acknowledged_results_survive_a_kill_at_once(self):
        self.make(6, length=8, batch_pairs=4)
        port = str(free_port())
        there = []
        # As often as there are batches: deliver, and kill as soon as the answer is there.
        for round_ in range(1, 5):
            served, url = self.serve("--port", port)
            client = self.client(url)
            self.assertEqual(client.get("/progress")["done_pairs"], len(there))
            got = client.post("/lease", {"worker": "w"})
            results = [[a, b, round_ + a / 10] for a, b in got["pairs"]]
            client.post("/results", {"worker": "w", "lease": got["lease"], "results": results})
            self.end(served)
            there += results
        con = self.connection()
        self.assertEqual(con.execute("SELECT a, b, distance FROM temp.result_in ORDER BY a, b").fetchall(), sorted(map(tuple, there)))
        self.assertEqual(len(there), 15)

    def test_a_killed_worker_and_a_killed_coordinator(self):
        # Slow enough, by long series, to be killed in the middle.
        self.make(60, length=144, window=24, batch_pairs=20)
        served, url = self.serve("--lease", "1.5")
        port = str(urlsplit(url).port)
        client = self.client(url)
        lost, *others = (self.start("work", url, "--name", name) for name in ("lost", "w2", "w3"))

        def leased():
            """What the worker `lost` has on lease, in pairs; it is held meanwhile, so that this stays true."""
            with stopped(lost):
                pairs = next((w["leased_pairs"] for w in client.get("/progress")["workers"] if w["name"] == "lost"), 0)
                if pairs:
                    self.end(lost)
                return pairs

        self.assertEqual(self.until("the worker has a lease", leased), 20)
        before = self.until("a quarter is done", lambda: (n := client.get("/progress")["done_pairs"]) > 1770 / 4 and n)
        self.assertLess(before, 1770)
        self.end(served)
        served, _ = self.serve("--lease", "1.5", "--port", port)
        self.assertGreaterEqual(client.get("/progress")["done_pairs"], before)
        self.until("all is done", lambda: client.get("/progress")["finished"])
        end_well(self, others)
        now = client.get("/progress")
        self.assertGreaterEqual(now["repeated_batches"], 1)  # that of the lost worker
        self.assertEqual(now["rejects"], 0)
        self.assertEqual(sum(worker["pairs"] for worker in now["workers"]), 1770)
        served.terminate()
        self.assertEqual(served.wait(20), 0)
        report = verify(self.path, check=60)
        self.assertEqual((report.pairs, report.checked), (1770, 60))

    def test_two_coordinators_on_one_file(self):
        self.make(30, length=64, batch_pairs=10)
        served = [self.serve(), self.serve()]
        end_well(self, [self.start("work", url, "--name", f"of{number}") for number, (_, url) in enumerate(served)])
        now = self.client(served[0][1]).get("/progress")
        self.assertEqual((now["done_pairs"], now["repeated_batches"]), (435, 0))
        self.assertEqual(sum(worker["pairs"] for worker in now["workers"]), 435)
        for process, _ in served:
            process.terminate()
            self.assertEqual(process.wait(20), 0)
        self.assertEqual(verify(self.path).checked, 300)

    def test_no_more_room_stops_the_work_and_loses_nothing(self):
        """Files that may grow no further stand for a full disk."""
        self.make(40, length=32, batch_pairs=100)
        port = free_port()
        limited = self.start("serve", self.path, "--port", str(port), before=("prlimit", "--fsize=100000", "--"))
        url = limited.stdout.readline().split()[-1]
        worker = self.start("work", url, "--name", "patient")
        for line in iter(limited.stderr.readline, ""):
            if "disk I/O error" in line:  # SQLite's own word for it
                break
            self.assertIn("the disk is full", line)  # the log's
        self.end(limited)
        self.serve("--port", str(port))
        end_well(self, [worker])
        self.assertEqual(verify(self.path).pairs, 780)
