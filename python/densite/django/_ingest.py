"""Models whose rows are inserted through the log."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Type, TypeVar, Union

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.models import signals

Model = TypeVar("Model", bound=Type[models.Model])

# The options of each marked model.
_marked: Dict[Type[models.Model], str] = {}


def ingest(*, on_conflict: Union[str, Sequence[str]] = "abort", on_full: str = "wait") -> Callable[[Model], Model]:
    """Marks a model: its rows are written through the log, by every connection with Densite.

    ``migrate`` stores this in the database. Connections that are opened later use it. Write to
    marked models or to others within one transaction, not to both.

    :param on_conflict: ``abort``, ``ignore`` or ``replace``; or names of the columns that a new row
        changes in the old one
    :param on_full: ``wait`` or ``error``: what an insert does if too many rows wait
    """
    policy = on_conflict
    if not isinstance(policy, str):
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in policy)
        policy = "'" + f"update({names})".replace("'", "''") + "'"

    def mark(model: Model) -> Model:
        _marked[model] = f"on_conflict={policy}, on_full={on_full}, shadow=on"
        return model

    return mark


def is_used() -> bool:
    """Whether a model is marked."""
    return bool(_marked)


def _store(app_config: Any, using: str = DEFAULT_DB_ALIAS, **_: Any) -> None:
    marked = {model._meta.db_table: options for model, options in _marked.items() if model._meta.app_label == app_config.label}
    # A test of Django can forbid queries.
    if not marked:
        return
    connection = connections[using]
    if connection.settings_dict["ENGINE"] != "densite.django" or connection.is_in_memory_db():
        return
    tables = connection.introspection.table_names()
    with connection.cursor() as cursor:
        for table, options in marked.items():
            if table in tables:
                cursor.execute("SELECT densite_config('ingest', %s, %s)", [table, options])


signals.post_migrate.connect(_store, dispatch_uid="densite.django.ingest")


class Shadows:
    """The ingest tables of a connection that hide their tables. A schema change needs the tables
    themselves, and all rows in them."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._dropped: List[str] = []

    def drop(self) -> None:
        """Drops them, after all rows are applied."""
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT name FROM sqlite_temp_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%USING densite_ingest(%'")
            names = [name for (name,) in cursor.fetchall()]
            if names:
                cursor.execute("SELECT densite_wait()")
            for name in names:
                cursor.execute(f"DROP TABLE temp.{self._connection.ops.quote_name(name)}")
        self._dropped += names

    def make(self) -> None:
        """Makes them again, for tables that still exist and have the setting."""
        names, self._dropped = self._dropped, []
        with self._connection.cursor() as cursor:
            for name in names:
                cursor.execute("SELECT densite_config('ingest', name) FROM main.sqlite_schema WHERE type = 'table' AND name = %s", [name])
                options = cursor.fetchone()
                if options and options[0]:
                    name = self._connection.ops.quote_name(name)
                    cursor.execute(f"CREATE VIRTUAL TABLE temp.{name} USING densite_ingest({name}, {options[0].replace(', shadow=on', '')})")
