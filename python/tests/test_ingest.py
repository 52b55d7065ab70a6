"""densite.ingest: rows through the log."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import unittest

import densite
from support import Files

VOTE = "CREATE TABLE vote(user INTEGER, article INTEGER, at TEXT NOT NULL DEFAULT 'now', PRIMARY KEY (user, article))"


class Ingest(Files):
    def opened(self, *statements, name="a.db", plain=False, **kwargs):
        path = self.dir / name
        densite.attach()
        con = sqlite3.connect(path, **kwargs) if plain else densite.connect(path, **kwargs)
        self.addCleanup(con.close)
        for statement in statements:
            con.execute(statement)
        con.commit()
        return con

    def program(self, text, *arguments):
        """Starts another process. Its output is not buffered."""
        run = subprocess.Popen([sys.executable, "-uc", textwrap.dedent(text), *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def locked(self, name="a.db"):
        """A connection that blocks the worker until it is rolled back."""
        other = densite.connect(self.dir / name, isolation_level=None, timeout=30, check_same_thread=False)
        self.addCleanup(other.close)
        other.execute("BEGIN IMMEDIATE")
        return other


class Append(Ingest):
    def test_rows_are_visible_at_once_and_in_the_table_after_wait(self):
        for plain in (True, False):
            con = self.opened(VOTE, name=f"{plain}.db", plain=plain)
            log = densite.ingest(con, "vote")
            self.assertEqual((log.table, log.name), ("vote", "vote_in"))
            self.assertEqual(log.append([]), 0)
            seq = log.append([(1, 10, "a"), (2, 10, "b")])
            self.assertEqual(seq, 2)
            self.assertFalse(con.in_transaction)
            self.assertEqual(self.rows(con, "SELECT * FROM vote_in"), [(1, 10, "a"), (2, 10, "b")])
            self.assertEqual(log.wait(seq), seq)
            self.assertEqual(self.rows(con, "SELECT * FROM vote"), [(1, 10, "a"), (2, 10, "b")])
            # Dicts keep the order of rows, and missing columns get their defaults.
            self.assertEqual(log.append({"user": 4, "article": n} for n in range(3)), 5)
            self.assertEqual(log.append([]), 5)
            self.assertEqual(log.wait(), 5)
            self.assertEqual(self.rows(con, "SELECT * FROM vote WHERE user = 4"), [(4, 0, "now"), (4, 1, "now"), (4, 2, "now")])
            log.close()
            with self.assertRaisesRegex(sqlite3.OperationalError, "no such table"):
                con.execute("SELECT * FROM vote_in")

    def test_columns_of_numpy_and_arrow_are_faster_than_executemany(self):
        numpy, pa = self.library("numpy"), self.library("pyarrow")
        con = self.opened("CREATE TABLE t(a INTEGER PRIMARY KEY, b REAL, c TEXT)")
        log = densite.ingest(con, "t", on_conflict="replace")
        n = 200_000
        order = numpy.random.default_rng(1).permutation(n)
        start = time.process_time()
        seq = log.append({"a": order, "b": order / 2})
        ours = time.process_time() - start
        self.assertEqual(seq, n)
        con.execute("CREATE VIRTUAL TABLE temp.other USING densite_ingest(t, on_conflict=replace)")
        rows = list(zip(order.tolist(), (order / 2).tolist(), [None] * n))
        start = time.process_time()
        con.executemany("INSERT INTO other VALUES (?, ?, ?)", rows)
        con.commit()
        theirs = time.process_time() - start
        self.assertLess(ours * 1.5, theirs, f"{n / ours:,.0f} rows per CPU second against {n / theirs:,.0f} by executemany")
        self.assertEqual(log.append(pa.table({"c": ["x", None], "a": [n + 1, 0]})), 2 * n + 2)
        log.wait(timeout=120)
        self.assertEqual(self.rows(con, "SELECT count(*), sum(a), max(c) FROM t"), [(n + 1, sum(range(n)) + n + 1, "x")])

    def test_one_append_of_several_parts_is_one_transaction(self):
        con = self.opened("CREATE TABLE t(a INTEGER PRIMARY KEY NOT NULL, b TEXT NOT NULL)")
        log = densite.ingest(con, "t")

        def rows(bad):
            for n in range(300_000):
                yield (n, None if n == bad else "x")

        with self.assertRaisesRegex(sqlite3.IntegrityError, "row 280000: .*b"):
            log.append(rows(280_000))
        self.assertFalse(con.in_transaction)
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t_in"), [(0,)])

        def stops():
            yield from ((n, "x") for n in range(270_000))
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            log.append(stops())
        self.assertEqual(self.rows(con, "SELECT count(*) FROM t_in"), [(0,)])
        self.assertEqual(log.append([(1, "x")]), 1)
        self.assertEqual(log.wait(), 1)

    def test_an_append_whose_transaction_the_iterable_ends_is_an_error(self):
        con = self.opened("CREATE TABLE t(a INTEGER PRIMARY KEY NOT NULL, b TEXT NOT NULL)")
        log = densite.ingest(con, "t")

        def rows(count, at):
            for n in range(count):
                if n == at:
                    con.rollback()
                yield (n, "x")

        # At the beginning, in the second of two parts, and at the end of the only one.
        for count, at in ((3, 0), (300_000, 299_000), (3, 2)):
            with self.assertRaisesRegex(sqlite3.ProgrammingError, "was committed or rolled back"):
                log.append(rows(count, at))
            self.assertFalse(con.in_transaction)
            self.assertEqual(self.rows(con, "SELECT count(*) FROM t_in"), [(0,)])
        self.assertEqual(log.append([(1, "x")]), 1)

    def test_errors_name_the_problem_and_nothing_is_logged(self):
        con = self.opened("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT NOT NULL)", "CREATE TABLE bare(a)")
        log = densite.ingest(con, "t")
        cases = [
            ([(1,)], sqlite3.ProgrammingError, "row 0 has 1 values, but there are 2 columns: a, b"),
            ([{"a": 1, "c": 2}], sqlite3.OperationalError, "no column c; its columns are a, b"),
            ([(1, "x"), (2, None)], sqlite3.IntegrityError, "row 1: .*t.b"),
            ([(1, "x"), (2**63, "y")], sqlite3.DataError, "column a, row 1: 9223372036854775808"),
            ([(1, "x"), (2, object())], sqlite3.DataError, "column b, row 1"),
            (7, sqlite3.ProgrammingError, "neither columns nor rows"),
        ]
        for data, error, words in cases:
            with self.subTest(words), self.assertRaisesRegex(error, words) as raised:
                log.append(data)
            self.assertIs(type(raised.exception), error)
            self.assertEqual(raised.exception.code, 1)
            self.assertFalse(con.in_transaction)
        self.assertEqual(self.rows(con, "SELECT densite_log_last()"), [(0,)])
        for arguments, error, words in [
            (("t", "sometimes"), sqlite3.ProgrammingError, "on_conflict is 'sometimes'; use"),
            (("t", "update(x'); DROP"), sqlite3.ProgrammingError, "use 'abort'"),
            (("t", "update(x)", "z"), sqlite3.OperationalError, "no column x"),
            (("nothing",), sqlite3.OperationalError, "no table nothing"),
            (("bare", "replace"), sqlite3.OperationalError, "no primary key"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(error, words) as raised:
                densite.ingest(con, *arguments[:2], name="".join(arguments[2:]) or None)
            self.assertEqual(raised.exception.code, 1)
        with self.assertRaisesRegex(sqlite3.ProgrammingError, "on_full is"):
            densite.ingest(con, "t", on_full="never")
        with self.assertRaises(sqlite3.Error):
            densite.ingest(self.memory("CREATE TABLE t(a)"), "t")
        con.close()
        with self.assertRaises(sqlite3.ProgrammingError):
            log.append([(1, "x")])

    def test_append_waits_while_too_much_is_unapplied(self):
        for mode in ("wal", "delete"):
            with self.subTest(mode):
                con = self.opened(f"PRAGMA journal_mode = {mode}", "CREATE TABLE t(id INTEGER PRIMARY KEY, v)", name=f"{mode}.db")
                log = densite.ingest(con, "t")
                hasty = densite.ingest(con, "t", on_full="error", name="hasty")
                log.wait()
                other = self.locked(f"{mode}.db")
                log.append([(None, os.urandom(2000))])
                con.execute("SELECT densite_config('max_unapplied_bytes', 1000)").fetchall()
                # The number of unapplied bytes is cached for a short time.
                time.sleep(0.05)
                with self.assertRaisesRegex(sqlite3.OperationalError, "max_unapplied_bytes is 1000") as raised:
                    hasty.append([(None, 1)])
                self.assertEqual(raised.exception.code, 4)
                for timeout in (0, 0.4):
                    begun = time.monotonic()
                    with self.assertRaisesRegex(sqlite3.OperationalError, "max_unapplied_bytes is 1000") as raised:
                        log.append([(None, 1)], timeout=timeout)
                    self.assertEqual(raised.exception.code, 3)
                    self.assertGreaterEqual(time.monotonic() - begun, timeout)
                    self.assertFalse(con.in_transaction)
                self.assertEqual(con.execute("PRAGMA busy_timeout").fetchone(), (5000,))
                began = threading.Event()
                began.set()
                with self.ctrl_c(began, after=0.2):
                    log.append([(None, 1)], timeout=60)
                self.assertFalse(con.in_transaction)
                release = threading.Timer(0.5, other.rollback)
                release.start()
                log.append(([n, n] for n in range(10, 12)), timeout=60)
                release.join()
                log.wait()
                self.assertEqual(self.rows(con, "SELECT id FROM t WHERE v = id"), [(10,), (11,)])

    def test_append_refuses_an_open_transaction_of_the_caller(self):
        con = self.opened(VOTE)
        log = densite.ingest(con, "vote")
        con.execute("INSERT INTO vote VALUES (1, 1, 'x')")
        for call in (lambda: log.append([(2, 2, "y")]), lambda: densite.ingest(con, "vote")):
            with self.assertRaisesRegex(sqlite3.ProgrammingError, "commit it or roll it back first"):
                call()
        con.rollback()
        # The caller's own transactions use the virtual table, for rows and for changes by key.
        with con:
            con.execute("INSERT INTO vote_in VALUES (1, 1, 'x'), (2, 2, 'y')")
            con.execute("UPDATE vote_in SET at = 'z' WHERE user = 1")
            con.execute("DELETE FROM vote_in WHERE user = 2")
        log.wait()
        self.assertEqual(self.rows(con, "SELECT * FROM vote"), [(1, 1, "z")])

    def test_on_conflict_decides_about_existing_keys(self):
        for how, wanted, rejected in [
            ("abort", ["a", "b"], 1),
            ("ignore", ["a", "b"], 0),
            ("replace", ["c", "d"], 0),
            ("update(x)", ["c", "b"], 0),
            ("Update (\"x\", y)", ["c", "d"], 0),
            ("update([x], 'y')", ["c", "d"], 0),
            ("update(x = x || '-' || excluded.y)", ["a-d", "b"], 0),
        ]:
            con = self.opened("CREATE TABLE t(k INTEGER PRIMARY KEY, x, y)", name=f"{len(how)}.db")
            with densite.ingest(con, "t", on_conflict=how) as log:
                log.append([(1, "a", "b")])
                log.append([(1, "c", "d")])
                log.wait()
                self.assertEqual((list(self.rows(con)[0][1:]), len(log.rejects())), (wanted, rejected), how)

    def test_an_ingest_table_of_the_database_is_used(self):
        policy = "update(at = max(at, excluded.at || ''))"
        con = self.opened(VOTE)
        con.execute("SELECT densite_config('ingest', 'vote', ?)", ["on_conflict='" + policy.replace("'", "''") + "'"]).fetchall()
        con.commit()
        con = self.opened()
        self.assertEqual(self.rows(con, "SELECT count(*) FROM vote_in"), [(0,)])
        log = densite.ingest(con, "vote", on_conflict=policy)
        log.append([(1, 1, "b"), (1, 1, "a")])
        log.wait()
        self.assertEqual(self.rows(con, "SELECT * FROM vote"), [(1, 1, "b")])
        with self.assertRaisesRegex(sqlite3.OperationalError, "another one"):
            densite.ingest(con, "vote", on_conflict="ignore")

    def test_a_setting_that_no_longer_fits_does_not_keep_a_database_from_opening(self):
        con = self.opened(VOTE, "CREATE TABLE t(k INTEGER PRIMARY KEY, n)", "CREATE TABLE u(k INTEGER PRIMARY KEY)")
        for table, options in (("vote", ""), ("t", "on_conflict='update(n = n + 1)'"), ("u", "shadow=on")):
            con.execute("SELECT densite_config('ingest', ?, ?)", [table, options]).fetchall()
        con.commit()
        con.execute("ALTER TABLE t RENAME COLUMN n TO m")
        con.execute("DROP TABLE vote")
        con.execute("DROP TABLE u")
        other = self.opened()
        for sql, said in (("SELECT * FROM vote_in", "no table vote"), ("SELECT * FROM t_in", "no such column: n"), ("SELECT * FROM u", "no such table: u")):
            with self.assertRaisesRegex(sqlite3.OperationalError, said):
                other.execute(sql)
        for table in ("vote", "t", "u"):
            self.assertEqual(self.rows(other, f"SELECT densite_config('ingest', '{table}', NULL)"), [(None,)])

    def test_append_in_a_rollback_mode_leaves_ids_to_the_worker(self):
        con = self.opened("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, n)")
        log = densite.ingest(con, "t")
        log.append([(None, n) for n in range(200)])
        log.append({"n": [200]})
        log.wait()
        self.assertEqual(self.rows(con, "SELECT count(*), max(id), sum(id = n + 1) FROM t"), [(201, 201, 201)])

    def test_names_are_quoted_and_identify_the_virtual_table(self):
        con = self.opened('CREATE TABLE "a ""b\'" (k INTEGER PRIMARY KEY, "x,y" TEXT)', VOTE)
        log = densite.ingest(con, "a \"b'", name="in")
        log.append({"x,y": ["z"], "k": [1]})
        log.wait()
        self.assertEqual(self.rows(con, 'SELECT * FROM "a ""b\'"'), [(1, "z")])
        # The same arguments use the same virtual table. Other arguments are refused.
        densite.ingest(con, "vote").append([(1, 1, "a")])
        densite.ingest(con, "vote").append([(1, 2, "a")])
        with self.assertRaisesRegex(sqlite3.OperationalError, "temp.vote_in already.*give another name="):
            densite.ingest(con, "vote", on_conflict="replace")
        densite.ingest(con, "vote", on_conflict="replace", name="vote_replacing").append([(1, 2, "b")])
        log.wait()
        self.assertEqual(self.rows(con, "SELECT * FROM vote"), [(1, 1, "a"), (1, 2, "b")])

    def test_a_table_with_the_default_name_is_not_hidden(self):
        con = self.opened(VOTE, "CREATE TABLE Vote_In(a)", "INSERT INTO vote_in VALUES (7)")
        con.commit()
        with self.assertRaisesRegex(sqlite3.OperationalError, "main has a table vote_in, which temp.vote_in would hide on this connection; give another name="):
            densite.ingest(con, "vote")
        self.assertEqual(self.rows(con, "SELECT * FROM vote_in"), [(7,)])
        # An explicit name is accepted.
        log = densite.ingest(con, "vote", name="vote_in")
        log.append([(1, 1, "a")])
        self.assertEqual(self.rows(con, "SELECT * FROM vote_in"), [(1, 1, "a")])

    def test_a_connection_s_schema_can_be_out_of_date(self):
        # SQLite 3.40.1 crashed here, at the latest when such a connection was closed.
        for logged in (True, False):
            con, other = self.opened(VOTE, name=f"{logged}.db"), self.opened(name=f"{logged}.db")
            self.assertEqual(self.rows(con, "SELECT * FROM vote"), [])
            if logged:
                densite.ingest(other, "vote")
            other.execute("CREATE TABLE more(x)")
            con.execute("CREATE VIRTUAL TABLE temp.v USING densite_ingest(vote)")
            other.execute("CREATE TABLE yet_more(x)")
            log = densite.ingest(con, "vote")
            log.append([(1, 1, "a")])
            self.assertEqual(log.wait(), 1)
            con.close()

    def test_factories_of_the_connection_have_no_effect(self):
        con = self.opened(VOTE)
        con.row_factory, con.text_factory = sqlite3.Row, lambda text: text.decode()[::-1]
        log = densite.ingest(con, "vote")
        log = densite.ingest(con, "vote")
        log.append([(1, 1, "a"), (1, 1, "b")])
        log.wait()
        (reject,) = log.rejects()
        self.assertEqual((reject.table, reject.row), ("vote", {"user": 1, "article": 1, "at": "b"}))
        sub = densite.subscribe(con, "x", start="start")
        self.assertEqual(sub.next(0).rows[0], (1, "vote", "insert", {"user": 1, "article": 1}, {"user": 1, "article": 1, "at": "a"}, "abort", False))

    def test_pysqlite3_works(self):
        driver = self.library("pysqlite3")
        densite.attach(driver)
        con = driver.connect(f"file:{self.dir / 'p.db'}?vfs=densite", uri=True)
        self.addCleanup(con.close)
        con.execute("CREATE TABLE t(a PRIMARY KEY NOT NULL)")
        log = densite.ingest(con, "t")
        log.append([(1,), (2,)])
        self.assertEqual(log.wait(), 2)
        with self.assertRaises(driver.IntegrityError):
            log.append([(None,)])
        self.assertEqual([change.key for change in densite.subscribe(con, "s", "start").next(0).rows], [{"a": 1}, {"a": 2}])

    def test_every_transaction_mode_except_autocommit_false_works(self):
        # Connections have the attribute autocommit since Python 3.12.
        has_autocommit = sys.version_info >= (3, 12)
        for mode in [{"isolation_level": None}, {"isolation_level": "IMMEDIATE"}] + [{"autocommit": True}] * has_autocommit:
            con = self.opened(VOTE, name=f"{len(str(mode))}.db", **mode)
            log = densite.ingest(con, "vote")
            log.append([(1, 1, "a")])
            self.assertEqual(log.wait(), 1)
        if has_autocommit:
            con = self.opened(VOTE, name="off.db", autocommit=False)
            with self.assertRaisesRegex(sqlite3.ProgrammingError, "autocommit=False"):
                densite.ingest(con, "vote")


class Wait(Ingest):
    def test_wait_fails_after_the_timeout(self):
        con = self.opened(VOTE)
        log = densite.ingest(con, "vote")
        log.append([(1, 1, "a")])
        log.wait()
        other = self.locked()
        seq = log.append([(1, 2, "a"), (1, 3, "b")])
        for timeout in (0, 0.4):
            start = time.monotonic()
            with self.assertRaisesRegex(sqlite3.OperationalError, "row 3 of the log is not applied after .* rows up to 1 are") as raised:
                log.wait(seq, timeout)
            self.assertEqual(raised.exception.code, 3)
            self.assertLess(time.monotonic() - start, timeout + 5)
        self.assertEqual(log.wait(1, timeout=0), 1)
        other.rollback()
        self.assertEqual(log.wait(seq, timeout=60), 3)
        with self.assertRaisesRegex(sqlite3.OperationalError, "row 9 is not in the log"):
            log.wait(9)

    def test_wait_fails_if_the_connection_has_a_transaction_open(self):
        con = self.opened(VOTE)
        log = densite.ingest(con, "vote")
        other = self.locked()
        log.append([(1, 1, "a")])
        con.execute("BEGIN")
        self.rows(con, "SELECT * FROM vote")
        with self.assertRaisesRegex(sqlite3.OperationalError, "transaction open on main") as raised:
            log.wait()
        self.assertEqual(raised.exception.code, 3)
        con.rollback()
        other.rollback()
        log.wait()

    def test_a_signal_handler_can_end_wait(self):
        con = self.opened(VOTE)
        log = densite.ingest(con, "vote")
        other = self.locked()
        log.append([(1, 1, "a")])

        def stop(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, stop)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with self.assertRaises(KeyboardInterrupt):
            log.wait()
        other.rollback()
        self.assertEqual(log.wait(), 1)


class Rejects(Ingest):
    def test_rejects_have_the_refused_rows_and_the_reasons(self):
        con = self.opened(
            "CREATE TABLE t(k INTEGER PRIMARY KEY, mail TEXT UNIQUE, n CHECK (n > 0), data BLOB)",
            "CREATE TABLE u(k INTEGER PRIMARY KEY)",
        )
        log, other = densite.ingest(con, "t"), densite.ingest(con, "u")
        self.assertEqual(log.rejects(), [])
        log.append([(1, "a@b", 1, None), (2, "a@b", 1, None), (3, "c@d", -1, b"\0\xff"), (4, None, 2, None)])
        other.append([(1,), (1,)])
        log.wait()
        first, second = log.rejects()
        self.assertEqual(first[:3], (2, "t", {"k": 2, "mail": "a@b", "n": 1, "data": None}))
        self.assertIn("UNIQUE constraint failed: t.mail", first.error)
        self.assertRegex(first.at, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual((second.seq, second.row["data"]), (3, {"hex": "00FF"}))
        self.assertIn("CHECK", second.error)
        self.assertEqual(log.rejects(after=2), [second])
        self.assertEqual([reject.row for reject in other.rejects()], [{"k": 1}])
        self.assertEqual(self.rows(con, "SELECT k FROM t ORDER BY k"), [(1,), (4,)])
        with con:
            con.execute("DELETE FROM densite_rejects WHERE \"table\" = 't'")
        self.assertEqual(log.rejects(), [])


class Processes(Ingest):
    WRITER = """
        import densite, sys
        con = densite.connect(sys.argv[1], timeout=60)
        log = densite.ingest(con, "vote", on_conflict="ignore")
        user, batches, rows = map(int, sys.argv[2:])
        for n in range(batches):
            print(log.append([(user, n * rows + i, "x") for i in range(rows)]))
    """

    def test_processes_and_threads_write_concurrently(self):
        con = self.opened(VOTE)
        writers = [self.program(self.WRITER, self.dir / "a.db", user, 20, 50) for user in (1, 2)]
        failed = []

        def write(user):
            try:
                mine = densite.connect(self.dir / "a.db", timeout=60)
                log = densite.ingest(mine, "vote", on_conflict="ignore")
                for n in range(20):
                    log.append([(user, n * 50 + i, "y") for i in range(50)])
                mine.close()
            except BaseException as error:  # noqa: BLE001: reported by the test
                failed.append(error)

        threads = [threading.Thread(target=write, args=(user,)) for user in (3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        numbers = [[int(line) for line in writer.stdout] for writer in writers]
        self.assertEqual([writer.wait() for writer in writers], [0, 0])
        for mine in numbers:
            self.assertEqual((len(mine), sorted(set(mine))), (20, mine))
        self.assertFalse(set(numbers[0]) & set(numbers[1]))
        log = densite.ingest(con, "vote")
        self.assertEqual(log.wait(timeout=60), 4000)
        self.assertEqual(self.rows(con, "SELECT user, count(*), max(article) FROM vote GROUP BY 1"), [(user, 1000, 999) for user in (1, 2, 3, 4)])

    def test_another_process_sees_rows_before_they_are_applied(self):
        con = self.opened(VOTE, "PRAGMA journal_mode=WAL")
        log = densite.ingest(con, "vote")
        other = self.locked()
        log.append([(1, 1, "a")])
        reader = self.program(
            """
            import densite, sys
            con = densite.connect(sys.argv[1])
            log = densite.ingest(con, "vote")
            print(con.execute("SELECT (SELECT count(*) FROM vote_in), (SELECT count(*) FROM vote)").fetchone())
            """,
            self.dir / "a.db",
        )
        self.assertEqual(reader.stdout.read(), "(1, 0)\n")
        other.rollback()
        self.assertEqual(log.wait(), 1)

    def test_a_killed_writer_loses_no_acknowledged_row_and_leaves_no_partial_batch(self):
        for plain in (True, False):
            con = self.opened(VOTE, name=f"{plain}.db", plain=plain)
            con.close()
            # A plain file stays plain.
            writer = self.program(self.WRITER, self.dir / f"{plain}.db", 1, 1_000_000, 7)
            acknowledged = 0
            for line in writer.stdout:
                acknowledged = int(line)
                if acknowledged >= 700:
                    os.kill(writer.pid, signal.SIGKILL)
            self.assertEqual(writer.wait(), -signal.SIGKILL)
            con = densite.connect(self.dir / f"{plain}.db")
            log = densite.ingest(con, "vote")
            log.wait(timeout=60)
            rows = con.execute("SELECT count(*), max(article) FROM vote").fetchone()
            con.close()
            self.assertGreaterEqual(rows[0], acknowledged)
            self.assertEqual((rows[0] % 7, rows[1]), (0, rows[0] - 1))


class Guides(Ingest):
    """The code in the guides works unchanged."""

    def test_the_guide_to_python_many_small_writes(self):
        options = [row[0] for row in sqlite3.connect(":memory:").execute("PRAGMA compile_options")]
        if "ENABLE_PREUPDATE_HOOK" not in options:
            self.skip("this SQLite has no preupdate hook")
        guide = self.guide("python.md", "Many small writes")
        self.addCleanup(guide.con.close)
        self.assertEqual(guide.log.wait(), guide.seq)
        self.assertEqual(guide.output, guide.says)
        self.assertIsNone(guide.sub.next(0))

    def test_the_guide_to_ingest_from_python(self):
        guide = self.guide("ingest.md", "From Python")
        self.addCleanup(guide.con.close)
        self.assertEqual(guide.log.rejects(), [])
        self.assertIn("1 vote insert", guide.output)
        self.assertEqual(guide.output, guide.says)


if __name__ == "__main__":
    unittest.main()
