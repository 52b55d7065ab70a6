"""The status page: one HTML document without external resources, made from page.html."""

from __future__ import annotations

import html
import os
import pathlib
import string
from typing import Optional

from . import plot
from .histogram import Counts
from .progress import Progress, WorkerProgress

_TEMPLATE = string.Template((pathlib.Path(__file__).parent / "page.html").read_text(encoding="utf-8"))

#: While there is work, a worker without a lease is shown as silent after so many seconds without a
#: request.
SILENT_SECONDS = 10.0


def render(now: Progress, counts: Optional[Counts], path: str) -> str:
    """The page for a state of the work. `path` is the path of the file."""
    percent = 100.0 * now.done_pairs / now.pairs if now.pairs else 100.0
    leased = 100.0 * now.leased_pairs / now.pairs if now.pairs else 0.0
    if now.finished:
        state, word = "finished", "finished"
    elif now.leased_pairs:
        state, word = "working", "working"
    else:
        state, word = "waiting", "waiting for workers"
    known = sum(counts.same) + sum(counts.different) if counts else 0
    return _TEMPLATE.substitute(
        state=state,
        word=word,
        file=html.escape(os.path.basename(path)),
        samples=f"{now.samples:,}",
        # Shows 100 % only when all is done.
        percent="100" if now.finished else f"{min(percent, 99.9):.1f}",
        done_width=f"{percent:.3f}",
        leased_width=f"{leased:.3f}",
        total=f"{now.pairs:,}",
        done=f"{now.done_pairs:,}",
        leased=f"{now.leased_pairs:,}",
        open=f"{now.pairs - now.done_pairs - now.leased_pairs:,}",
        batches=f"{now.batches:,}",
        done_batches=f"{now.done_batches:,}",
        repeated=f"{now.repeated_batches:,}",
        rejects=f"{now.rejects:,}",
        rate=f"{now.rate:,.0f}",
        left="none" if now.finished else duration(now.left_seconds),
        elapsed=duration(now.elapsed_seconds),
        disk=size(now.file_bytes),
        log=size(now.log_bytes),
        plot=plot.histogram(counts) if counts and known else '<p class="empty">No distances yet.</p>',
        known=f"{known:,}",
        workers="".join(_row(worker, now.finished) for worker in now.workers)
        or '<tr><td class="empty" colspan="5">No worker yet.</td></tr>',
    )


def _row(worker: WorkerProgress, finished: bool) -> str:
    if worker.leased_pairs and worker.lease_seconds is not None:
        lease = f'<span class="dot working"></span>{worker.leased_pairs:,} pairs, {duration(worker.lease_seconds)} left'
    elif worker.silent_seconds > SILENT_SECONDS and not finished:
        lease = '<span class="dot silent"></span>silent'
    else:
        lease = '<span class="dot"></span>none'
    return (
        f"<tr><td>{html.escape(worker.name)}</td><td>{worker.pairs:,}</td><td>{worker.batches:,}</td>"
        f"<td>{lease}</td><td>{duration(worker.silent_seconds)} ago</td></tr>"
    )


def duration(seconds: Optional[float]) -> str:
    """Formats seconds: ``0.4 s``, ``42 s``, ``3 min 5 s``, ``2 h 10 min``; a dash for None."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(count: float) -> str:
    """Formats bytes: ``712 bytes``, ``1.4 MB`` (1 MB is a million bytes)."""
    if count < 1000:
        return f"{count:.0f} bytes"
    unit, divisor = ("kB", 1e3) if count < 999_500 else ("MB", 1e6) if count < 999_500_000 else ("GB", 1e9)
    return f"{count / divisor:.3g} {unit}"
