"""Servers and follower are killed at random moments: no acknowledged event is lost or doubled, and
the index is equal to the table.

The test prints its seed. EVENTS_SEED=seed repeats its choices; the moments differ.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
import unittest
from contextlib import closing
from pathlib import Path
from typing import Dict, List, Tuple

from events.database import connect, open_log

from .site import Site, post, search

SERVERS, CLIENTS = 4, 4
KILLING_SECONDS = 12.0
SOON = 30.0  # how long the test waits for anything else

Events = List[Dict[str, str]]


class Client(threading.Thread):
    """Sends lists of events, each until it is acknowledged, to random servers. Gives up sometimes."""

    def __init__(self, name: str, ports: List[int], rng: random.Random, stop: threading.Event) -> None:
        super().__init__(name=name)
        self._ports, self._rng, self._stop_sending = ports, rng, stop
        self.acknowledged: List[Events] = []
        self.given_up: List[Events] = []
        self.retries = 0

    def run(self) -> None:
        number = 0
        while not self._stop_sending.is_set():
            events = []
            for _ in range(self._rng.randint(1, 3)):
                number += 1
                events.append({"id": f"{self.name}-{number}", "at": str(time.time()), "message": f"{self.name} sends event{number}"})
            self._send(events)

    def _send(self, events: Events) -> None:
        end = time.monotonic() + SOON
        while time.monotonic() < end:
            answer = post(self._rng.choice(self._ports), events)
            if answer is not None and answer[0] == 201:
                self.acknowledged.append(events)
                if self._rng.random() < 0.05:
                    post(self._rng.choice(self._ports), events)  # as if the answer had been lost
                return
            if self._rng.random() < 0.1:
                break
            self.retries += 1
            time.sleep(0.05)
        self.given_up.append(events)


class Kill(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.site = Site(Path(directory.name), SERVERS)
        self.addCleanup(self.site.close)
        self.data = Path(directory.name) / "data"
        self.seed = int(os.environ.get("EVENTS_SEED") or random.randrange(1 << 32))
        print(f"EVENTS_SEED={self.seed}", flush=True)

    def kill_for(self, seconds: float) -> int:
        """Kills one process after the other, sometimes all of them at once. Returns how many."""
        rng = random.Random(self.seed)
        killed = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(rng.uniform(0, 1))
            names = self.site.names if rng.random() < 0.1 else [rng.choice([*self.site.names, "follower"])]
            for name in names:
                self.site.kill(name)
            for name in names:
                self.site.start(name)
            killed += len(names)
        return killed

    def test_each_acknowledged_event_is_in_table_and_index_once(self) -> None:
        stop = threading.Event()
        clients = [Client(f"client{number}", self.site.ports, random.Random(self.seed + number), stop) for number in range(CLIENTS)]
        self.site.wait_for_servers(SOON)
        for client in clients:
            client.start()
        try:
            killed = self.kill_for(KILLING_SECONDS)
        finally:
            stop.set()
            for client in clients:
                client.join()
        self.site.wait_for_servers(SOON)

        acknowledged = [events for client in clients for events in client.acknowledged]
        given_up = [events for client in clients for events in client.given_up]
        retries = sum(client.retries for client in clients)
        print(f"{killed} kills, {len(acknowledged)} acknowledged, {len(given_up)} given up, {retries} retries", flush=True)
        self.assertGreater(len(acknowledged), 10)
        self.assertGreater(retries + len(given_up), 0)

        with closing(connect(self.data / "events.db")) as con:
            log = open_log(con)
            log.wait(timeout=SOON)
            self.assertEqual(log.rejects(), [])
            table = con.execute("SELECT number, id, at, message FROM event ORDER BY number").fetchall()
        stored = [{"id": id, "at": at, "message": message} for _, id, at, message in table]
        self.check_table(stored, acknowledged, given_up)
        self.check_index(table)
        sought = acknowledged[-1][-1]
        self.assertEqual(search(self.site.ports[0], sought["message"]), (200, {"found": [sought]}))

    def check_table(self, stored: Events, acknowledged: List[Events], given_up: List[Events]) -> None:
        """Each acknowledged list is there once. Each other list is there once or not at all."""
        by_id = {event["id"]: event for event in stored}
        self.assertEqual(len(by_id), len(stored))
        for events in acknowledged:
            self.assertEqual([by_id.pop(event["id"], None) for event in events], events)
        for events in given_up:
            self.assertIn([by_id.pop(event["id"], None) for event in events], (events, [None] * len(events)))
        self.assertEqual(by_id, {})

    def check_index(self, table: List[Tuple[int, str, str, str]]) -> None:
        """The index becomes equal to the table, and its words match its rows."""
        with closing(connect(self.data / "search.db")) as con:
            end = time.monotonic() + SOON
            while (index := con.execute("SELECT rowid, id, at, message FROM event_text ORDER BY rowid").fetchall()) != table:
                self.assertLess(time.monotonic(), end, f"the index has {len(index)} rows, the table {len(table)}")
                time.sleep(0.05)
            con.execute("INSERT INTO event_text(event_text) VALUES ('integrity-check')")


if __name__ == "__main__":
    unittest.main()
