"""What else can happen to a Densite file from outside: other names of it, files of others beside it,
the moment in which an empty file becomes a database. Each attack gets a new folder and yields what
is wrong."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import time
import traceback

import densite

from . import content, files, kills
from .attack import Attack, refused, unchanged, wrong
from .programs import HERE

#: An account without rights.
NOBODY = 65534


def symlinks_and_hard_links(attack):
    for mode in files.MODES:
        for how, link in (("symlink", os.symlink), ("hard link", os.link)):
            attack.killed_files(mode)
            other = f"{attack.folder}/other-name.db"
            link(attack.path, other)
            before = files.fingerprint(attack.folder)
            for statement in ("SELECT count(*) FROM t", "VACUUM", "PRAGMA journal_mode=delete", "CREATE TABLE x(a)"):
                yield from refused(attack.stock(other, statement), f"{mode}, {how}, {statement}")
            yield from unchanged(before, attack.folder, f"{mode}, {how}")
            # SQLite resolves a symlink before it makes the names of the companions.
            yield from wrong(attack.verify(other if how == "symlink" else attack.path), f"{mode}, {how}")


def renamed_databases(attack):
    for mode in files.MODES:
        attack.killed_files(mode)
        moved = f"{attack.folder}/moved.db"
        for name in os.listdir(attack.folder):
            os.rename(f"{attack.folder}/{name}", f"{attack.folder}/{name.replace('app.db', 'moved.db')}")
        before = files.fingerprint(attack.folder)
        yield from refused(attack.stock(moved, "DELETE FROM t"), f"{mode}, renamed")
        yield from unchanged(before, attack.folder, f"{mode}, renamed")
        yield from wrong(attack.verify(moved), f"{mode}, renamed with its companions")
    # Without its companions the database is what was last checkpointed.
    attack.killed_files("wal")
    os.rename(attack.path, moved)
    yield from refused(attack.stock(moved, "VACUUM"), "renamed alone")
    yield from wrong(attack.verify(moved, content.COMMITTED // 2), "renamed without its WAL")
    # A new database under the old name has nothing to do with the WAL that stayed.
    con = sqlite3.connect(attack.path, isolation_level=None)
    con.execute("CREATE TABLE o(a)")
    con.close()
    yield from wrong(attack.stock(attack.path, "SELECT count(*) FROM o")[1], "a plain database beside a WAL of Densite")


def read_only_directories(attack):
    """By an account without rights. It can read all, and write nothing."""
    user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    if os.getuid() or not shutil.which("setpriv"):
        user = ()
    for mode in files.MODES:
        for state in ("killed, idle", "killed, writing"):
            attack.killed_files(mode, state)
            os.chmod(attack.folder, 0o555)
            before = files.fingerprint(attack.folder)
            for options in ("", "?mode=ro", "?immutable=1"):
                yield from refused(attack.stock(f"file:{attack.path}{options}" if options else attack.path, "SELECT count(*) FROM t", user=user), f"{mode}, {state}, read-only folder")
            yield from unchanged(before, attack.folder, f"{mode}, {state}, read-only folder")
            os.chmod(attack.folder, 0o755)
            yield from wrong(attack.verify(), f"{mode}, {state}, read-only folder")


def vacuum_into(attack):
    """From a connection with databases of both forms, in both directions."""
    attack.killed_files("wal")
    plain = f"{attack.folder}/plain.db"
    attack.plain(plain, "wal", "commit")
    densite.attach()
    for main, other in ((f"file:{plain}", f"file:{attack.path}?vfs=densite"), (f"file:{attack.path}?vfs=densite", f"file:{plain}?vfs=unix")):
        con = sqlite3.connect(main, uri=True, isolation_level=None)
        con.execute("ATTACH ? AS b", (other,))
        for schema in ("main", "b"):
            copy = f"{attack.folder}/copy-{schema}.db"
            con.execute(f"VACUUM {schema} INTO '{copy}'")
            is_plain = (schema == "main") == (main == f"file:{plain}")
            yield from wrong(attack.verify(copy, content.COMMITTED + is_plain), f"VACUUM {schema} INTO from {main}")
            os.remove(copy)
        con.close()
    yield from wrong(attack.verify(), "after VACUUM INTO")


def plain_files_through_the_vfs(attack):
    """Plain files have SQLite's names: whoever is killed, the other recovers."""
    for mode in files.MODES:
        for how in ("commit", "kill"):
            wanted = content.COMMITTED + (how == "commit")
            for killed, looks in (("densite", "unix"), ("unix", "densite")):
                for name in os.listdir(attack.folder):
                    os.remove(f"{attack.folder}/{name}")
                attack.plain(attack.path, mode, "kill")
                sqlite3.connect(attack.path).execute("SELECT count(*) FROM t").fetchone()
                con = sqlite3.connect(attack.path)
                con.execute(f"PRAGMA journal_mode={mode}")
                con.close()
                attack.victim("plain", f"file:{attack.path}?vfs={killed}", mode, how)
                own = [name for name in os.listdir(attack.folder) if name.endswith(("-dwal", "-djournal"))]
                yield from wrong(", ".join(own), f"{mode}, plain file, killed through {killed}")
                con = sqlite3.connect(f"file:{attack.path}?vfs={looks}", uri=True)
                yield from wrong(content.wrong(con, wanted), f"{mode}, plain file, killed through {killed}, {how}")
                con.close()


def foreign_companions(attack):
    """A journal or WAL of a plain database lies beside a Densite file. It is unknown which of both
    is right: Densite plays nothing, refuses the database, and names the file."""
    for mode, ending in (("wal", "-wal"), ("delete", "-journal")):
        for state in files.STATES[2:]:
            for own_mode in files.MODES:
                attack.killed_files(own_mode, state)
                attack.plain(f"{attack.folder}/old.db", mode, "kill")
                foreign = attack.path + ending
                os.rename(f"{attack.folder}/old.db{ending}", foreign)
                what = f"{own_mode}, {state}, foreign {ending}"
                before = files.fingerprint(attack.folder)
                said_by_densite = attack.verify()
                if not said_by_densite or f"{foreign} is beside it" not in said_by_densite:
                    yield f"{what}: Densite did not refuse: {said_by_densite}"
                message = subprocess.run([attack.options.command, "sql", attack.path, "SELECT 1 FROM t"], capture_output=True, text=True, check=False)
                if message.returncode == 0 or foreign not in message.stderr:
                    yield f"{what}: the message does not name the file: {message.stderr}"
                for verb in ("info", "check", "decompress", "vacuum", "publish"):
                    extra = [f"{attack.folder}/out.db"] if verb in ("decompress", "publish") else []
                    subprocess.run([attack.options.command, verb, attack.path, *extra], capture_output=True, stdin=subprocess.DEVNULL, check=False)
                with contextlib.suppress(FileNotFoundError):
                    os.remove(f"{attack.folder}/out.db")
                yield from unchanged(before, attack.folder, what)
                os.remove(foreign)
                yield from wrong(attack.verify(), f"{what}, moved away")


def files_of_an_earlier_build(attack):
    """It used SQLite's names. The message says how to go on; then every row is there."""
    for mode in files.MODES:
        for state in files.STATES[2:]:
            attack.killed_files(mode, state)
            hot = False
            for name in os.listdir(attack.folder):
                if name.endswith(("-dwal", "-djournal")):
                    os.rename(f"{attack.folder}/{name}", f"{attack.folder}/{name.replace('-d', '-')}")
                    hot = mode == "wal" or state.endswith("writing")
            answer = attack.verify()
            if not hot:
                yield from wrong(answer, f"{mode}, {state}, of an earlier build")
                continue
            yield from [] if answer else [f"{mode}, {state}, of an earlier build: not refused"]
            for name in os.listdir(attack.folder):
                if name.endswith(("-wal", "-journal")):
                    os.rename(f"{attack.folder}/{name}", f"{attack.folder}/{name.replace('-', '-d')}")
            yield from wrong(attack.verify(), f"{mode}, {state}, of an earlier build, renamed")


def companions_of_densite_beside_plain_files(attack):
    """They are of a database that had the name before: no program plays them."""
    for mode in ("wal", "delete"):
        attack.killed_files(mode)
        os.remove(attack.path)
        attack.plain(attack.path, "delete", "commit")
        for vfs in ("unix", "densite"):
            con = sqlite3.connect(f"file:{attack.path}?vfs={vfs}", uri=True)
            yield from wrong(content.wrong(con, content.COMMITTED + 1), f"plain file beside Densite's {mode}, {vfs}")
            con.close()


def an_empty_file_becomes_a_database(attack):
    """A connection through Densite has the empty file open while another program makes it a plain
    database; then both write."""
    for mode in files.MODES:
        open(attack.path, "w", encoding="utf-8").close()
        con = content.connect(attack.path)
        con.execute("SELECT * FROM sqlite_master").fetchall()
        yield from wrong(attack.stock(attack.path, f"PRAGMA journal_mode={mode}", "CREATE TABLE o(a)", "INSERT INTO o VALUES (1)")[1], f"{mode}, stock makes the database")
        con.execute("INSERT INTO o VALUES (2)")
        if mode == "wal":
            yield from [] if os.path.exists(attack.path + "-wal") else [f"{mode}: the plain file has no -wal"]
        yield from wrong(attack.stock(attack.path, "INSERT INTO o VALUES (3)")[1], f"{mode}, stock writes")
        rows = con.execute("SELECT a FROM o ORDER BY a").fetchall()
        yield from [] if rows == [(1,), (2,), (3,)] else [f"{mode}: {rows}"]
        con.close()
        names = [name for name in os.listdir(attack.folder) if "-d" in name]
        yield from wrong(", ".join(names), f"{mode}, names of Densite beside a plain file")
        for name in os.listdir(attack.folder):
            os.remove(f"{attack.folder}/{name}")


def an_open_connection_of_stock_sqlite(attack):
    """It has the empty file open while Densite makes the database, and then writes."""
    for mode in files.MODES:
        for name in os.listdir(attack.folder):
            os.remove(f"{attack.folder}/{name}")
        stock = sqlite3.connect(attack.path, isolation_level=None)
        stock.execute("SELECT * FROM sqlite_master").fetchall()
        con = content.connect(attack.path)
        con.execute(f"PRAGMA journal_mode={mode}")
        con.execute("PRAGMA wal_autocheckpoint=0")
        con.execute(content.SCHEMA)
        for n in range(content.COMMITTED):
            content.run(con, n)
        before = files.fingerprint(attack.folder)
        for statement in ("CREATE TABLE x(a)", "PRAGMA journal_mode=wal", "VACUUM", "PRAGMA user_version=3"):
            try:
                stock.execute(statement)
                yield f"{mode}: {statement} of a stock connection that had the empty file open succeeds"
            except sqlite3.DatabaseError:
                pass
        stock.close()
        yield from unchanged(before, attack.folder, f"{mode}, stock connection to the empty file")
        yield from wrong(content.wrong(con, content.COMMITTED), f"{mode}, stock connection to the empty file")
        con.close()


def companions_opened_as_databases(attack):
    for mode in files.MODES:
        for state in files.STATES[2:]:
            attack.killed_files(mode, state)
            before = files.fingerprint(attack.folder)
            for name in before:
                # Any program makes an empty file a database.
                if name != "app.db" and os.path.getsize(f"{attack.folder}/{name}"):
                    for statement in ("SELECT count(*) FROM t", "CREATE TABLE x(a)", "VACUUM", "PRAGMA journal_mode=wal"):
                        yield from refused(attack.stock(f"{attack.folder}/{name}", statement), f"{mode}, {state}, {name}, {statement}")
            yield from unchanged(before, attack.folder, f"{mode}, {state}, companions as databases")
            yield from wrong(attack.verify(), f"{mode}, {state}, companions as databases")


def foreign_companions_beside_a_live_file(attack):
    """A WAL or a hot journal of a plain database comes while the application has the file open."""
    for mode in files.MODES:
        for state in files.STATES[:2]:
            for foreign_mode, ending in (("wal", "-wal"), ("delete", "-journal")):
                # SQLite plays such a file into any database on which no process holds a lock.
                if mode != "wal" and state == "live, idle":
                    continue
                live = files.Files(attack.folder, mode, state)
                try:
                    live.stop()
                    attack.plain(f"{attack.options.dir}/old.db", foreign_mode, "kill")
                    os.rename(f"{attack.options.dir}/old.db{ending}", attack.path + ending)
                    before = files.fingerprint(attack.folder)
                    for statement in ("SELECT count(*) FROM t", "INSERT INTO t VALUES (-1, 0, 'foreign')", "PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM"):
                        attack.stock(attack.path, statement)
                    what = f"{mode}, {state}, foreign {ending} comes"
                    yield from unchanged(before, attack.folder, what)
                    yield from wrong(live.go_on(), what)
                finally:
                    live.end()
                    for name in os.listdir(attack.options.dir):
                        if name.startswith("old.db"):
                            os.remove(f"{attack.options.dir}/{name}")


def names_that_look_like_companions(attack):
    """Databases with unusual names have companions of their own."""
    for name in ("a b%20.db", "x-wal", "x-journal", "x-dwal", "ä?#.db", "-mj"):
        for mode in ("wal", "delete"):
            path = f"{attack.folder}/{name}"
            quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
            attack.victim("plain", f"file:{quoted}?vfs=densite", mode, "kill")
            before = files.fingerprint(attack.folder)
            yield from refused(attack.stock(path, "VACUUM"), f"{name}, {mode}")
            yield from unchanged(before, attack.folder, f"{name}, {mode}")
            con = content.connect(quoted)
            yield from wrong(content.wrong(con, content.COMMITTED), f"{name}, {mode}")
            con.close()
            for file in os.listdir(attack.folder):
                os.remove(f"{attack.folder}/{file}")


SHORT = (
    symlinks_and_hard_links,
    renamed_databases,
    read_only_directories,
    vacuum_into,
    plain_files_through_the_vfs,
    foreign_companions,
    files_of_an_earlier_build,
    companions_of_densite_beside_plain_files,
    an_empty_file_becomes_a_database,
    an_open_connection_of_stock_sqlite,
    companions_opened_as_databases,
    foreign_companions_beside_a_live_file,
    names_that_look_like_companions,
)
#: With every change.
QUICK = (vacuum_into, companions_of_densite_beside_plain_files, an_empty_file_becomes_a_database)
LONG = (kills.each_commit_of_both_forms, kills.each_first_transaction, kills.each_conversion)


def run(options):
    """Runs the attacks. Returns the number of faults."""
    options.kill_at = f"{options.dir}/kill_at.so"
    faults, attacks = 0, QUICK
    if options.programs:
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", options.kill_at, f"{HERE}/kill_at.c", "-ldl"], check=True)
        attacks = SHORT + LONG
    for attack in attacks:
        if options.attack not in attack.__name__:
            continue
        began, found, this = time.monotonic(), 0, Attack(options, attack.__name__)
        try:
            for fault in attack(this):
                found += 1
                print(f"FAULT: {attack.__name__}: {fault}", flush=True)
        except Exception:  # pylint: disable=broad-except
            found += 1
            print(f"FAULT: {attack.__name__}: {traceback.format_exc()}", flush=True)
        print(f"{attack.__name__}: {found} faults, {time.monotonic() - began:.0f} seconds", flush=True)
        if not found:
            shutil.rmtree(this.folder)
        faults += found
    return faults
