"""The samples: time series of five kinds, generated from a seed.

A value is an integer in thousandths of the series' standard deviation. So distances are exact sums,
and the same on every computer.
"""

from __future__ import annotations

import math
import random
import struct
from typing import Callable, Dict, List, NamedTuple, Sequence

#: The shapes as functions of the phase, in periods.
_SHAPES: Dict[str, Callable[[float], float]] = {
    "sine": lambda turns: math.sin(math.tau * turns),
    "square": lambda turns: 1.0 if turns % 1.0 < 0.5 else -1.0,
    "saw": lambda turns: 2.0 * (turns % 1.0) - 1.0,
    "pulse": lambda turns: math.exp(-(((turns % 1.0) - 0.5) ** 2) / 0.004),
}
#: All kinds. A walk has no shape: each value is the previous one plus a random step.
KINDS = (*_SHAPES, "walk")


class Sample(NamedTuple):
    """One series, numbered from 1."""

    id: int
    kind: str
    values: Sequence[int]


def generate(number: int, length: int, seed: int) -> Sample:
    """Makes sample `number`. It depends only on the number, the length and the seed.

    Kinds alternate. Two series of one kind differ in frequency, phase, noise and tempo. Dynamic
    time warping removes the differences of tempo.
    """
    chance = random.Random(f"{seed}/{number}")
    kind = KINDS[(number - 1) % len(KINDS)]
    shape = _SHAPES.get(kind)
    values: List[float] = []
    if shape is None:
        at = 0.0
        for _ in range(length):
            at += chance.gauss(0.0, 1.0)
            values.append(at)
    else:
        turns, phase = chance.uniform(2.8, 3.2), chance.uniform(0.0, 0.25)
        warp, warp_phase = chance.uniform(0.0, 0.12), chance.random()
        for i in range(length):
            t = i / length
            t += warp * math.sin(math.tau * (t + warp_phase)) / math.tau
            values.append(shape(turns * t + phase) + chance.gauss(0.0, 0.15))
    mean = sum(values) / length
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / length) or 1.0
    return Sample(number, kind, [round(1000 * (v - mean) / deviation) for v in values])


def packed(values: Sequence[int]) -> bytes:
    """The values in their stored form: 16 bits each, little-endian, clipped at 32.767 standard
    deviations."""
    return struct.pack(f"<{len(values)}h", *(max(-32767, min(32767, v)) for v in values))


def unpacked(blob: bytes) -> List[int]:
    """The inverse of :func:`packed`."""
    return list(struct.unpack(f"<{len(blob) // 2}h", blob))
