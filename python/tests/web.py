"""A web server for tests: nginx on a free loopback port."""

import os
import shutil
import socket
import subprocess
import time

CONFIGURATION = """daemon off;
master_process off;
pid nginx.pid;
events {{}}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ root {root}; }} }}
}}
"""


def serve(test, root):
    """Starts nginx for the files of ``root`` and stops it after the test, an object of
    :class:`support.Files`. Returns the URL of the directory."""
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if program is None:
        test.skip("nginx is not installed: remote databases are not tested")
    own = test.dir / "nginx"
    own.mkdir()
    for _ in range(5):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (own / "nginx.conf").write_text(CONFIGURATION.format(port=port, root=root))
        server = subprocess.Popen([program, "-p", own, "-c", "nginx.conf", "-e", "error.log"], stderr=subprocess.DEVNULL)
        test.addCleanup(server.wait)
        test.addCleanup(server.kill)
        if listens(server, port):
            return f"http://127.0.0.1:{port}"
    raise AssertionError((own / "error.log").read_text())


def listens(server, port):
    for _ in range(2000):
        if server.poll() is not None:
            return False
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return True
        except OSError:
            time.sleep(0.01)
    return False
