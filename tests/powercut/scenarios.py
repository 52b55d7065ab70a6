"""All of them; those that matter most several times."""

from .chroma import VacuumChroma
from .commands import Compress, Copy, Decompress, FilesOfWaiting, Load, LoadAnew, Prune, Repair, Sql, SqlAnew, Subscribe, Unsubscribe, Vacuum
from .sessions import Ingest, SqlSession, Together, VacuumOfLog

SCENARIOS = [
    *(Vacuum, VacuumChroma, Compress, Decompress, Copy, Load, LoadAnew, Sql, SqlAnew),
    *(FilesOfWaiting, Prune, Subscribe, Unsubscribe, Repair),
    *(SqlSession, SqlSession, Ingest, Ingest, Together, VacuumOfLog),
]
