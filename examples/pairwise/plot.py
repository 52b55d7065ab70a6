"""The distribution of distances as an SVG. The page's style sets its colours."""

from __future__ import annotations

from typing import List

from .histogram import Counts

#: In units of the drawing, which is scaled to the page.
_WIDTH, _HEIGHT = 720, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 10, 34


def histogram(counts: Counts) -> str:
    """Draws the counts. Each bar has the pairs of the same kind at the bottom and those of
    different kinds on top."""
    bars = len(counts.same)
    most = max(same + different for same, different in zip(counts.same, counts.different)) or 1
    step = _round_step(most / 4)
    top = step * -(-most // step)
    wide = (_WIDTH - _LEFT - _RIGHT) / bars

    def y_of(count: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * count / top

    parts: List[str] = [f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Number of pairs by distance">']
    for count in range(0, int(top) + 1, int(step)):
        y = y_of(count)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{count:,}</text>')
    for bar in range(bars):
        x = _LEFT + bar * wide
        same, different = counts.same[bar], counts.different[bar]
        if not same + different:
            continue
        low, high = bar * counts.width, (bar + 1) * counts.width
        parts.append(f"<g><title>{low:g} to {high:g}: {same:,} of the same kind, {different:,} of different kinds</title>")
        for kind, below, above in (("same", 0, same), ("different", same, same + different)):
            if above > below:
                parts.append(
                    f'<rect class="{kind}" x="{x + 0.75:.2f}" width="{max(0.5, wide - 1.5):.2f}" '
                    f'y="{y_of(above):.2f}" height="{y_of(below) - y_of(above):.2f}"/>'
                )
        parts.append("</g>")
    every = max(1, round(bars / 8))
    for bar in range(0, bars + 1, every):
        parts.append(
            f'<text class="tick" x="{_LEFT + bar * wide:.1f}" y="{_HEIGHT - _BOTTOM + 17}" text-anchor="middle">{bar * counts.width:g}</text>'
        )
    parts.append(f'<text class="tick" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 3}" text-anchor="end">distance, in standard deviations</text></svg>')
    return "".join(parts)


def _round_step(step: float) -> int:
    """The smallest of 1, 2, 5, 10 times a power of ten that is not less than `step`."""
    power = 1
    while power * 10 < step:
        power *= 10
    return next((power * times for times in (1, 2, 5, 10) if power * times >= step), 10 * power)
