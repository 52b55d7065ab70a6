"""Killed workers and coordinators: no acknowledged result is lost, and every pair is there once."""

import time
from urllib.parse import urlsplit
from ..verify import verify
from .support import Case, wait_for_success, free_port, stopped


class Kill(Case):
    def test_acknowledged_results_survive_an_immediate_kill(self):
        self.make(6, length=8, batch_pairs=4)
        port = str(free_port())
        delivered = []
        # For each batch: deliver its results, and kill the coordinator after its answer.
        for round_ in range(1, 5):
            served, url = self.serve("--port", port)
            client = self.client(url)
            self.assertEqual(client.get("/progress")["done_pairs"], len(delivered))
            got = client.post("/lease", {"worker": "w"})
            results = [[a, b, round_ + a / 10] for a, b in got["pairs"]]
            client.post("/results", {"worker": "w", "lease": got["lease"], "results": results})
            self.end(served)
            delivered += results
        con = self.connection()
        self.assertEqual(con.execute("SELECT a, b, distance FROM temp.result_in ORDER BY a, b").fetchall(), sorted(map(tuple, delivered)))
        self.assertEqual(len(delivered), 15)

    def test_the_work_completes_after_kills_of_a_worker_and_a_coordinator(self):
        # Long series make the work slow enough for a kill in the middle.
        self.make(60, length=144, window=24, batch_pairs=20)
        served, url = self.serve("--lease", "1.5")
        port = str(urlsplit(url).port)
        client = self.client(url)
        lost, *others = (self.start("work", url, "--name", name) for name in ("lost", "w2", "w3"))

        def leased():
            """The number of pairs that the worker `lost` has on lease. Kills the worker if it has
            some. The worker is stopped meanwhile, so that the number stays correct: results that
            it had sent before arrive first."""
            with stopped(lost):
                time.sleep(0.03)
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
        wait_for_success(self, others)
        now = client.get("/progress")
        self.assertGreaterEqual(now["repeated_batches"], 1)  # the batch of the lost worker
        self.assertEqual(now["rejects"], 0)
        self.assertEqual(sum(worker["pairs"] for worker in now["workers"]), 1770)
        served.terminate()
        self.assertEqual(served.wait(20), 0)
        report = verify(self.path, check=60)
        self.assertEqual((report.pairs, report.checked), (1770, 60))

    def test_two_coordinators_on_one_file_hand_out_each_batch_once(self):
        self.make(30, length=64, batch_pairs=10)
        served = [self.serve(), self.serve()]
        wait_for_success(self, [self.start("work", url, "--name", f"of{number}") for number, (_, url) in enumerate(served)])
        now = self.client(served[0][1]).get("/progress")
        self.assertEqual((now["done_pairs"], now["repeated_batches"]), (435, 0))
        self.assertEqual(sum(worker["pairs"] for worker in now["workers"]), 435)
        for process, _ in served:
            process.terminate()
            self.assertEqual(process.wait(20), 0)
        self.assertEqual(verify(self.path).checked, 300)

    def test_a_full_disk_stops_the_work_and_loses_no_result(self):
        """A limit of the file size simulates a full disk."""
        self.make(40, length=32, batch_pairs=100)
        port = free_port()
        limited = self.start("serve", self.path, "--port", str(port), before=("prlimit", "--fsize=100000", "--"))
        url = limited.stdout.readline().split()[-1]
        worker = self.start("work", url, "--name", "patient")
        for line in iter(limited.stderr.readline, ""):
            if "disk I/O error" in line:  # SQLite's message
                break
            self.assertIn("the disk is full", line)  # the log's message
        self.end(limited)
        self.serve("--port", str(port))
        wait_for_success(self, [worker])
        self.assertEqual(verify(self.path).pairs, 780)
