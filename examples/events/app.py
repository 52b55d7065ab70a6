"""The web application.

- ``POST /events`` takes a list of events: ``[{"id": …, "at": …, "message": …}]``. The answer 201
  means that all of them are durable. After any other answer, or none, send them again with the same
  ids: an id that is there already is skipped.
- ``GET /search?q=words`` answers with the events that contain all the words, the best first.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any, Tuple

import densite
from flask import Flask, request

from .database import Pool, connect, open_log

FIELDS = {"id", "at", "message"}

Answer = Tuple[Any, int]


def create_app(directory: Path) -> Flask:
    """The application for the files in `directory`. Open connections do not survive a fork, so call
    this in each server process."""
    app = Flask(__name__)
    logs: Pool[densite.Ingest] = Pool(lambda: open_log(connect(directory / "events.db")))
    indexes: Pool[sqlite3.Connection] = Pool(lambda: connect(directory / "search.db"))

    @app.post("/events")
    def add() -> Answer:
        events = request.get_json()
        if not isinstance(events, list) or not all(map(_is_event, events)):
            return {"error": 'send a list of events: [{"id": "…", "at": "…", "message": "…"}]'}, 400
        with logs.lend() as log:
            log.append(events)  # durable when it returns
        return {"added": len(events)}, 201

    @app.get("/search")
    def search() -> Answer:
        words = re.findall(r"\w+", request.args.get("q", ""))
        if not words:
            return {"error": "q has no words; ask for /search?q=some+words"}, 400
        query = " ".join(f'"{word}"' for word in words)
        with indexes.lend() as index:
            found = index.execute("SELECT id, at, message FROM event_text(?) ORDER BY rank LIMIT 20", [query]).fetchall()
        return {"found": [{"id": id, "at": at, "message": message} for id, at, message in found]}, 200

    @app.errorhandler(sqlite3.DataError)
    def refused(error: sqlite3.DataError) -> Answer:
        """A text that cannot be stored. None of the events is in the log."""
        return {"error": str(error)}, 400

    @app.errorhandler(sqlite3.OperationalError)
    def unavailable(error: sqlite3.OperationalError) -> Answer:
        """The disk is full, or a lock was held for too long. None of the events is in the log."""
        return {"error": f"{error}; try again"}, 503

    return app


def _is_event(event: Any) -> bool:
    return isinstance(event, dict) and event.keys() == FIELDS and all(isinstance(value, str) for value in event.values())
