"""Another copy of the library in the same process, for example that of the .deb."""

import os
import shutil
import sqlite3
import subprocess
import sys

import densite
from support import Files

PROGRAM = """
import sqlite3, sys
import densite

path, copy, order, way = sys.argv[1:]

def load():
    con = sqlite3.connect(":memory:")
    con.enable_load_extension(True)
    if way == "select":
        con.execute("SELECT load_extension(?)", (copy,)).fetchall()
        con.execute("SELECT load_extension(?)", (densite.library_path(),)).fetchall()
    else:
        con.load_extension(copy)
    con.close()

if order == "copy first":
    load()
con = densite.connect(path)
con.execute("CREATE TABLE t(a, b)")
load()
for n in range(3):
    other = densite.connect(path)
    assert densite.insert(other, "t", {"a": [1, 2], "b": [3, 4]}) == 2
    other.commit()
    other.close()
    load()
assert con.execute("SELECT count(*) FROM t").fetchone() == (6,)
assert densite.check(path)["ok"]
(library,) = con.execute("SELECT densite_library()").fetchone()
assert (library == copy) == (order == "copy first"), library
"""


class Copies(Files):
    def test_the_first_copy_serves_the_package_and_all_connections(self):
        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            self.skip("this Python cannot load extensions")
        copy = self.dir / "libdensite.so"
        shutil.copy(densite.library_path(), copy)
        environment = {**os.environ, "DENSITE_LIBRARY": densite.library_path(), "PYTHONPATH": os.pathsep.join(sys.path)}
        for order in ("copy first", "package first"):
            for way in ("select", "call"):
                with self.subTest(order=order, way=way):
                    path = self.dir / f"{order}-{way}.db"
                    ran = subprocess.run(
                        [sys.executable, "-c", PROGRAM, str(path), str(copy), order, way], env=environment, capture_output=True, text=True
                    )
                    self.assertEqual((ran.returncode, ran.stderr), (0, ""))
