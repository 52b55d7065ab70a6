"""Errors that are meant for the user (or the worker) who caused them: one sentence that says what is wrong and what to do."""

from __future__ import annotations


class Refused(Exception):
    """Input that is not taken. ``status`` is the HTTP status that says so."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


class Failed(Exception):
    """What cannot go on; the command line prints the sentence and ends with ``code``."""

    def __init__(self, sentence: str, code: int = 1) -> None:
        super().__init__(sentence)
        self.code = code
