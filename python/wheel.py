"""wheel.py BUILT DIR

Makes the wheel of the Python package in DIR, with libdensite.so and the command densite from BUILT,
without debugging symbols. The tag is the oldest manylinux whose glibc has all symbol versions that
both files need, as read from the files.
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
#: The libraries of every manylinux platform (PEP 600 and its policies) that the two files can need.
PLATFORM_LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}


def version() -> str:
    text = (HERE / "densite/_library.py").read_text()
    package = re.search(r'__version__ = "(.+)"', text)
    cargo = re.search(r'^version = "(.+)"', (HERE.parent / "Cargo.toml").read_text(), re.MULTILINE)
    if not package or not cargo or package[1] != cargo[1]:
        sys.exit("python/densite/_library.py and Cargo.toml have different versions; set both to the same one")
    return package[1]


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def glibc(path: pathlib.Path) -> tuple[int, int]:
    """The newest version of glibc that a file needs. The dynamic linker requires a version even if
    all its symbols are weak."""
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-dW", str(path))))
    if foreign := needed - PLATFORM_LIBRARIES:
        sys.exit(f"{path} needs {', '.join(sorted(foreign))}, which manylinux does not guarantee; link it statically")
    wanted = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", output("readelf", "-VW", str(path)))
    return max((int(major), int(minor)) for major, minor in wanted)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    built, out = map(pathlib.Path, sys.argv[1:])
    files = [built / "libdensite.so", built / "densite"]
    name = f"densite-{version()}"
    major, minor = max(map(glibc, files))
    tag = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("densite-*.whl"):
        old.unlink()
    wheel = out / f"{name}-{tag}.whl"
    record = []
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def put(path: str, data: bytes, mode: int = 0o644) -> None:
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}")

        for path in sorted((HERE / "densite").rglob("*")):
            if path.suffix == ".py" or path.name == "py.typed":
                put(str(path.relative_to(HERE)), path.read_bytes())
        for path, to in zip(files, ("densite/libdensite.so", f"{name}.data/scripts/densite")):
            stripped = pathlib.Path(folder) / path.name
            subprocess.run(["strip", "--strip-unneeded", "-o", stripped, path], check=True)
            put(to, stripped.read_bytes(), 0o755)
        put("densite/densite.h", (HERE.parent / "include/densite.h").read_bytes())
        for licence in ("LICENSE", "LICENSE-APACHE", "LICENSE-MIT"):
            put(f"{name}.dist-info/licenses/{licence}", (HERE.parent / licence).read_bytes())
        put(f"{name}.dist-info/METADATA", (HERE / "METADATA").read_text().replace("@VERSION@", version()).encode())
        put(f"{name}.dist-info/entry_points.txt", (HERE / "entry_points.txt").read_bytes())
        put(f"{name}.dist-info/WHEEL", f"Wheel-Version: 1.0\nGenerator: densite\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        listed = f"{name}.dist-info/RECORD"
        put(listed, "".join(f"{line}\n" for line in [*record, f"{listed},,"]).encode())
    print(f"{wheel}: {wheel.stat().st_size:,} bytes")


main()
