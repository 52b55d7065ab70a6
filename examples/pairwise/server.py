"""The coordinator's HTTP server: sockets, bodies and errors. :mod:`.routes` makes the answers.

It supports HTTP/1.1 with persistent connections, one thread for each. Every error is a JSON object
``{"error": sentence}``.
"""

from __future__ import annotations

import errno
import hmac
import ipaddress
import json
import socket
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Generator, Optional
from urllib.parse import parse_qs, urlsplit

from .errors import Failed, Refused
from .routes import Coordinator, Text

#: The largest body of a request, in bytes.
MOST_BYTES = 8 << 20


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Server(ThreadingHTTPServer):
    """Listens, and passes requests to a coordinator."""

    daemon_threads = True
    # Large enough for many workers that reconnect at once.
    request_queue_size = 128

    def __init__(self, host: str, port: int, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        #: The accepted names in "Host". Numeric addresses are accepted too, because a page of
        #: another site cannot have one as its name.
        self.names = {"localhost", host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                why = "the port is in use, perhaps by another coordinator; end that, or give another port with --port (0: a free port)"
            else:
                why = f"{error.strerror or error}; give another address with --host and --port"
            raise Failed(f"cannot listen on {host}, port {port}: {why}") from None
        except OverflowError:
            raise Failed(f"cannot listen on port {port}: use a port from 0 to 65535", 2) from None

    @property
    def url(self) -> str:
        """The address of the server, with the token."""
        host, port = self.server_address[:2]
        name = f"[{host!s}]" if self.address_family == socket.AF_INET6 else f"{host!s}"
        return f"http://{name}:{port}/?token={self.coordinator.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints errors, except for a client that closes the connection during an answer."""
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError, socket.timeout)):
            print(f"request of {client_address}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    #: A connection without a request is closed after this time, in seconds. Workers open a new one.
    timeout = 60
    # Answers are sent at once and in few packets.
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}

        def ask() -> Any:
            self._check(query.pop("token", ""))
            return self.server.coordinator.get(url.path, query)

        self._answer(ask)

    def do_POST(self) -> None:
        def ask() -> Any:
            self._check("")
            return self.server.coordinator.post(urlsplit(self.path).path, self._body())

        self._answer(ask)

    def _check(self, token: str) -> None:
        """Refuses a request with a foreign name in Host, as from a page of another site whose name
        leads here. Refuses a request without the token, which is in the URL, as for browsers, or in
        the header ``Authorization: Bearer``."""
        try:
            name = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        except ValueError:
            name = ""
        if name not in self.server.names and not _is_address(name):
            self.close_connection = True
            raise Refused(f"this server is not called {name[:80] or 'without a name'}: use the numeric address, or start the coordinator with --host and that name", 421)
        scheme, _, brought = self.headers.get("Authorization", "").partition(" ")
        given = brought.strip() if scheme.lower() == "bearer" else token
        if not hmac.compare_digest(given.encode(), self.server.coordinator.token.encode()):
            self.close_connection = True
            raise Refused("the token is missing or wrong; use the whole address that the coordinator printed at its start", 401)

    def _body(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise Refused("the request has no valid Content-Length; add one", 411)
        # Python does not convert thousands of digits to a number.
        if len(length) > 18 or int(length) > MOST_BYTES:
            self.close_connection = True
            raise Refused(f"a request can have at most {MOST_BYTES:,} bytes, this one has {length:.18}; send less", 413)
        text = self.rfile.read(int(length))
        # A page of another site could make a browser send any other type without asking.
        if self.headers.get_content_type() != "application/json":
            raise Refused("the Content-Type must be application/json", 415)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Refused(f"the request is not valid JSON: {error}") from None

    def _answer(self, ask: Callable[[], Any]) -> None:
        try:
            self._send(200, ask())
        except Refused as refused:
            self._send(refused.status, {"error": str(refused)})
        except sqlite3.OperationalError as error:
            # The file is locked for too long, or there is no space. Nothing was acknowledged, so
            # the client can try again.
            print(f"{self.path}: {error}", file=sys.stderr, flush=True)
            self._send(503, {"error": f"{self.server.coordinator.path}: {error}; try again"}, retry_seconds=1)
        except sqlite3.DatabaseError as error:
            print(f"{self.path}: {error}", file=sys.stderr, flush=True)
            self._send(500, {"error": f"{self.server.coordinator.path}: {error}"})

    def _send(self, status: int, answer: Any, retry_seconds: Optional[int] = None) -> None:
        kind, body = (answer.kind, answer.body) if isinstance(answer, Text) else ("application/json", json.dumps(answer))
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        if retry_seconds is not None:
            self.send_header("Retry-After", str(retry_seconds))
        if isinstance(body, str):
            content = body.encode()
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        else:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._stream(body)
        self.wfile.flush()

    def _stream(self, parts: Generator[str, None, None]) -> None:
        try:
            for part in parts:
                content = part.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
            self.wfile.write(b"0\r\n\r\n")
        except sqlite3.Error as error:
            # The status is already sent, so the answer ends without its last part.
            print(f"{self.path}: {error}", file=sys.stderr, flush=True)
            self.close_connection = True
        finally:
            parts.close()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Does not log requests: there are many, and the page shows the progress."""
