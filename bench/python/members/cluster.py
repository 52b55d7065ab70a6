"""Three members of a stream, and a database without one, in a folder."""

import json
import os

from members.process import SCHEMA, Child, opened
from members.server import Server

NAMES = ("a", "b", "c")


class Cluster:
    """A server; with `start`, also a process for each member."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.server = Server(options.server, folder)
        self.children = []

    def path(self, name):
        return os.path.join(self.folder, f"{name}.db")

    def join(self, con, name):
        settings = json.dumps({"origin": name, "monitor": [self.server.monitor]})
        con.execute("SELECT densite_join(?, ?)", (self.server.url, settings)).fetchone()

    def child(self, what, name):
        child = Child(what, self.path(name))
        self.children.append(child)
        return child

    def start(self):
        """Empty members, and an empty database that is none. `writer` and `others` are the processes
        of the members, `alone` writes to the other database."""
        first = opened(self.path(NAMES[0]))
        first.execute(SCHEMA)
        first.execute("VACUUM INTO ?", (self.path("alone"),))
        self.join(first, NAMES[0])
        for name in NAMES[1:]:
            first.execute("VACUUM INTO ?", (self.path(name),))
            con = opened(self.path(name))
            self.join(con, name)
            con.close()
        first.close()
        self.writer, self.alone = self.child("write", NAMES[0]), self.child("write", "alone")
        self.others = [self.child("read", name) for name in NAMES[1:]]

    def finish(self):
        """All members have all rows. Returns how many there are."""
        self.writer.ask(settle=True)
        last = self.writer.answer()["last"]
        for other in self.others:
            other.ask(until=last)
        for other in self.others:
            other.answer()
        return last

    def close(self):
        for child in self.children:
            child.close()
        self.server.close()
