"""A real server of NATS, and a client for the bare publish."""

import json
import os
import socket
import subprocess
import time
import urllib.request


def until(true, seconds, pause=0.001):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"nothing happened for {seconds} s")
        time.sleep(pause)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server:
    """nats-server with JetStream, which syncs each message before it acknowledges it."""

    def __init__(self, program, folder):
        self.port, monitor = free_port(), free_port()
        config = os.path.join(folder, "nats.conf")
        with open(config, "w") as out:
            out.write(f'listen: 127.0.0.1:{self.port}\nhttp: 127.0.0.1:{monitor}\njetstream {{ store_dir: "{folder}/store", sync_interval: always }}\n')
        self.process = subprocess.Popen([program, "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self.listens, 20)
        self.url, self.monitor = f"nats://127.0.0.1:{self.port}/BENCH", f"http://127.0.0.1:{monitor}"

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        except OSError:
            return False

    def about(self):
        """What the server says of itself: its version, and how many messages clients sent and got."""
        with urllib.request.urlopen(f"{self.monitor}/varz", timeout=20) as answer:
            return json.load(answer)

    def close(self):
        self.process.terminate()
        self.process.wait()


class Client:
    """Requests in the protocol of NATS, for the bare publish."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        self.file.readline()
        self.socket.sendall(b'CONNECT {"verbose":false}\r\nSUB inbox 1\r\n')

    def request(self, subject, body):
        self.socket.sendall(b"PUB %s inbox %d\r\n%s\r\n" % (subject.encode(), len(body), body))
        while True:
            line = self.file.readline()
            if line.startswith(b"MSG"):
                answer = json.loads(self.file.read(int(line.split()[-1]) + 2))
                if "error" in answer:
                    raise SystemExit(f"nats-server: {answer['error']}")
                return answer
            if line.startswith(b"PING"):
                self.socket.sendall(b"PONG\r\n")
