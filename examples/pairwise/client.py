"""The HTTP client of the coordinator: JSON over a persistent connection, with retries."""

from __future__ import annotations

import http.client
import json
import random
import time
from typing import Any, Optional
from urllib.parse import parse_qs, urlsplit

from .errors import Failed, Refused

#: The timeout of a request, in seconds. The coordinator waits for a lock for a shorter time.
REQUEST_SECONDS = 30.0


class Client:
    """A client of the coordinator at `url`, which is the URL that the coordinator prints, with its
    token.

    A request without an answer, or with the answer 503, is repeated after 0.05 seconds. The delay
    doubles each time, up to two seconds, until `patience_seconds` have passed without an answer.
    Every request can be sent twice: an extra lease expires, and results count once.
    """

    def __init__(self, url: str, patience_seconds: float = 60.0) -> None:
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if parts.scheme != "http" or not host:
            raise Failed(f"{url} is not the address of a coordinator; give one such as http://127.0.0.1:8765", 2)
        self.url = f"http://{parts.netloc}"
        self._headers = {"Authorization": f"Bearer {parse_qs(parts.query).get('token', [''])[-1]}"}
        self._patience_seconds = patience_seconds
        self._connection = http.client.HTTPConnection(host, port or 80, timeout=REQUEST_SECONDS)

    def get(self, path: str) -> Any:
        """Returns the answer to GET `path`. Errors as for :meth:`post`."""
        return self._call("GET", path, None)

    def post(self, path: str, body: Any) -> Any:
        """Returns the answer to POST `path` with a JSON body.

        Raises:
            Refused: the coordinator refused the request. The message has its reason.
            Failed: there was no answer for `patience_seconds`.
        """
        return self._call("POST", path, json.dumps(body))

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, path: str, body: Optional[str]) -> Any:
        first: Optional[float] = None
        delay = 0.05
        while True:
            try:
                return self._once(method, path, body)
            except (OSError, http.client.HTTPException, _Again) as error:
                self._connection.close()
                now = time.monotonic()
                first = now if first is None else first
                if now - first >= self._patience_seconds:
                    why = str(error) or type(error).__name__
                    raise Failed(
                        f"{self.url} has not answered {method} {path} for {self._patience_seconds:g} seconds ({why}); "
                        "start the coordinator again, then this worker"
                    ) from None
            # A random delay, so that many workers do not repeat their requests at the same moment.
            time.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(2.0, delay * 2)

    def _once(self, method: str, path: str, body: Optional[str]) -> Any:
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        text = response.read()
        try:
            answer = json.loads(text)
        except ValueError:
            raise Failed(f"{self.url} answers {method} {path} without JSON: it is not a coordinator; check the address") from None
        if response.status == 200:
            return answer
        sentence = answer.get("error", text.decode(errors="replace")) if isinstance(answer, dict) else str(answer)
        if response.status == 503:
            raise _Again(sentence)
        raise Refused(sentence, response.status)


class _Again(Exception):
    """The coordinator cannot answer now."""
