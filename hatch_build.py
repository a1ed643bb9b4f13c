"""Generates files that are not committed when the package is built or installed: protobuf modules and the dashboard.

`proto/millstream/proto/*.proto` is the only source of the messages. Services and stubs are bound from the descriptors
at run time (`millstream.core.services.rpc`), so only the message modules are generated.

The dashboard is bundled from `dashboard/` if `npm` is installed. Otherwise, or if npm fails, the package contains no
dashboard, and the dispatcher shows a message in its place. It is bundled again only when its sources have changed.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = "dispatcher/millstream/dispatcher/dashboard/built"
_STAMP = "sources.sha256"


class GeneratingBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's generic has no useful parameter here
    """Runs protoc on all contracts and builds the dashboard before hatchling collects the files."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before each build; writes `*_pb2.py` and `*_pb2.pyi` beside the contracts."""
        from grpc_tools import protoc

        root = Path(self.root) / "proto"
        contracts = sorted(str(path.relative_to(root)) for path in root.rglob("*.proto"))
        well_known = str(resources.files("grpc_tools") / "_proto")
        arguments = ["protoc", f"-I{root}", f"-I{well_known}", f"--python_out={root}", f"--pyi_out={root}", *contracts]
        if protoc.main(arguments) != 0:
            raise RuntimeError(f"protoc failed for {contracts}")
        build_data["artifacts"].append("proto/millstream/proto/*_pb2.py")
        build_data["artifacts"].append("proto/millstream/proto/*_pb2.pyi")
        build_dashboard(Path(self.root))
        build_data["artifacts"].append(f"{BUILT}/**")


def build_dashboard(root: Path) -> None:
    """Bundles the dashboard, unless the existing bundle was built from the same sources."""
    sources, built = root / "dashboard", root / BUILT
    digest = _digest(sources)
    stamp = built / _STAMP
    if stamp.is_file() and stamp.read_text() == digest:
        return
    npm = shutil.which("npm")
    if npm is None:
        print("npm is not installed: Millstream is built without its dashboard", file=sys.stderr)
        return
    install = [npm, "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    commands = [[npm, "run", "build", "--", str(built)]]
    if not (sources / "node_modules" / "esbuild").is_dir() or not _is_installed(sources):
        commands.insert(0, install)
    for command in commands:
        done = subprocess.run(command, cwd=sources, capture_output=True, text=True)
        if done.returncode:
            print(f"{' '.join(command[1:3])} failed; the dashboard is left out:\n{done.stderr}", file=sys.stderr)
            return
    stamp.write_text(digest)


def _digest(sources: Path) -> str:
    """Returns the digest of all files that the build reads."""
    found = hashlib.sha256()
    for path in sorted([*(sources / "src").rglob("*"), *sources.glob("*.json"), *sources.glob("*.mjs")]):
        if path.is_file():
            found.update(str(path.relative_to(sources)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def _is_installed(sources: Path) -> bool:
    """Returns whether `npm ci` has run since `package-lock.json` was modified."""
    installed, chosen = sources / "node_modules" / ".package-lock.json", sources / "package-lock.json"
    return installed.is_file() and installed.stat().st_mtime >= chosen.stat().st_mtime
