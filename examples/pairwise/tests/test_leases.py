"""Leases: every pair is handed out once, expired leases again, and no pair is read to find a
batch."""

import concurrent.futures
import subprocess
import sys
import threading
import time
import unittest.mock

from .. import clock, leases, schema
from ..progress import progress
from ..results import deliver
from .support import SOON, Case


def lease_of(got):
    return (got.batch, got.tries)


class Time:
    """A time for the clock of the file. Only the test advances it."""

    def __init__(self):
        self.seconds, self.hours = time.monotonic(), 0

    def monotonic(self):
        return self.seconds

    def time(self):
        return time.time() + 3600 * self.hours


class Leases(Case):
    def time(self):
        patch = unittest.mock.patch.object(clock, "time", Time())
        self.addCleanup(patch.stop)
        return patch.start()

    def all_of(self, con, worker="w", seconds=60.0):
        taken = []
        while isinstance(got := leases.take(con, worker, seconds), leases.Lease):
            taken.append(got)
        return taken, got

    def test_every_pair_is_handed_out_once(self):
        self.make(13, length=8, batch_pairs=10)
        taken, nothing = self.all_of(self.connection())
        pairs = [pair for lease in taken for pair in lease.pairs]
        self.assertEqual(sorted(pairs), [(a, b) for a in range(1, 14) for b in range(a + 1, 14)])
        self.assertEqual([(lease.batch, len(lease.pairs)) for lease in taken], [(n, 10) for n in range(1, 8)] + [(8, 8)])
        self.assertEqual(len({lease.name for lease in taken}), 8)
        self.assertFalse(nothing.finished)
        self.assertTrue(0 < nothing.wait <= 1)

    def test_added_samples_add_exactly_their_pairs(self):
        self.make(5, length=8, batch_pairs=4)
        con = self.connection()
        self.assertEqual(schema.add(con, 3), 3 * 5 + 3)
        rows = con.execute("SELECT a, b FROM pair ORDER BY b, a").fetchall()
        self.assertEqual(rows, [(a, b) for b in range(2, 9) for a in range(1, b)])
        taken, _ = self.all_of(con)
        self.assertEqual(sum(len(lease.pairs) for lease in taken), 8 * 7 // 2)

    def test_a_batch_is_handed_out_again_only_after_its_lease_has_expired(self):
        self.make(4, length=8, batch_pairs=100)
        con = self.connection()
        now = self.time()
        first = leases.take(con, "lost", 0.3)
        began = now.seconds
        while not isinstance(again := leases.take(con, "other", 60), leases.Lease):
            now.seconds += again.wait + 0.01
        self.assertGreaterEqual(now.seconds - began, 0.3)
        self.assertLess(now.seconds - began, 0.5)
        self.assertEqual((again.batch, again.pairs), (first.batch, first.pairs))
        self.assertNotEqual(again.name, first.name)
        self.assertIn("other has the batch now", leases.why_not(con, lease_of(first), "lost"))

    def test_setting_the_clock_does_not_change_leases(self):
        self.make(4, length=8, batch_pairs=100)
        con = self.connection()
        now = self.time()
        for now.hours in (-2, 2):
            got = leases.take(con, "lost", 0.5)
            self.assertIsInstance(leases.take(con, "other", 0.5), leases.Nothing)
            now.seconds += 0.55
            again = leases.take(con, "other", 0.1)
            self.assertEqual(again.batch, got.batch)
            now.seconds += 0.15
            self.assertGreaterEqual(progress(con, self.path).workers[0].silent_seconds, 0.1)

    def test_setting_the_clock_back_between_coordinators_does_not_extend_leases(self):
        self.make(4, length=8, batch_pairs=100)
        got = leases.take(self.connection(), "lost", 0.5)
        code = f"""
import time
real = time.time
time.time = lambda: real() - 7200
from pairwise import leases, store
con = store.connect({self.path!r})
time.sleep(0.6)
print(leases.take(con, "other", 60).batch)
con.close()
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SOON, check=False)
        self.assertEqual(done.stdout, f"{got.batch}\n", done.stderr)

    def test_batches_of_expired_leases_are_handed_out_before_new_ones(self):
        self.make(5, length=8, batch_pairs=3)
        con = self.connection()
        leases.take(con, "w", 60)
        lost = leases.take(con, "lost", 0.05)
        time.sleep(0.06)
        self.assertEqual([leases.take(con, "w", 60)[:2] for _ in range(3)], [(lost.batch, 2), (3, 1), (4, 1)])

    def test_a_renewed_lease_does_not_expire(self):
        self.make(4, length=8, batch_pairs=100)
        con = self.connection()
        now = self.time()
        got = leases.take(con, "slow", 0.4)
        for _ in range(4):
            now.seconds += 0.2
            self.assertIsNone(leases.renew(con, lease_of(got), "slow", 0.4))
            self.assertIsInstance(leases.take(con, "other", 60), leases.Nothing)

    def test_a_lease_begins_after_the_wait_for_the_write_lock(self):
        # The wait for other connections does not shorten the lease.
        self.make(4, length=8, batch_pairs=100)
        con, other = self.connection(), self.connection()
        now = self.time()
        other.execute("BEGIN IMMEDIATE")
        begun = threading.Event()

        def statement(sql):
            if sql.startswith("BEGIN"):
                begun.set()

        con.set_trace_callback(statement)

        def give_back():
            begun.wait(SOON)
            now.seconds += 100
            other.execute("ROLLBACK")

        for ask in (lambda: leases.take(con, "w", 60), lambda: leases.renew(con, lease_of(got), "w", 60)):
            with concurrent.futures.ThreadPoolExecutor() as threads:
                giving = threads.submit(give_back)
                got = ask() or got
                giving.result()
            self.assertIsInstance(leases.take(other, "other", 60), leases.Nothing)
            begun.clear()
            other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")

    def test_a_lease_survives_closing_the_file(self):
        self.make(4, length=8, batch_pairs=100)
        con = self.connection()
        got = leases.take(con, "w", 60)
        con.close()
        con = self.connection()
        self.assertIsInstance(leases.take(con, "other", 60), leases.Nothing)
        self.assertIsNone(leases.renew(con, lease_of(got), "w", 60))
        self.assertIn("belongs to w", leases.renew(con, lease_of(got), "other", 60))
        self.assertIn("no lease 1.9", leases.renew(con, (1, 9), "w", 60))
        self.assertIn("no batch 77", leases.renew(con, (77, 1), "w", 60))

    def test_pairs_with_results_are_not_handed_out_again(self):
        self.make(5, length=8, batch_pairs=100)
        con = self.connection()
        got = leases.take(con, "lost", 0.05)
        deliver(con, lease_of(got), "lost", [[a, b, 1] for a, b in got.pairs[:7]])
        time.sleep(0.06)
        self.assertEqual(leases.take(con, "other", 60).pairs, got.pairs[7:])

    def test_recover_notes_batches_that_were_stored_but_not_noted_as_done(self):
        self.make(5, length=8, batch_pairs=6)
        con = self.connection()
        got = leases.take(con, "w", 60)
        # As after a kill of the coordinator between the two transactions of a delivery.
        con.executemany("INSERT INTO temp.result_in VALUES (?, ?, 1.0)", got.pairs)
        self.assertEqual(leases.recover(con), 1)
        self.assertEqual(con.execute("SELECT done_pairs FROM work").fetchone(), (6,))
        self.assertEqual(con.execute("SELECT name, batches, pairs FROM worker").fetchall(), [("w", 1, 6)])
        self.assertEqual(leases.recover(con), 0)

    def test_handing_out_a_batch_reads_no_pair(self):
        self.make(4, length=8)
        con = self.connection()

        def plan(sql, parameters):
            return [row[3] for row in con.execute("EXPLAIN QUERY PLAN " + sql, parameters)]

        taking = plan(leases._TAKE, {"worker": "w", "now": 0, "expires": 0})
        self.assertTrue(any("batch_open" in step for step in taking), taking)
        for step in taking:
            self.assertNotIn("SCAN", step)
            self.assertNotIn("TEMP B-TREE", step)
            self.assertNotIn("pair", step)
        missing = plan(leases._MISSING, (1,))
        self.assertTrue(any("SEARCH p USING PRIMARY KEY (batch=?)" in step for step in missing), missing)
