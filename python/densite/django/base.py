"""Django's SQLite backend, whose files are opened through Densite.

Besides the options of that backend, OPTIONS takes ``level``, ``threads`` and ``decoded_cache``, as :func:`densite.connect`. Databases of tests are in memory
unless TEST names a file, which then is a Densite file too.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

from django.db.backends.sqlite3 import base, client

from densite import attach
from densite._connect import location

_SETTINGS = ("level", "threads", "decoded_cache")


class DatabaseClient(client.DatabaseClient):
    """``manage.py dbshell``, with the shell that knows the format."""

    executable_name = "densite"

    @classmethod
    def settings_to_cmd_args_env(cls, settings_dict: Dict[str, Any], parameters: Iterable[str]) -> Tuple[List[str], Optional[Dict[str, str]]]:
        return [cls.executable_name, "sql", str(settings_dict["NAME"]), *parameters], None


class DatabaseWrapper(base.DatabaseWrapper):
    display_name = "SQLite through Densite"
    client_class = DatabaseClient

    def get_connection_params(self) -> Dict[str, Any]:
        parameters = super().get_connection_params()
        settings = {name: parameters.pop(name, None) for name in _SETTINGS}
        attach()
        if not self.is_in_memory_db():
            parameters["database"], parameters["uri"] = location(parameters["database"], True, **settings)
        return parameters
