"""A real server of NATS with JetStream on free loopback ports, which tests kill and start again."""

import os
import pathlib
import socket
import subprocess

from web import listens

#: Where `make nats-server` installs it, or says why it cannot.
INSTALLED = pathlib.Path(__file__).resolve().parent.parent.parent / "target/nats-server"


class NatsServer:
    """Starts a server and stops it after the test, an object of :class:`support.Files`. It syncs
    each message before it acknowledges it."""

    def __init__(self, test):
        self._own = test.dir / "nats"
        if not (INSTALLED / "bin/nats-server").is_file():
            # A machine without Go cannot have it; anywhere else it is an error where tests must run.
            missing = INSTALLED / "missing"
            if missing.is_file():
                test.skip(missing.read_text(encoding="utf-8").strip())
            if os.environ.get("DENSITE_NO_SKIP"):
                test.fail("there is no nats-server; `make nats-server` installs it")
            test.skip("there is no nats-server; `make nats-server` installs it")
        self._own.mkdir()
        test.addCleanup(self.kill)
        for _ in range(5):
            with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
                self._ports = one.getsockname()[1], two.getsockname()[1]
            if self._is_up():
                return
            self.kill()
        raise AssertionError((self._own / "nats.log").read_text(encoding="utf-8"))

    @property
    def url(self):
        return f"nats://127.0.0.1:{self._ports[0]}"

    @property
    def monitor(self):
        return f"http://127.0.0.1:{self._ports[1]}"

    def kill(self):
        self._process.kill()
        self._process.wait()

    def restart(self):
        """Starts it again after :meth:`kill`, at the same ports and with the same files."""
        if not self._is_up():
            raise AssertionError((self._own / "nats.log").read_text(encoding="utf-8"))

    def _is_up(self):
        port, monitor = self._ports
        (self._own / "nats.conf").write_text(
            f"listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{monitor}\njetstream {{ store_dir: '{self._own / 'store'}', sync_interval: always }}\n",
            encoding="utf-8",
        )
        with open(self._own / "nats.log", "wb") as log:
            self._process = subprocess.Popen([INSTALLED / "bin/nats-server", "-c", self._own / "nats.conf"], stdout=log, stderr=log)
        return all(listens(self._process, port) for port in self._ports)
