"""Alembic on Densite: a project as `alembic init` makes it, with the URL of the guide."""

import os
import re
import subprocess
import sys

import densite
from support import Files

MODEL = """
import sqlalchemy as sa
metadata = sa.MetaData()
author = sa.Table("author", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String{}))
"""


class Alembic(Files):
    def alembic(self, *arguments):
        environment = {**os.environ, "PYTHONPATH": f"{self.dir}:{os.environ.get('PYTHONPATH', '')}"}
        run = subprocess.run([sys.executable, "-m", "alembic", *arguments], cwd=self.dir, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        return run.stdout

    def columns(self):
        con = densite.connect(self.dir / "app.db")
        self.addCleanup(con.close)
        return con.execute('SELECT name, "notnull" FROM pragma_table_info(\'author\')').fetchall()

    def test_migrations_are_made_run_and_undone(self):
        self.library("alembic")
        self.alembic("init", "migrations")
        (line,) = re.findall("```ini\\n(.*)\\n```", self.section("ecosystem.md", "Alembic"))
        for name, old, new in (
            ("alembic.ini", r"(?m)^sqlalchemy.url = .*", line),
            ("migrations/env.py", "target_metadata = None", "from model import metadata as target_metadata"),
            ("migrations/env.py", "connection=connection,", "connection=connection, render_as_batch=True,"),
        ):
            text = (self.dir / name).read_text()
            changed = re.sub(old, lambda _: new, text)
            self.assertNotEqual(changed, text, name)
            (self.dir / name).write_text(changed)
        (self.dir / "model.py").write_text(MODEL.format(""))
        self.alembic("revision", "--autogenerate", "-m", "first")
        self.alembic("upgrade", "head")
        self.assertEqual(self.columns(), [("id", 1), ("name", 0)])
        # This one rebuilds the table.
        (self.dir / "model.py").write_text(MODEL.format(", nullable=False"))
        self.alembic("revision", "--autogenerate", "-m", "second")
        self.alembic("upgrade", "head")
        self.assertEqual(self.columns(), [("id", 1), ("name", 1)])
        self.alembic("downgrade", "-1")
        self.assertEqual(self.columns(), [("id", 1), ("name", 0)])
        self.assertEqual(densite.info(self.dir / "app.db")["form"], "compressed")
