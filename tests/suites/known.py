"""Reads known.txt."""


def read(path):
    """By suite and journal mode: {id of a test: reason}."""
    found, reason = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("["):
                reason = line[1:-1]
            elif line and not line.startswith("#"):
                suite, modes, test = line.split(" ", 2)
                assert reason, f"{path}: {line}: write its reason in brackets above it"
                for mode in modes.split(","):
                    found.setdefault((suite, mode), {})[test] = reason
    return found
