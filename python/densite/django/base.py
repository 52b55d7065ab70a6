"""Django's SQLite backend, with files opened through Densite.

OPTIONS takes the options of Django's backend, and ``level``, ``threads`` and ``decoded_cache`` as
in :func:`densite.connect`. Test databases are in memory, unless TEST names a file. That file is a
Densite file.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import Any, Dict, Iterable, List, Optional, Tuple

from django.db.backends.sqlite3 import base, client, creation, features, schema

from densite import attach, connect
from densite._connect import location

from ._ingest import Shadows, is_used

_SETTINGS = ("level", "threads", "decoded_cache")


class DatabaseClient(client.DatabaseClient):
    """``manage.py dbshell`` runs ``densite sql``, which can read Densite files. The command is
    beside the interpreter if pip has installed it into this environment, otherwise on the PATH."""

    executable_name = "densite"

    @classmethod
    def settings_to_cmd_args_env(cls, settings_dict: Dict[str, Any], parameters: Iterable[str]) -> Tuple[List[str], Optional[Dict[str, str]]]:
        beside = os.path.join(os.path.dirname(sys.executable), cls.executable_name)
        command = beside if os.access(beside, os.X_OK) else cls.executable_name
        return [command, "sql", str(settings_dict["NAME"]), *parameters], None


class DatabaseCreation(creation.DatabaseCreation):
    def _clone_test_db(self, suffix: str, verbosity: int, keepdb: bool = False) -> None:
        """Copies a test database for one process of `test --parallel`. SQLite makes the copy: a
        copy of the file would lack the pages in a WAL."""
        if self.is_in_memory_db(self.connection.settings_dict["NAME"]):
            super()._clone_test_db(suffix, verbosity, keepdb)
            return
        target = self.get_test_db_clone_settings(suffix)["NAME"]
        if os.path.exists(target):
            if keepdb:
                return
            os.remove(target)
        self.connection.ensure_connection()
        with closing(connect(target)) as clone:
            self.connection.connection.backup(clone)


class DatabaseFeatures(features.DatabaseFeatures):
    """An ingest table knows the id of a new row as `lastrowid`, not by RETURNING."""

    @property
    def can_return_columns_from_insert(self) -> bool:
        return not is_used() and bool(super().can_return_columns_from_insert)

    @property
    def can_return_rows_from_bulk_insert(self) -> bool:
        return not is_used() and bool(super().can_return_rows_from_bulk_insert)


class DatabaseSchemaEditor(schema.DatabaseSchemaEditor):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._shadows = Shadows(self.connection)

    def __enter__(self) -> "DatabaseSchemaEditor":
        self._shadows.drop()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._shadows.make()


class DatabaseWrapper(base.DatabaseWrapper):
    client_class = DatabaseClient
    creation_class = DatabaseCreation
    features_class = DatabaseFeatures
    SchemaEditorClass = DatabaseSchemaEditor

    def get_connection_params(self) -> Dict[str, Any]:
        parameters = super().get_connection_params()
        settings = {name: parameters.pop(name, None) for name in _SETTINGS}
        attach()
        if not self.is_in_memory_db():
            parameters["database"], parameters["uri"] = location(parameters["database"], True, **settings)
        return parameters
