"""A server process: python -m events.server DIRECTORY PORT

It uses the server that comes with Flask, one thread for each request. In production use any other
WSGI server, with any number of processes and threads.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from werkzeug.serving import make_server

from .app import create_app

if __name__ == "__main__":
    directory, port = Path(sys.argv[1]), int(sys.argv[2])
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # does not log each request
    make_server("127.0.0.1", port, create_app(directory), threaded=True).serve_forever()
