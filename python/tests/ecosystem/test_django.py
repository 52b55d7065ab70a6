"""Django on Densite: a project with the settings of the guide, with migrations, ORM and tests."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import densite
from support import Files

GUIDE = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "docs/guides/ecosystem.md"

MODELS = """
    from django.db import models

    class Author(models.Model):
        name = models.CharField(max_length=80, unique=True)

    class Book(models.Model):
        title = models.CharField(max_length=80)
        author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
        data = models.JSONField(default=dict)
        pages = models.PositiveIntegerField(null=True)
"""

# The model of the guide.
VOTE = """
    from densite.django import ingest

    @ingest(on_conflict="ignore")
    class Vote(models.Model):
        user = models.IntegerField()
        article = models.IntegerField()
"""

MARKED = f"""
    from django.db import models
    {VOTE}

    class Author(models.Model):
        name = models.CharField(max_length=80, unique=True)
"""

TESTS = """
    import densite
    from django.db import IntegrityError, connection, transaction
    from django.test import TestCase, TransactionTestCase

    from .models import Author, Book

    class Books(TestCase):
        def setUp(self):
            self.author = Author.objects.create(name="Knuth")

        def test_the_orm_reads_and_deletes_rows(self):
            Book.objects.bulk_create(Book(title=f"Volume {n}", author=self.author, data={"n": [n]}) for n in range(5))
            self.assertEqual(Book.objects.filter(data__n__0=3).get().title, "Volume 3")
            self.assertEqual(self.author.books.count(), 5)
            self.author.delete()
            self.assertEqual(Book.objects.count(), 0)

        def test_a_failed_transaction_is_rolled_back(self):
            with self.assertRaises(IntegrityError), transaction.atomic():
                Author.objects.create(name="Knuth")
            self.assertEqual(Author.objects.count(), 1)

        def test_messages_of_django_name_sqlite_whose_version_and_features_they_mean(self):
            self.assertEqual(connection.display_name, "SQLite")

    class Bulk(TransactionTestCase):
        def test_insert_fills_a_table(self):
            connection.ensure_connection()
            densite.insert(connection.connection, "books_author", [{"name": str(n)} for n in range(1000)])
            self.assertEqual(Author.objects.count(), 1000)

        def test_the_file_is_a_densite_file(self):
            Author.objects.create(name="x")
            name = connection.settings_dict["NAME"]
            self.assertEqual(densite.info(name)["form"], "compressed")
            with connection.cursor() as cursor:
                cursor.execute("PRAGMA densite_level")
                self.assertEqual(cursor.fetchone(), ("9",))
"""


class Django(Files):
    def setUp(self):
        super().setUp()
        self.library("django")
        section = GUIDE.read_text(encoding="utf-8").partition("\n## Django\n")[2].partition("\n## ")[0]
        settings = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        self.assertEqual(len(settings), 3)
        model = settings.pop(1)
        self.assertEqual(textwrap.dedent(model).split(), textwrap.dedent(VOTE).split())
        self.write("settings.py", "import pathlib\n\nBASE_DIR = pathlib.Path(__file__).parent\nINSTALLED_APPS = ['books']\nUSE_TZ = True\n")
        with open(self.dir / "settings.py", "a", encoding="utf-8") as file:
            file.write("\n".join([*settings, "DEFAULT_AUTO_FIELD = 'django.db.models.BigAutoField'\n"]))
        self.write("books/__init__.py", "")
        self.write("books/models.py", MODELS)
        self.write("books/tests.py", TESTS)

    def write(self, name, text):
        path = self.dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")

    def manage(self, *arguments, given=None, **environment):
        run = subprocess.run(
            [sys.executable, "-W", "error", "-m", "django", *arguments],
            cwd=self.dir,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{self.dir}", **environment},
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 0, run.stdout)
        return run.stdout

    def test_migrations_orm_and_tests_work(self):
        self.manage("makemigrations", "books")
        self.manage("migrate")
        self.manage("migrate", "--database", "stock")
        self.assertEqual(densite.info(self.dir / "site.db")["form"], "compressed")
        self.assertEqual(densite.info(self.dir / "stock.db")["form"], "compressed")
        # Some alterations make Django create SQLite's tables again.
        self.write("books/models.py", MODELS.replace("max_length=80)\n        author", "max_length=90, db_index=True)\n        author").replace("(null=True)", "(default=1)"))
        self.manage("makemigrations", "books", "--name", "altered")
        self.assertIn("Applying books.0002_altered... OK", self.manage("migrate"))
        program = """
            from books.models import Author, Book
            Book.objects.create(title="Volume 1", author=Author.objects.create(name="Knuth"))
            for alias in ("default", "stock"):
                Author.objects.using(alias).create(name="Hoare")
            print(Book.objects.get().author.name, Book.objects.get().pages)
            from django.db import connection
            print(connection.cursor().execute("PRAGMA journal_mode").fetchone())
        """
        self.assertIn("Knuth 1\n('wal',)\n", self.manage("shell", "--no-imports", given=textwrap.dedent(program)))
        for arguments in ([], ["--parallel", "2"]):
            output = self.manage("test", "--noinput", *arguments)
            self.assertRegex(output, r"Ran 5 tests[^$]*OK")
        self.assertFalse((self.dir / "test.db").exists())
        self.assertEqual(densite.check(self.dir / "site.db")["ok"], True)

    def test_a_marked_model_is_written_through_the_log(self):
        self.write("books/models.py", MARKED)
        self.manage("makemigrations", "books")
        self.manage("migrate")
        program = """
            from books.models import Author, Vote
            from django.db import connection, transaction
            def ask(sql):
                return connection.cursor().execute(sql).fetchone()[0]
            votes = [Vote.objects.create(user=user, article=1) for user in range(3)]
            assert [vote.pk for vote in votes] == [1, 2, 3], votes
            assert ask("SELECT densite_last_seq()") == 3
            assert [vote.user for vote in Vote.objects.order_by("pk")] == [0, 1, 2]
            votes[0].article = 7
            votes[0].save()
            votes[1].delete()
            with transaction.atomic():
                for user in (8, 9):
                    Vote(user=user, article=2).save()
            Author.objects.create(name="Knuth")
            ask("SELECT densite_wait()")
            print(connection.cursor().execute('SELECT id, "user", article FROM main.books_vote').fetchall())
            try:
                with transaction.atomic():
                    Vote.objects.create(user=1, article=1)
                    Author.objects.create(name="Hoare")
            except Exception as error:
                print("outbox" in str(error), Author.objects.count())
        """
        output = self.manage("shell", "--no-imports", given=textwrap.dedent(program))
        self.assertIn("[(1, 0, 7), (3, 2, 1), (4, 8, 2), (5, 9, 2)]\nTrue 1\n", output)
        # A migration makes the table again, with the rows that still waited.
        self.write("books/models.py", MARKED.replace("article = models.IntegerField()", "article = models.BigIntegerField(db_index=True)"))
        self.manage("makemigrations", "books", "--name", "altered")
        program = """
            from books.models import Vote
            from django.core.management import call_command
            Vote.objects.create(user=10, article=3)
            call_command("migrate")
            print(Vote.objects.create(user=11, article=3).pk, Vote.objects.count())
            from django.db import connection
            print(connection.cursor().execute("SELECT densite_last_seq() > 0, densite_config('ingest', 'books_vote')").fetchone())
        """
        output = self.manage("shell", "--no-imports", given=textwrap.dedent(program))
        self.assertRegex(output, r"\n\d+ 6\n\(1, 'on_conflict=ignore, on_full=wait, shadow=on'\)\n")
        self.assertEqual(densite.check(self.dir / "site.db")["ok"], True)

    def test_without_a_marked_model_migrate_asks_nothing(self):
        program = """
            import densite.django
            from django.apps import apps
            from django.db import connection
            from django.db.models.signals import post_migrate
            books = apps.get_app_config("books")
            def none(execute, *arguments):
                raise AssertionError(arguments)
            with connection.execute_wrapper(none):
                for using in [{"using": "default"}, {}]:
                    post_migrate.send(sender=books, app_config=books, **using)
            print(any("densite" in str(receiver) for receiver in post_migrate.receivers))
        """
        output = self.manage("shell", "--no-imports", given=textwrap.dedent(program))
        self.assertIn("True", output)

    def test_dbshell_runs_densite_sql(self):
        command = self.dir / "bin/densite"
        command.parent.mkdir()
        command.write_text('#!/bin/sh\necho "$@"\n')
        command.chmod(0o755)
        output = self.manage("dbshell", PATH=f"{command.parent}:{os.environ['PATH']}")
        self.assertEqual(output, f"sql {self.dir / 'site.db'}\n")

    def test_dbshell_prefers_the_command_beside_the_interpreter(self):
        from densite.django.base import DatabaseClient  # noqa: PLC0415

        settings = {"NAME": "site.db"}
        interpreter = sys.executable
        self.addCleanup(setattr, sys, "executable", interpreter)
        sys.executable = str(self.dir / "python")
        self.assertEqual(DatabaseClient.settings_to_cmd_args_env(settings, []), (["densite", "sql", "site.db"], None))
        command = self.dir / "densite"
        command.touch(0o755)
        self.assertEqual(DatabaseClient.settings_to_cmd_args_env(settings, []), ([str(command), "sql", "site.db"], None))
