"""Errors for users and workers. The message is one sentence that says what is wrong and what to
do."""

from __future__ import annotations


class Refused(Exception):
    """The input is refused. ``status`` is the HTTP status."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


class Failed(Exception):
    """The command cannot continue. The command line prints the sentence and exits with ``code``."""

    def __init__(self, sentence: str, code: int = 1) -> None:
        super().__init__(sentence)
        self.code = code
