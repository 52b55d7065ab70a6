"""SQLAlchemy on Densite: the code of the guide, sessions, the pool and reflection."""

import threading

import densite
import web
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
        self.assertEqual(guide.authors, 3)
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

    def test_the_dialect_takes_paths_uris_parameters_and_remote_databases(self):
        sa = self.library("sqlalchemy")
        path = self.dir / "a b.db"
        con = densite.connect(path)
        con.execute("CREATE TABLE t(a)")
        con.close()
        site = web.serve(self, self.dir)
        quoted = path.name.replace(" ", "%20")
        for database, query, level in (
            (str(path), {}, "3"),
            (str(path), {"level": "7", "timeout": "9.5"}, "7"),
            (f"file://{self.dir}/{quoted}", {"level": "7", "uri": "true"}, "7"),
            (f"{site}/{quoted}", {}, "3"),
        ):
            engine = sa.create_engine(sa.URL.create("sqlite+densite", database=database, query=query))
            self.addCleanup(engine.dispose)
            self.assertIsInstance(engine.pool, sa.QueuePool)
            with engine.connect() as connection:
                self.assertEqual(sa.inspect(connection).get_table_names(), ["t"], database)
                self.assertEqual(connection.scalar(sa.text("PRAGMA densite_level")), level, database)
        memory = sa.create_engine("sqlite+densite://")
        self.addCleanup(memory.dispose)
        with memory.connect() as connection:
            self.assertEqual(connection.scalar(sa.text("SELECT densite_version()")), densite.__version__)

    def test_a_wrong_parameter_of_the_dialect_is_an_error(self):
        sa = self.library("sqlalchemy")
        engine = sa.create_engine("sqlite+densite:///a.db?levle=9")
        self.addCleanup(engine.dispose)
        with self.assertRaisesRegex(sa.exc.OperationalError, "unable to open|level"):
            engine.connect()
