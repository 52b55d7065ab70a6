"""densite.subscribe: following the log."""

import pathlib
import sqlite3
import statistics
import threading
import time
import unittest

import densite
import test_ingest
from test_ingest import VOTE


class Subscribe(test_ingest.Ingest):
    def test_acknowledged_rows_come_once_and_in_order(self):
        con = self.opened(VOTE, isolation_level=None)
        log = densite.ingest(con, "vote", on_conflict="replace")
        log.append([(1, 1, "a")])
        late = densite.subscribe(con, "late")
        early = densite.subscribe(con, "early", start="start", max_rows=2, timeout=0)
        con.execute("UPDATE vote_in SET at = 'b' WHERE user = 1")
        con.execute("DELETE FROM vote_in WHERE user = 1")
        log.append([(2, n, "c") for n in range(3)])
        got = []
        for batch in early:
            self.assertEqual((len(batch.rows), batch.rows[-1].seq), (2, batch.seq))
            self.assertEqual(early.ack(batch.seq), batch.seq)
            got += batch.rows
        key = {"user": 1, "article": 1}
        self.assertEqual(
            got[:3],
            [
                (1, "vote", "insert", key, {**key, "at": "a"}, "replace", True),
                (2, "vote", "update", key, {**key, "at": "b"}, None, True),
                (3, "vote", "delete", key, None, None, True),
            ],
        )
        self.assertEqual([(change.seq, change.op, change.row["article"]) for change in got[3:]], [(4, "insert", 0), (5, "insert", 1), (6, "insert", 2)])
        batch = late.next()
        self.assertEqual((batch.seq, [change.seq for change in batch.rows]), (6, [2, 3, 4, 5, 6]))
        self.assertIsNone(early.next(timeout=0))

    def test_unacknowledged_rows_come_again_only_to_a_new_subscription(self):
        con = self.opened(VOTE)
        log = densite.ingest(con, "vote")
        sub = densite.subscribe(con, "s", max_rows=3)
        log.append([(1, n, "a") for n in range(10)])
        self.assertEqual([sub.next(0).seq for _ in range(3)], [3, 6, 9])
        self.assertEqual(sub.ack(5), 5)
        self.assertEqual(sub.ack(2), 5)
        self.assertEqual([change.seq for change in sub.next(0).rows], [10])
        self.assertIsNone(sub.next(0))
        sub.close()
        again = densite.subscribe(con, "s", start="start")
        self.assertEqual([change.seq for change in again.next(0).rows], [6, 7, 8, 9, 10])
        # Rows that are acknowledged unread are skipped.
        other = densite.subscribe(con, "other", start="start", max_rows=1)
        other.ack(9)
        self.assertEqual(other.next(0).seq, 10)

    def test_a_batch_can_end_within_a_transaction_whose_rows_stay_consecutive(self):
        con = self.opened(VOTE, isolation_level=None)
        log = densite.ingest(con, "vote")
        sub = densite.subscribe(con, "s", max_rows=4, timeout=0)
        for user in (1, 2):
            log.append([(user, n, "a") for n in range(5)])
        con.execute("BEGIN")
        con.executemany("INSERT INTO vote_in VALUES (3, ?, 'a')", [(n,) for n in range(3)])
        con.execute("COMMIT")
        batches = list(sub)
        self.assertEqual([len(batch.rows) for batch in batches], [4, 4, 4, 1])
        rows = [change for batch in batches for change in batch.rows]
        self.assertEqual([change.seq for change in rows], list(range(1, 14)))
        self.assertEqual([change.row["user"] for change in rows], [1] * 5 + [2] * 5 + [3] * 3)
        self.assertEqual([change.seq for change in rows if change.ends_transaction], [5, 10, 13])
        con.execute("UPDATE vote_in SET at = at || 'b' WHERE user = 3 AND article = 0")
        (change,) = sub.next(0).rows
        self.assertEqual((change.op, change.row, change.on_conflict), ("update", {"user": 3, "article": 0}, "update(\"at\" = at || 'b')"))

    def test_next_waits_for_a_row_and_another_thread_can_end_it(self):
        con = self.opened(VOTE)
        log = densite.ingest(con, "vote")
        sub = densite.subscribe(con, "s", timeout=0.3, poll=0.01)
        start = time.monotonic()
        self.assertEqual(list(sub), [])
        self.assertIsNone(sub.next(0.1))
        self.assertGreaterEqual(time.monotonic() - start, 0.4)
        writer = self.program(
            """
            import densite, sys, time
            con = densite.connect(sys.argv[1])
            log = densite.ingest(con, "vote")
            print("ready")
            time.sleep(0.3)
            log.append([(1, 1, "a")])
            """,
            self.dir / "a.db",
        )
        writer.stdout.readline()
        self.assertEqual([change.key for change in sub.next(30).rows], [{"user": 1, "article": 1}])
        # Another thread can end the wait.
        timer = threading.Timer(0.2, sub.close)
        timer.start()
        self.assertIsNone(sub.next())
        timer.join()
        self.assertEqual(list(sub), [])
        for call in (sub.next, lambda: sub.ack(1), sub.unsubscribe):
            with self.assertRaisesRegex(sqlite3.ProgrammingError, "the subscription s is closed"):
                call()
        self.assertEqual(log.wait(), 1)

    def test_a_row_of_another_process_ends_the_wait_at_once(self):
        con = self.opened(VOTE)
        densite.ingest(con, "vote")
        sub = densite.subscribe(con, "s", poll=4)
        writer = self.program(
            """
            import densite, sys, time
            con = densite.connect(sys.argv[1])
            log = densite.ingest(con, "vote")
            for n in range(20):
                time.sleep(0.05)
                log.append([(n, 1, str(time.monotonic()))])
            """,
            self.dir / "a.db",
        )
        late = []
        while len(late) < 20:
            late += [time.monotonic() - float(change.row["at"]) for change in sub.next(30).rows]
        # Most of the time is the writer's sync. Polling every four seconds would be at least half a
        # second late.
        self.assertLess(statistics.median(late), 0.3, late)
        writer.wait()

    def test_an_idle_subscriber_sleeps(self):
        status = pathlib.Path("/proc/thread-self/status")
        if not status.exists():
            self.skip("the system does not count how often a thread sleeps")
        con = self.opened(VOTE)
        sub = densite.subscribe(con, "s")
        sub.next(timeout=1)

        def sleeps():
            return sum(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("voluntary"))

        before, used = sleeps(), time.thread_time()
        self.assertIsNone(sub.next(timeout=4))
        slept, used = sleeps() - before, time.thread_time() - used
        # It wakes up twice a second. Polling every 50 ms would sleep 80 times.
        self.assertLess(slept, 40)
        # Where a virtual machine's cores rest, waking up alone can take milliseconds of CPU time, and
        # so can the first statement after that.
        plain = time.thread_time()
        for _ in range(slept):
            time.sleep(4 / slept)
            con.execute("SELECT count(*) FROM vote").fetchall()
        plain = time.thread_time() - plain
        self.assertLess(used - plain, 0.2)

    def test_ctrl_c_and_interrupt_end_the_wait(self):
        con = self.opened(VOTE)
        sub = densite.subscribe(con, "s")
        began = threading.Event()
        began.set()
        start = time.monotonic()
        with self.ctrl_c(began, after=0.2):
            sub.next()
        self.assertLess(time.monotonic() - start, 3)
        timer = threading.Timer(0.2, con.interrupt)
        timer.start()
        start = time.monotonic()
        with self.assertRaisesRegex(sqlite3.OperationalError, "interrupted"):
            sub.next()
        timer.join()
        self.assertLess(time.monotonic() - start, 3)
        self.assertIsNone(sub.next(0))

    def test_other_threads_use_the_connection_during_the_wait(self):
        con = densite.connect(self.dir / "a.db", check_same_thread=False)
        self.addCleanup(con.close)
        con.execute(VOTE)
        log, sub = densite.ingest(con, "vote"), densite.subscribe(con, "s")
        ended, took = threading.Event(), []

        def read():
            while not ended.wait(0.01):
                start = time.monotonic()
                con.execute("SELECT count(*) FROM vote").fetchall()
                took.append(time.monotonic() - start)

        thread = threading.Thread(target=read)
        thread.start()
        self.assertIsNone(sub.next(timeout=1.5))
        ended.set()
        thread.join()
        # A wait within SQLite would let only one or two reads through.
        self.assertGreater(len(took), 20)
        log.append([(1, 1, "a")])
        self.assertEqual(sub.next(30).seq, 1)

    def test_a_killed_subscriber_continues_after_its_last_acknowledgement(self):
        con = self.opened(VOTE)
        log = densite.ingest(con, "vote")
        densite.subscribe(con, "s")
        log.append([(1, n, "a") for n in range(500)])
        subscriber = """
            import densite, sys
            con = densite.connect(sys.argv[1], timeout=30)
            sub = densite.subscribe(con, "s", max_rows=10, timeout=0)
            for batch in sub:
                print(*(change.seq for change in batch.rows))
                if sys.argv[2] == "stop" and batch.seq > 200:
                    import os
                    os.kill(os.getpid(), 9)
                sub.ack(batch.seq)
        """
        first = [int(n) for n in self.program(subscriber, self.dir / "a.db", "stop").stdout.read().split()]
        second = [int(n) for n in self.program(subscriber, self.dir / "a.db", "all").stdout.read().split()]
        self.assertEqual((first[0], first[-1]), (1, 210))
        # Only the batch that was not acknowledged comes again.
        self.assertEqual(second, list(range(201, 501)))

    def test_close_keeps_a_subscriber_and_unsubscribe_removes_it(self):
        con = self.opened(VOTE)
        sub = densite.subscribe(con, "s")
        self.assertEqual(self.rows(con, "SELECT count(*) FROM densite_log('s')"), [(0,)])
        with densite.subscribe(con, "t"):
            pass
        sub.unsubscribe()
        with self.assertRaisesRegex(sqlite3.OperationalError, 'no subscriber "s"'):
            self.rows(con, "SELECT count(*) FROM densite_log('s')")
        removed = densite.subscribe(con, "t")
        densite.subscribe(con, "t").unsubscribe()
        for call in (lambda: removed.ack(0), lambda: removed.next(0)):
            with self.assertRaisesRegex(sqlite3.OperationalError, 'no subscriber "t"') as raised:
                call()
            self.assertEqual(raised.exception.code, 1)

    def test_errors_name_the_wrong_argument(self):
        con = self.opened(VOTE)
        for arguments, words in [({"start": "end"}, "start is 'end'"), ({"max_rows": 0}, "max_rows is 0"), ({"poll": 0}, "poll 0")]:
            with self.assertRaisesRegex(sqlite3.ProgrammingError, words):
                densite.subscribe(con, "s", **arguments)
        with self.assertRaisesRegex(sqlite3.OperationalError, "is no name for a subscriber") as raised:
            densite.subscribe(con, "a b")
        self.assertEqual(raised.exception.code, 1)
        sub = densite.subscribe(con, "s")
        with self.assertRaisesRegex(sqlite3.OperationalError, "7 cannot be acknowledged: the log ends at 0"):
            sub.ack(7)


if __name__ == "__main__":
    unittest.main()
