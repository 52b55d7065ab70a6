"""The servers and the follower as processes, and a client."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple
from urllib.parse import quote

from events.database import create


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Site:
    """Processes by name. Each can be killed and started again."""

    def __init__(self, directory: Path, servers: int) -> None:
        self._directory = directory
        create(directory / "data")
        self.ports = [free_port() for _ in range(servers)]
        self._commands = {f"server {port}": ["events.server", str(directory / "data"), str(port)] for port in self.ports}
        self._commands["follower"] = ["events.follower", str(directory / "data")]
        self._running: Dict[str, "subprocess.Popen[bytes]"] = {}
        for name in self._commands:
            self.start(name)

    @property
    def names(self) -> List[str]:
        return list(self._commands)

    def _output(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def start(self, name: str) -> None:
        with open(self._output(name), "ab") as output:
            self._running[name] = subprocess.Popen([sys.executable, "-m", *self._commands[name]], stdout=output, stderr=output, env=os.environ)

    def kill(self, name: str) -> None:
        """Kills a process with SIGKILL.

        Raises:
            AssertionError: it has ended by itself. The message has its output.
        """
        process = self._running.pop(name)
        ended = process.poll()
        process.kill()
        process.wait()
        if ended is not None:
            raise AssertionError(f"{name} ended with code {ended}: {self._output(name).read_text(errors='replace')}")

    def close(self) -> None:
        """Kills all processes."""
        for name in list(self._running):
            self.kill(name)

    def wait_for_servers(self, seconds: float) -> None:
        """Waits until all servers answer."""
        end = time.monotonic() + seconds
        for port in self.ports:
            while (answer := request(port, "GET", "/search?q=x")) is None or answer[0] != 200:
                if time.monotonic() > end:
                    raise AssertionError(f"the server on port {port} does not answer: {answer}")
                time.sleep(0.05)


def post(port: int, events: List[Dict[str, str]]) -> Optional[Tuple[int, Any]]:
    return request(port, "POST", "/events", json.dumps(events))


def search(port: int, words: str) -> Optional[Tuple[int, Any]]:
    return request(port, "GET", f"/search?q={quote(words)}")


def request(port: int, method: str, path: str, body: Optional[str] = None) -> Optional[Tuple[int, Any]]:
    """The status and the JSON of the answer, or None if there is no complete answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
