"""Attacks that kill a process before each of its calls. They take minutes and belong to
`make foreign`."""

import contextlib
import os
import shutil
import sqlite3
import subprocess

from . import content, files
from .attack import unchanged, wrong


def each_commit_of_both_forms(attack):
    """A transaction over a plain and a Densite database, killed before each call of its commit. Then
    either program is the first to look: both databases have the transaction, or neither."""
    app, plain = f"file:{attack.path}?vfs=densite", f"{attack.folder}/plain.db"
    for mode in ("delete", "persist", "truncate"):
        for main, other in ((app, f"file:{plain}"), (f"file:{plain}", app), (f"file:{plain}?vfs=densite", app), (app, f"file:{plain}?vfs=unix")):
            # The databases of before, once.
            for name in os.listdir(attack.folder):
                os.remove(f"{attack.folder}/{name}")
            made = files.Files(attack.folder, mode, "live, idle")
            made.application.do("close")
            made.end()
            con = sqlite3.connect(plain)
            con.execute("CREATE TABLE o(a)")
            con.commit()
            con.close()
            clean = attack.state("clean")
            calls, call = attack.victim("both", str(1 << 30), main, other, mode, call=0), 0
            while call <= calls:
                call += 1
                shutil.rmtree(attack.folder)
                shutil.copytree(clean, attack.folder)
                attack.victim("both", str(call), main, other, mode, call=call)
                killed = attack.state("killed")
                for order in ("plain first", "Densite first"):
                    # At the same place: journals and super-journals name each other by full paths.
                    shutil.rmtree(attack.folder)
                    shutil.copytree(killed, attack.folder)
                    what = f"{mode}, {os.path.basename(main)} and {os.path.basename(other)}, call {call} of {calls}, {order}"
                    yield from atomic(attack.folder, order, what)
                shutil.rmtree(killed)
            shutil.rmtree(clean)


def atomic(folder, order, what):
    """Looks at both databases in that order."""
    found, looks = {}, {"plain": look_at_plain, "densite": look_at_densite}
    for form in sorted(looks, reverse=order == "plain first"):
        found[form] = looks[form](folder)
    if found["plain"] != found["densite"] or not isinstance(found["plain"], bool):
        yield f"{what}: has the transaction: {found}"


def look_at_plain(folder):
    # Looks at the Densite file, too, as a program does that is shown the wrong file.
    for _ in range(2):
        con = sqlite3.connect(f"{folder}/app.db")
        with contextlib.suppress(sqlite3.DatabaseError):
            con.execute("SELECT count(*) FROM t").fetchone()
        con.close()
        con = sqlite3.connect(f"{folder}/plain.db")
        count = con.execute("SELECT count(*) FROM o").fetchone()[0]
        con.close()
    return count == 1


def look_at_densite(folder):
    con = content.connect(f"{folder}/app.db")
    try:
        if content.wrong(con, content.COMMITTED) is None:
            return False
        return content.wrong(con, content.COMMITTED + 1) or True
    finally:
        con.close()


def each_first_transaction(attack):
    """The first transaction of an empty file, killed before each of its calls. Stock SQLite looks;
    then Densite has all of it or nothing."""
    for mode in files.MODES:
        shutil.rmtree(attack.folder)
        os.makedirs(attack.folder)
        calls, call = attack.victim("first", str(1 << 30), f"file:{attack.path}?vfs=densite", mode, call=0), 0
        # Most calls write pages.
        step = max(1, calls // 60)
        while call <= calls:
            call += 1 if call < 30 or call > calls - 30 else step
            shutil.rmtree(attack.folder)
            os.makedirs(attack.folder)
            attack.victim("first", str(call), f"file:{attack.path}?vfs=densite", mode, call=call)
            what = f"{mode}, call {call} of {calls}"
            before = files.fingerprint(attack.folder)
            if "app.db" not in before:
                continue
            attack.stock(attack.path, "SELECT count(*) FROM t")
            yield from unchanged(before, attack.folder, what)
            con = content.connect(attack.path)
            if con.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                yield from wrong(content.wrong(con, content.COMMITTED), what)
            con.close()


def each_conversion(attack):
    """`compress` and `decompress` in place, killed before each call. Stock SQLite looks first."""
    for verb in ("compress", "decompress"):
        for mode in files.MODES:
            for name in os.listdir(attack.folder):
                os.remove(f"{attack.folder}/{name}")
            if verb == "compress":
                attack.plain(attack.path, mode, "kill")
            else:
                attack.killed_files(mode)
            clean, count = attack.state("clean"), f"{attack.options.dir}/count"
            calls, call = None, 0
            while calls is None or call <= calls:
                shutil.rmtree(attack.folder)
                shutil.copytree(clean, attack.folder)
                environment = dict(os.environ, LD_PRELOAD=attack.options.kill_at, KILL_AT=str(call), COUNT_TO=count)
                command = [attack.options.command, verb, attack.path] + ["--even-if-larger"] * (verb == "compress")
                ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
                if calls is None:
                    with open(count, encoding="utf-8") as file:
                        calls = int(file.read())
                    yield from wrong(ran.stderr if ran.returncode else None, f"{verb}, {mode}")
                what = f"{verb}, {mode}, call {call} of {calls}"
                call += 1
                attack.stock(attack.path, "SELECT count(*) FROM t", "PRAGMA integrity_check")
                con = content.connect(attack.path)
                yield from wrong(content.wrong(con, content.COMMITTED), what)
                con.close()
            shutil.rmtree(clean)
