"""What was measured, as bench/results has it (bench/src/outcome.rs), and as a picture."""

import datetime
import json
import os
import pathlib
import sqlite3
import statistics
import time


def machine(folder, densite_version):
    """What a reader needs to judge a figure: bench/src/machine.rs in Python."""

    def field(path, name):
        with open(path) as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")

    mounts = [line.split() for line in open("/proc/self/mounts")]
    inside = [mount for mount in mounts if os.path.realpath(folder).startswith(mount[1])]
    return {
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": int(field("/proc/meminfo", "MemTotal").split()[0]) // 1024,
        "kernel": f"Linux {os.uname().release}",
        "file_system": max(inside, key=lambda mount: len(mount[1]))[2],
        "sync_ms": sync_ms(folder),
        "sqlite": sqlite3.sqlite_version,
        "densite": densite_version,
        "date": datetime.date.today().isoformat(),
        "load": os.getloadavg()[0],
    }


def sync_ms(folder):
    path = os.path.join(folder, "sync")
    taken = []
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    for _ in range(50):
        start = time.perf_counter()
        os.pwrite(fd, bytes(4096), 0)
        os.fdatasync(fd)
        taken.append((time.perf_counter() - start) * 1000)
    os.close(fd)
    os.unlink(path)
    return statistics.median(taken)


def figure(name, base, ours, target=None, limit="at least"):
    """`base` and `ours` are rows per second (or what the name says); the target is of ours divided by the base."""
    value = ours / base
    met = None if target is None else value >= target if limit == "at least" else value <= target
    return {
        "name": name,
        "base": base,
        "ours": ours,
        "compare": "ratio at least" if limit == "at least" else "ratio",
        "value": value,
        "target": target,
        "met": met,
    }


def outcome(measure, title, data, base_label, figures, about):
    return {
        "measure": measure,
        "title": title,
        "data": data,
        "base_label": base_label,
        "ours_label": "Densite",
        "figures": figures,
        "base": [],
        "ours": [],
        "info": {},
        "machine": about,
    }


def save(folder, found):
    plain = "".join(c if c.isascii() and c.isalnum() or c == "." else "-" for c in f"{found['data']}-{found['measure']}".lower())
    path = pathlib.Path(folder) / "results" / f"{plain}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def picture(path, sections, about):
    """Bars of rows per second of wall time, one field for each section: [(title, [(method, M rows/s)])]."""
    import matplotlib

    matplotlib.use("svg")
    # The same bytes for the same figures.
    matplotlib.rcParams["svg.hashsalt"] = "densite"
    from matplotlib import pyplot

    heights = [len(bars) + 1.2 for _, bars in sections]
    drawing, fields = pyplot.subplots(len(sections), 1, figsize=(9, 0.27 * sum(heights) + 0.8), height_ratios=heights, squeeze=False)
    for (title, bars), field in zip(sections, fields[:, 0]):
        bars = sorted(bars, key=lambda bar: bar[1])
        names, values = [name for name, _ in bars], [value for _, value in bars]
        colours = ["#c2571a" if name.startswith("densite") else "#8a97a6" for name in names]
        drawn = field.barh(names, values, color=colours, height=0.72)
        field.bar_label(drawn, [f" {value:.3g}" for value in values], fontsize=8)
        field.set_title(title, loc="left", fontsize=10, fontweight="bold")
        field.tick_params(axis="y", labelsize=8, length=0)
        field.set_xticks([])
        field.margins(x=0.1, y=0.02)
        for side in ("top", "right", "bottom"):
            field.spines[side].set_visible(False)
    drawing.text(0.01, 0.004, f"Million rows per second of wall time; {about['cpu']}, {about['cores']} cores, SQLite {about['sqlite']}, {about['date']}", fontsize=7)
    drawing.tight_layout(rect=(0, 0.012, 1, 1))
    drawing.savefig(path, metadata={"Date": None})
