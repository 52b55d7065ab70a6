"""Puts the compiled files into the wheel: the extension and the command.

hatchling calls this for each wheel, also for `pip install .`. The files come from cargo, or from the
directory DENSITE_BUILT if that is set. The package calls the extension by ctypes and SQLite, so one
wheel serves every version of Python.
"""

import json
import os
import pathlib
import subprocess
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledFiles(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        stripped = self.target() / "wheel"
        stripped.mkdir(parents=True, exist_ok=True)
        built = os.environ.get("DENSITE_BUILT") or self.build()
        for name in ("libdensite.so", "densite"):
            command = [os.environ.get("STRIP", "strip"), "--strip-unneeded", "-o", stripped / name, os.path.join(built, name)]
            subprocess.run(command, check=True)
        build_data["force_include"][str(stripped / "libdensite.so")] = "densite/libdensite.so"
        build_data["shared_scripts"][str(stripped / "densite")] = "densite"

    def target(self):
        command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
        try:
            told = subprocess.run(command, cwd=self.root, check=True, stdout=subprocess.PIPE).stdout
        except FileNotFoundError:
            raise SystemExit("cargo is missing, which builds the extension of densite; install Rust (https://rustup.rs)") from None
        return pathlib.Path(json.loads(told)["target_directory"])

    def build(self):
        packages = ["-p", "densite-extension", "-p", "densite-cli"]
        subprocess.run(["cargo", "build", "--release", "--locked", *packages], cwd=self.root, check=True)
        return self.target() / "release"
