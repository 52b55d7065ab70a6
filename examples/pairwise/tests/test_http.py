"""The coordinator over HTTP: its answers, bad requests, a locked file, and an unreachable
coordinator."""

import ast
import http.client
import json
import pathlib
import socket
import sqlite3
import sys
import threading
import time
import unittest
from unittest import mock
from urllib.parse import urlsplit

import densite

from ..client import Client
from ..errors import Failed, Refused
from ..routes import Coordinator
from ..server import MOST_BYTES, Server
from .support import Case, free_port


class Http(Case):
    def coordinator(self, lock_seconds=5.0, lease_seconds=60.0):
        """Starts a coordinator in this process. Returns its URL."""
        server = Server("127.0.0.1", 0, Coordinator(self.store(lock_seconds), lease_seconds))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.port, self.token = server.server_address[1], server.coordinator.token
        return server.url

    def raw(self, method, path, body=None, headers=None):
        """Sends one request. Returns status, body and headers of the answer."""
        con = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            con.request(method, path, body, {"Authorization": f"Bearer {self.token}", **(headers or {})})
            answer = con.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            con.close()

    def test_a_worker_leases_renews_and_delivers(self):
        self.make(5, length=8, batch_pairs=6)
        client = self.client(self.coordinator())
        got = client.post("/lease", {"worker": "w"})
        self.assertEqual((got["lease"], got["seconds"], got["window"], len(got["pairs"])), ("1.1", 60.0, 12, 6))
        self.assertEqual(set(client.get("/samples?ids=1-2,5")), {"1", "2", "5"})
        self.assertEqual(client.post("/renew", {"worker": "w", "lease": "1.1"}), {"renewed": True, "note": None})
        self.assertIn("belongs to w", client.post("/renew", {"worker": "x", "lease": "1.1"})["note"])
        receipt = client.post("/results", {"worker": "w", "lease": "1.1", "results": [[a, b, 1.5] for a, b in got["pairs"]]})
        self.assertEqual(receipt, {"taken": 6, "done": True, "note": None})
        now = client.get("/progress")
        self.assertEqual((now["done_pairs"], now["pairs"], now["finished"], now["rejects"]), (6, 10, False, 0))
        self.assertEqual([(w["name"], w["pairs"], w["leased_pairs"]) for w in now["workers"]], [("w", 6, 0)])
        rest = client.post("/lease", {"worker": "w"})
        client.post("/results", {"worker": "w", "lease": rest["lease"], "results": [[a, b, 2] for a, b in rest["pairs"]]})
        self.assertEqual(client.post("/lease", {"worker": "w"}), {"finished": True, "wait": 0.0})
        self.assertTrue(client.get("/progress")["finished"])

    def test_distances_between_two_sets_are_returned_in_order(self):
        self.make(12, length=8, batch_pairs=40)
        client = self.client(self.coordinator())
        got = client.post("/lease", {"worker": "w"})
        stored = {(a, b): a + b / 100 for a, b in got["pairs"]}
        client.post("/results", {"worker": "w", "lease": got["lease"], "results": [[a, b, d] for (a, b), d in stored.items()]})
        answer = client.get("/distances?left=11-12,3&right=sine,2-3")  # sine: 1, 6 and 11
        self.assertEqual(answer["columns"], ["a", "b", "distance"])
        pairs = {(min(x, y), max(x, y)) for x in (3, 11, 12) for y in (1, 2, 3, 6, 11) if x != y}
        self.assertEqual(answer["rows"], [[a, b, stored.get((a, b))] for a, b in sorted(pairs)])
        self.assertIn(None, [distance for _, _, distance in answer["rows"]])  # some are not known yet
        self.assertEqual(client.get("/distances?left=4&right=4")["rows"], [])
        # An answer in several parts. The connection can be used again.
        with mock.patch(f"{Coordinator.__module__}._ROWS", 5):
            every = client.get("/distances?left=1-12&right=1-12")["rows"]
        self.assertEqual(every, [[a, b, stored.get((a, b))] for a in range(1, 13) for b in range(a + 1, 13)])
        for path, message in (
            ("/distances?left=1", "right= is missing"),
            ("/distances?left=1&right=13", "the file has samples 1 to 12"),
            ("/distances?left=1&right=0", "the file has samples 1 to 12"),
            ("/distances?left=9-8&right=1", "9-8"),
            ("/distances?left=1&right=%C2%B2", "give a number"),
            ("/distances?left=1&right=triangle", "or a kind (pulse, saw, sine, square, walk)"),
            ("/distances?left=1&right=,", "the set of samples is empty"),
        ):
            with self.assertRaises(Refused) as caught:
                client.get(path)
            self.assertIn(message, str(caught.exception))
        with mock.patch("pairwise.distances.MOST", 3), self.assertRaises(Refused) as caught:
            client.get("/distances?left=1-2&right=3-4")
        self.assertEqual(caught.exception.status, 413)

    def test_bad_requests_are_refused(self):
        self.make(3, length=8)
        self.coordinator()
        kind = {"Content-Type": "application/json"}
        good = json.dumps({"worker": "w", "lease": "1.1", "results": [[1, 2, 0.5]]})
        for method, path, body, headers, status, message in (
            ("GET", "/nothing", None, {}, 404, "use one of /, /progress, /samples, /distances"),
            ("POST", "/nothing", good, kind, 404, "use one of /lease, /renew, /results"),
            ("POST", "/results", good, {"Content-Type": "text/plain"}, 415, "application/json"),
            ("POST", "/results", "{", kind, 400, "not valid JSON"),
            ("POST", "/results", "[" * 100_000, kind, 400, "not valid JSON"),
            ("POST", "/results", b"\xff\xfe\xfd", kind, 400, "not valid JSON"),
            ("POST", "/results", "[]", kind, 400, "must be a JSON object"),
            ("POST", "/results", '{"worker": "<b>"}', kind, 400, '"worker" must be a name'),
            ("POST", "/results", '{"worker": "w", "lease": 7}', kind, 400, '"lease" must be the name of a lease'),
            ("POST", "/results", '{"worker": "w", "lease": "99999999999999999999.1"}', kind, 400, '"lease" must be'),
            ("POST", "/results", '{"worker": "w", "lease": "1.1", "results": [[1, 2, NaN]]}', kind, 400, "must be finite"),
            ("POST", "/results", None, {"Content-Length": str(MOST_BYTES + 1)}, 413, "8,388,608 bytes"),
            ("POST", "/results", None, {"Content-Length": "9" * 5000}, 413, "8,388,608 bytes"),
            ("POST", "/results", None, {"Content-Length": "-1"}, 411, "Content-Length"),
        ):
            with self.subTest(path=path, body=str(body)[:60], headers=headers):
                actual, text, _ = self.raw(method, path, body, headers)
                self.assertEqual(actual, status, text)
                self.assertIn(message, json.loads(text)["error"])
        self.assertEqual(self.raw("POST", "/results", good, kind)[0], 200)

    def test_requests_without_the_token_are_refused(self):
        self.make(3, length=8)
        url = self.coordinator()
        got = self.client(url).get("/progress")
        for path in ("/", "/progress", "/samples?ids=1", "/distances?left=1&right=2", "/nothing"):
            for headers, query in (
                ({"Authorization": ""}, ""),
                ({"Authorization": "Bearer"}, ""),
                ({"Authorization": f"Bearer {self.token}x"}, ""),
                ({"Authorization": f"Basic {self.token}"}, ""),
                ({"Authorization": "Bearer \xe9"}, ""),
                ({"Authorization": ""}, f"token={self.token[:-1]}"),
            ):
                with self.subTest(path=path, headers=headers, query=query):
                    status, text, _ = self.raw("GET", path + ("&" if "?" in path else "?") + query, None, headers)
                    self.assertEqual(status, 401)
                    self.assertIn("the token is missing or wrong", json.loads(text)["error"])
        for path in ("/lease", "/renew", "/results", f"/lease?token={self.token}"):
            status, _, _ = self.raw("POST", path, '{"worker": "w"}', {"Content-Type": "application/json", "Authorization": ""})
            self.assertEqual(status, 401)
        # A browser sends the token in the URL. The page does not contain it.
        status, text, _ = self.raw("GET", urlsplit(url).path + "?" + urlsplit(url).query, None, {"Authorization": ""})
        self.assertEqual(status, 200)
        self.assertNotIn(self.token, text)
        with self.assertRaises(Refused) as caught:
            self.client(url.partition("?")[0], 0).get("/progress")
        self.assertEqual(caught.exception.status, 401)
        self.assertEqual(self.client(url).get("/progress")["pairs"], got["pairs"])

    def test_a_foreign_host_name_is_refused(self):
        self.make(3, length=8)
        self.coordinator()
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1.evil.example", "", "[::1", "a" * 5000):
            with self.subTest(host=host):
                status, text, _ = self.raw("GET", "/progress", None, {"Host": host})
                self.assertEqual(status, 421, text)
                self.assertIn("use the numeric address", json.loads(text)["error"])
        for host in ("127.0.0.1", f"LOCALHOST:{self.port}", "[::1]:80", "192.0.2.7:1"):
            self.assertEqual(self.raw("GET", "/progress", None, {"Host": host})[0], 200, host)

    def test_a_locked_file_is_reported_and_no_result_is_lost(self):
        self.make(4, length=8)
        url = self.coordinator(lock_seconds=0.2)
        client = self.client(url)
        got = client.post("/lease", {"worker": "w"})
        delivery = {"worker": "w", "lease": got["lease"], "results": [[a, b, 1] for a, b in got["pairs"]]}
        other = densite.connect(self.path, isolation_level=None, check_same_thread=False)
        self.addCleanup(other.close)
        other.execute("BEGIN IMMEDIATE")
        with mock.patch("sys.stderr"):
            status, text, headers = self.raw("POST", "/lease", '{"worker": "w"}', {"Content-Type": "application/json"})
            self.assertEqual((status, headers["Retry-After"]), (503, "1"))
            self.assertIn("database is locked; try again", json.loads(text)["error"])
            impatient = self.client(url, patience_seconds=0)
            with self.assertRaises(Failed) as caught:
                impatient.post("/results", delivery)
            self.assertIn("database is locked", str(caught.exception))
            # A worker that waits succeeds when the lock is released.
            threading.Timer(0.5, other.execute, ("ROLLBACK",)).start()
            self.assertEqual(client.post("/results", delivery)["taken"], 6)
        self.assertEqual(client.get("/progress")["done_pairs"], 6)
        self.assertEqual(len(client.get("/distances?left=1-4&right=1-4")["rows"]), 6)

    def test_a_worker_waits_for_a_coordinator_until_its_patience_ends(self):
        port = free_port()
        began = time.monotonic()
        code, _, errors = self.run_command("work", f"http://127.0.0.1:{port}", "--patience", "0.6")
        self.assertEqual(code, 1)
        self.assertIn("has not answered POST /lease for 0.6 seconds", errors)
        self.assertGreater(time.monotonic() - began, 0.6)
        for url in ("https://a", "nonsense", "http://127.0.0.1:x"):
            with self.assertRaises(Failed):
                Client(url)

    def test_an_address_that_is_not_a_coordinator_is_reported(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def answer():
                con, _ = listener.accept()
                with con:
                    con.recv(4096)
                    con.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

            thread = threading.Thread(target=answer)
            thread.start()
            with self.assertRaises(Failed) as caught:
                self.client(f"http://127.0.0.1:{listener.getsockname()[1]}").get("/progress")
            thread.join()
        self.assertIn("it is not a coordinator", str(caught.exception))

    def test_a_port_in_use_is_reported(self):
        self.make(3, length=8)
        self.coordinator()
        code, out, errors = self.run_command("serve", self.path, "--port", str(self.port))
        self.assertEqual((code, out), (1, ""))
        self.assertIn(f"cannot listen on 127.0.0.1, port {self.port}: the port is in use", errors)
        code, _, errors = self.run_command("serve", self.path, "--port", "70000")
        self.assertEqual(code, 2)
        self.assertIn("use a port from 0 to 65535", errors)


class Commands(Case):
    def test_init_add_query_and_verify_work_together(self):
        code, out, _ = self.run_command("init", "pairs.db", "--samples", "6", "--length", "16", "--window", "3", "--batch", "4")
        self.assertEqual(code, 0)
        self.assertIn("6 samples, 15 pairs", out)
        self.assertEqual(self.run_command("init", "pairs.db")[0], 1)
        self.assertIn("added 4 samples and 30 pairs", self.run_command("add", "pairs.db", "--samples", "4")[1])
        code, _, errors = self.run_command("verify", "pairs.db")
        self.assertEqual(code, 1)
        self.assertIn("results: 0 instead of 45", errors)
        served, url = self.serve()
        worker = self.start("work", url, "--name", "w")
        self.assertIn("w: computed 45 pairs", worker.communicate(timeout=20)[0])
        code, out, _ = self.run_command("query", "pairs.db", "1-2", "1,9-10")  # while the coordinator runs
        lines = out.splitlines()
        self.assertEqual(
            (code, lines[0], [line.rpartition(",")[0] for line in lines[1:]]), (0, "a,b,distance", ["1,2", "1,9", "1,10", "2,9", "2,10"])
        )
        served.terminate()
        self.assertEqual(served.wait(20), 0)
        self.assertIn("45 pairs, each there once; 45 computed again", self.run_command("verify", "pairs.db")[1])

    def test_a_wrong_distance_is_found(self):
        self.make(4, length=8, batch_pairs=100)
        con = self.connection()
        con.executescript("INSERT INTO result SELECT a, b, 1e6 FROM pair; UPDATE batch SET done = 1; UPDATE work SET done_pairs = pairs;")
        con.close()
        code, _, errors = self.run_command("verify", "pairs.db")
        self.assertEqual(code, 1)
        self.assertIn("pair (1, 2) has the distance 1000000.0 instead of", errors)

    def test_files_that_are_not_files_of_pairs_are_refused(self):
        (self.dir / "text.db").write_text("text that is long enough to be read as a header " * 50)
        sqlite3.connect(self.dir / "other.db").executescript("CREATE TABLE t(a); INSERT INTO t VALUES (1)").connection.close()
        for name, message in (
            ("missing.db", "missing.db does not exist; create it with `python3 -m pairwise init missing.db`"),
            ("text.db", "file is not a database"),
            ("other.db", "but not a file of pairs"),
        ):
            code, _, errors = self.run_command("serve", name)
            self.assertEqual(code, 1, errors)
            self.assertIn(message, errors)
            self.assertEqual(len(errors.splitlines()), 1, errors)

    def test_a_locked_file_ends_a_command_with_code_3(self):
        self.make(3, length=8)
        other = densite.connect(self.path, isolation_level=None)
        self.addCleanup(other.close)
        other.execute("BEGIN IMMEDIATE")
        code, _, errors = self.run_command("add", "pairs.db", "--samples", "1")
        self.assertEqual(code, 3)
        self.assertIn("database is locked; another program writes to it", errors)

    def test_wrong_usage_ends_with_code_2(self):
        for arguments in ((), ("fly",), ("init", "x.db", "--samples", "1"), ("serve",), ("work", "ftp://x")):
            self.assertEqual(self.run_command(*arguments)[0], 2, arguments)

    @unittest.skipIf(sys.version_info < (3, 10), "sys.stdlib_module_names needs Python 3.10")
    def test_only_the_standard_library_and_densite_are_imported(self):
        # The README states this.
        for file in pathlib.Path(__file__).parent.parent.glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    names.append(node.module)
                for name in names:
                    self.assertIn(name.partition(".")[0], {*sys.stdlib_module_names, "densite"}, file)
