"""Peewee on Densite: the code of the guide, and threads with ingest."""

import threading

import densite
from support import Files


class Peewee(Files):
    def test_the_guide_works(self):
        self.library("peewee")
        guide = self.guide("ecosystem.md", "Peewee")
        self.assertEqual(guide.old, ["Edsger", "Grace"])
        self.assertEqual(densite.info(self.dir / "people.db")["form"], "compressed")
        with guide.db:
            self.assertEqual(guide.Person.select().count(), 5)
            with self.assertRaises(guide.peewee.IntegrityError), guide.db.atomic():
                guide.Person.create(name="Tony", age=1)
            self.assertEqual(guide.Person.get(guide.Person.name == "Tony").age, 90)

    def test_threads_use_models_and_ingest_side_by_side(self):
        peewee = self.library("peewee")
        densite.attach(peewee.sqlite3)
        db = peewee.SqliteDatabase(f"file://{self.dir}/t.db?vfs=densite", uri=True, timeout=30, pragmas={"journal_mode": "wal"})
        vote = type("Vote", (peewee.Model,), {"user": peewee.IntegerField(primary_key=True), "Meta": type("Meta", (), {"database": db})})
        # `with db` would open a transaction.
        with db.connection_context():
            db.create_tables([vote])
            densite.ingest(db.connection(), "vote")

        failed = []

        def write(first):
            try:
                with db.connection_context():
                    # Each thread has its own connection, which writes through the log and the
                    # model.
                    densite.ingest(db.connection(), "vote").append([(first + n,) for n in range(100)])
                    vote.create(user=first + 1000)
            except BaseException as error:  # noqa: BLE001: reported by the test
                failed.append(error)

        threads = [threading.Thread(target=write, args=(n * 10_000,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        with db.connection_context():
            densite.ingest(db.connection(), "vote").wait(timeout=60)
            self.assertEqual(vote.select().count(), 404)
