"""SQLAlchemy on Densite: the code of the guide, sessions, the pool and reflection."""

import threading

import densite
from support import Files


class SQLAlchemy(Files):
    def test_the_guide_works(self):
        sa = self.library("sqlalchemy")
        guide = self.guide("ecosystem.md", "SQLAlchemy")
        for engine in (guide.engine, guide.plain_url, guide.created):
            self.addCleanup(engine.dispose)
        self.assertEqual(guide.names, ["Dijkstra", "Hoare", "Knuth"])
        self.assertEqual(guide.books, 2)
        self.assertEqual(guide.found, [("Hopper",)])
        self.assertEqual(guide.ids, [1, 2])
        with guide.engine.connect() as connection:
            self.assertEqual(connection.execute(sa.text("SELECT densite_log_last()")).scalar(), 2)
        self.assertEqual([path.name for path in self.dir.glob("*.db")], ["shop.db"])
        self.assertEqual(densite.info(self.dir / "shop.db")["form"], "compressed")
        # The parameters of the URL have an effect.
        with guide.engine.connect() as connection:
            self.assertEqual(connection.execute(sa.text("PRAGMA densite_level")).scalar(), "9")
        # Relations, cascades and rollbacks of sessions.
        with guide.Session(guide.engine) as session:
            knuth = session.scalars(sa.select(guide.Author).where(guide.Author.name == "Knuth")).one()
            self.assertEqual([book.title for book in knuth.books], ["Volume 1", "Volume 2"])
            session.delete(knuth)
            session.flush()
            self.assertEqual(session.scalar(sa.select(sa.func.count()).select_from(guide.Book)), 0)
            session.rollback()
            self.assertEqual(session.scalar(sa.select(sa.func.count()).select_from(guide.Book)), 2)
        # densite.insert uses the open transaction of the caller.
        with guide.created.connect() as connection:
            connection.execute(sa.insert(guide.Author), [{"name": "x"}])
            densite.insert(connection.connection.driver_connection, "author", [{"name": "y"}])
            connection.rollback()
            self.assertEqual(connection.scalar(sa.select(sa.func.count()).select_from(guide.Author)), 4)

    def test_the_pool_serves_threads_and_reflection_sees_the_schema(self):
        sa = self.library("sqlalchemy")
        densite.attach()
        # An absolute path has three slashes after `file:`.
        engine = sa.create_engine(f"sqlite:///file://{self.dir}/pool.db?vfs=densite&uri=true", connect_args={"timeout": 60})
        self.addCleanup(engine.dispose)
        self.assertIs(type(engine.pool), sa.QueuePool)
        table = sa.Table("t", sa.MetaData(), sa.Column("a", sa.Integer, primary_key=True), sa.Column("b", sa.Text, index=True))
        table.metadata.create_all(engine)
        failed = []

        def write(first):
            try:
                for n in range(5):
                    with engine.begin() as connection:
                        connection.execute(sa.insert(table), [{"a": first + n, "b": "x"}])
            except BaseException as error:  # noqa: BLE001: reported by the test
                failed.append(error)

        threads = [threading.Thread(target=write, args=(n * 100,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        reflected = sa.Table("t", sa.MetaData(), autoload_with=engine)
        self.assertEqual(([column.name for column in reflected.columns], [index.name for index in reflected.indexes]), (["a", "b"], ["ix_t_b"]))
        with engine.connect() as connection:
            self.assertEqual(connection.scalar(sa.select(sa.func.count()).select_from(reflected)), 20)
