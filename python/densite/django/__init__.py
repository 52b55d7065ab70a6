"""Django on Densite: ``"ENGINE": "densite.django"`` in DATABASES. It works like Django's own SQLite
backend. New files become Densite files, and plain files stay plain.

:func:`ingest` marks models whose rows are written through the log."""

from ._ingest import ingest

__all__ = ["ingest"]
