"""All scenarios. The most important ones are listed several times."""

from .chroma import VacuumChroma
from .commands import Compress, Copy, Decompress, FilesWithLog, Load, LoadIntoNew, Prune, Repair, Sql, SqlIntoNew, Subscribe, Unsubscribe, Vacuum
from .sessions import ConcurrentWriters, Ingest, SqlSession, VacuumWithLog

SCENARIOS = [
    *(Vacuum, VacuumChroma, Compress, Decompress, Copy, Load, LoadIntoNew, Sql, SqlIntoNew),
    *(FilesWithLog, Prune, Subscribe, Unsubscribe, Repair),
    *(SqlSession, SqlSession, Ingest, Ingest, ConcurrentWriters, VacuumWithLog),
]
