"""A worker leases batches, computes distances and delivers them until all pairs are done."""

from __future__ import annotations

import time
from typing import Dict, List

from .client import Client
from .dtw import distance

Series = List[int]


def work(client: Client, name: str) -> int:
    """Works until all pairs are done. Keeps every series that it has received in memory.

    Returns:
        the number of computed pairs.

    Raises:
        Failed: the coordinator does not answer.
        Refused: the coordinator refused a request.
    """
    known: Dict[int, Series] = {}
    computed = 0
    while True:
        got = client.post("/lease", {"worker": name})
        if "lease" in got:
            computed += _batch(client, name, got, known)
        elif got["finished"]:
            return computed
        else:
            time.sleep(got["wait"])


def _batch(client: Client, name: str, got: Dict[str, object], known: Dict[int, Series]) -> int:
    lease, seconds, window, pairs = got["lease"], got["seconds"], got["window"], got["pairs"]
    assert isinstance(seconds, (int, float)) and isinstance(window, int) and isinstance(pairs, list)
    asked = time.monotonic()
    wanted = sorted({number for pair in pairs for number in pair} - known.keys())
    if wanted:
        answer = client.get(f"/samples?ids={_ranges(wanted)}")
        known.update((int(number), series) for number, series in answer.items())
    results = []
    for a, b in pairs:
        results.append((a, b, distance(known[a], known[b], window)))
        if time.monotonic() - asked > seconds / 3:
            # The answer does not matter: computed results count without the lease.
            client.post("/renew", {"worker": name, "lease": lease})
            asked = time.monotonic()
    client.post("/results", {"worker": name, "lease": lease, "results": results})
    return len(results)


def _ranges(numbers: List[int]) -> str:
    """Formats ordered numbers for the coordinator: ``1-50,77``."""
    ranges: List[List[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
