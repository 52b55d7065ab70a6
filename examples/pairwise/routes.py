"""The requests of the coordinator, as listed in README.md. Each has one method."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional, Tuple, Union

import densite

from . import distances, leases, page, results
from .errors import Refused
from .histogram import Cached
from .progress import progress
from .series import unpacked
from .store import Store

_NAME = re.compile(r"[\w.:@-]{1,64}")
_LEASE = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})", re.ASCII)
#: The number of rows in one part of a streamed answer.
_ROWS = 4096


class Text(NamedTuple):
    """An answer that is not JSON made of a value: one text, or parts that are streamed."""

    kind: str
    body: Union[str, Generator[str, None, None]]


class Coordinator:
    """Answers requests from a file of pairs. It keeps no state in memory that another coordinator
    on the same file would need."""

    def __init__(self, store: Store, lease_seconds: float) -> None:
        self.path = store.path
        self.lease_seconds = lease_seconds
        self._store = store
        self._histogram = Cached()
        with store.connection() as con:
            #: The token that every request must have. It is in the file, so that workers can
            #: continue with the next coordinator.
            self._window, self.token = con.execute("SELECT window, token FROM work").fetchone()
            #: The number of batches whose results were stored, but not noted as done.
            self.recovered = leases.recover(con)

    def get(self, path: str, query: Dict[str, str]) -> Any:
        """Returns the answer to GET `path`.

        Raises:
            Refused, sqlite3.DatabaseError: the server answers with 4xx and 5xx.
        """
        routes: Dict[str, Callable[[Dict[str, str]], Any]] = {
            "/": self._page,
            "/progress": self._progress,
            "/samples": self._samples,
            "/distances": self._distances,
        }
        if path not in routes:
            raise Refused(f"GET {path}: no such request; use one of {', '.join(routes)}", 404)
        return routes[path](query)

    def post(self, path: str, body: Any) -> Any:
        """Returns the answer to POST `path`. Errors as for :meth:`get`."""
        routes: Dict[str, Callable[[Any, str], Any]] = {"/lease": self._lease, "/renew": self._renew, "/results": self._results}
        if path not in routes:
            raise Refused(f"POST {path}: no such request; use one of {', '.join(routes)}", 404)
        if not isinstance(body, dict):
            raise Refused("the request must be a JSON object")
        worker = body.get("worker")
        if not isinstance(worker, str) or not _NAME.fullmatch(worker):
            raise Refused('"worker" must be a name of 1 to 64 letters, digits and .:@_-')
        return routes[path](body, worker)

    def _lease(self, _body: Any, worker: str) -> Any:
        with self._store.connection() as con:
            got = leases.take(con, worker, self.lease_seconds)
        if isinstance(got, leases.Nothing):
            return {"finished": got.finished, "wait": got.wait}
        return {"lease": got.name, "seconds": self.lease_seconds, "window": self._window, "pairs": got.pairs}

    def _renew(self, body: Any, worker: str) -> Any:
        with self._store.connection() as con:
            why_not = leases.renew(con, _lease_named(body), worker, self.lease_seconds)
        return {"renewed": why_not is None, "note": why_not}

    def _results(self, body: Any, worker: str) -> Any:
        with self._store.connection() as con:
            return results.deliver(con, _lease_named(body), worker, body.get("results"))._asdict()

    def _progress(self, _query: Dict[str, str]) -> Any:
        with self._store.connection() as con:
            return progress(con, self.path).to_json()

    def _page(self, _query: Dict[str, str]) -> Any:
        with self._store.connection() as con:
            return Text("text/html", page.render(progress(con, self.path), self._histogram.get(con), self.path))

    def _samples(self, query: Dict[str, str]) -> Any:
        with self._store.connection() as con:
            wanted = {"id": distances.samples_of(con, _set(query, "ids"))}
            rows = densite.query(con, "SELECT id, series FROM keys JOIN sample USING (id)", keys=wanted)
            return {str(number): unpacked(blob) for number, blob in rows}

    def _distances(self, query: Dict[str, str]) -> Any:
        with self._store.connection() as con:
            left, right = (distances.samples_of(con, _set(query, side)) for side in ("left", "right"))
        distances.check(left, right)
        return Text("application/json", self._rows(left, right))

    def _rows(self, left: List[int], right: List[int]) -> Generator[str, None, None]:
        with self._store.connection() as con, distances.between(con, left, right) as result:
            yield '{"columns": ["a", "b", "distance"], "rows": ['
            before = ""
            while rows := result.fetchmany(_ROWS):
                yield before + json.dumps(rows)[1:-1]
                before = ", "
            yield "]}"


def _lease_named(body: Any) -> Tuple[int, int]:
    name: Optional[Any] = body.get("lease")
    match = _LEASE.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise Refused('"lease" must be the name of a lease from POST /lease')
    return int(match.group(1)), int(match.group(2))


def _set(query: Dict[str, str], name: str) -> str:
    if name not in query:
        raise Refused(f"{name}= is missing; give samples, for example {name}=1-50,77,sine")
    return query[name]
