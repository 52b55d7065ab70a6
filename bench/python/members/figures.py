"""Figures of the measures."""


def p99(taken):
    return sorted(taken)[len(taken) * 99 // 100]


def ours(name, value, target=None, base=None, limit="at most"):
    """A figure of its own; `base` is that of the same without the stream."""
    met = None if target is None else value <= target if limit == "at most" else value >= target
    return {"name": name, "base": float(base or 0), "ours": float(value), "compare": "ours" if limit == "at most" else "ours at least", "value": float(value), "target": target, "met": met}
