"""The application and the follower in one process, step by step."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any, List
from unittest import mock

from events.app import create_app
from events.database import connect, create, open_log
from events.follower import Follower


def event(id: str, message: str) -> Any:
    return {"id": id, "at": "2026-01-01T00:00:00Z", "message": message}


class Killed(Exception):
    """The follower ends here."""


class FollowerTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.dir = Path(directory.name)
        create(self.dir)
        self.client = create_app(self.dir).test_client()
        self.events = connect(self.dir / "events.db")
        self.addCleanup(self.events.close)

    def post(self, *events: Any) -> None:
        self.assertEqual(self.client.post("/events", json=events).status_code, 201)

    def apply(self) -> None:
        """Waits until the events are in their table."""
        open_log(self.events).wait(timeout=30)

    def follower(self) -> Follower:
        follower = Follower(self.dir)
        self.addCleanup(follower.close)
        return follower

    def found(self, words: str) -> List[str]:
        answer = self.client.get("/search", query_string={"q": words})
        self.assertEqual(answer.status_code, 200)
        return sorted(event["id"] for event in answer.get_json()["found"])

    def test_the_index_has_earlier_and_later_events(self) -> None:
        self.post(event("a", "red fox"), event("b", "grey fox"))
        self.apply()
        follower = self.follower()
        self.assertEqual(self.found("fox"), ["a", "b"])
        self.post(event("c", "Fox AND hare"))
        self.apply()
        self.assertEqual(follower.step(), 1)
        self.assertEqual(self.found("fox"), ["a", "b", "c"])
        self.assertEqual(self.found("fox and"), ["c"])

    def test_an_event_that_comes_twice_is_there_once(self) -> None:
        follower = self.follower()
        self.post(event("a", "first"))
        self.post(event("a", "second"), event("b", "second"))
        self.apply()
        follower.step()
        self.assertEqual((self.found("first"), self.found("second")), (["a"], ["b"]))

    def test_the_index_follows_updates_and_deletes(self) -> None:
        follower = self.follower()
        self.post(event("a", "red fox"), event("b", "grey fox"), event("c", "fox"))
        self.apply()
        self.events.execute("UPDATE event SET message = 'hare' WHERE id = 'a'")
        self.events.execute("UPDATE event SET number = number + 100 WHERE id = 'b'")
        self.events.execute("DELETE FROM event WHERE id = 'c'")
        self.assertEqual(follower.step(), 6)
        self.assertEqual((self.found("fox"), self.found("hare")), (["b"], ["a"]))

    def test_changes_are_applied_after_a_kill_before_their_commit(self) -> None:
        follower = self.follower()
        self.post(event("a", "fox"))
        self.apply()
        with mock.patch("events.follower._apply", side_effect=Killed), self.assertRaises(Killed):
            follower.step()
        follower.close()
        self.assertEqual(self.follower().step(), 1)
        self.assertEqual(self.found("fox"), ["a"])

    def test_changes_are_applied_once_after_a_kill_before_their_acknowledgement(self) -> None:
        follower = self.follower()
        self.post(event("a", "fox"))
        self.apply()
        with mock.patch.object(follower, "_acknowledge", side_effect=Killed), self.assertRaises(Killed):
            follower.step()
        self.assertEqual(self.follower().step(), 0)
        self.assertEqual(self.found("fox"), ["a"])

    def test_a_copy_that_was_killed_between_its_commits_is_made_again(self) -> None:
        self.post(event("a", "fox"))
        self.apply()
        # What the first commit has left.
        self.events.execute("SELECT densite_changes_subscribe('search')")
        self.post(event("b", "fox"))
        self.apply()
        self.assertEqual(self.follower().step(), 0)
        self.assertEqual(self.found("fox"), ["a", "b"])

    def test_bad_requests_are_refused_and_add_nothing(self) -> None:
        bodies: List[Any] = [{}, [1], [{"id": "a"}], [{**event("a", "x"), "more": "y"}], [event("a", "x"), event("b", "\ud800")]]
        for body in bodies:
            answer = self.client.post("/events", json=body)
            self.assertEqual((answer.status_code, list(answer.get_json())), (400, ["error"]), body)
        self.assertEqual(self.client.get("/search?q=%22").status_code, 400)
        self.apply()
        self.assertEqual(self.events.execute("SELECT count(*) FROM event").fetchone(), (0,))


if __name__ == "__main__":
    unittest.main()
