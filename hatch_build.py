"""Generates files that are not committed when the package is built or installed.

These are protobuf modules, the dashboard and the native kernels.

`proto/millstream/proto/*.proto` is the only source of the messages. Services and stubs are bound from the descriptors
at run time (`millstream.core.services.rpc`), so only the message modules are generated.

The dashboard is bundled from `dashboard/` if `npm` is installed. Otherwise, or if npm fails, the package contains no
dashboard, and the dispatcher shows a message in its place. It is bundled again only when its sources have changed.

The kernels are compiled from one C file if there is a C compiler (`$CC`, or `cc`): a wheel with their library is one of
its platform. Otherwise, or if the compiler fails, the package contains none, and NumPy is used in its place.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib import resources
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = "dispatcher/millstream/dispatcher/dashboard/built"
KERNELS = "core/millstream/core/kernels"
LIBRARY = f"{KERNELS}/built/kernels.so"
_COMPILED_WITH = ("-O3", "-std=c99", "-shared", "-fPIC")
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
        if self.target_name == "wheel":  # from a source distribution they are compiled where it is installed
            include_kernels(Path(self.root), version, build_data)


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


def include_kernels(root: Path, version: str, build_data: dict[str, Any]) -> None:
    """Puts the library of the kernels into a wheel, which is then one for this platform and any Python."""
    if not build_kernels(root):
        return
    build_data["artifacts"].append(LIBRARY)
    if version != "editable":  # whose wheel refers to the source tree
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform_tag()}"


def build_kernels(root: Path) -> bool:
    """Compiles the kernels, unless the existing library was compiled from the same source; returns if there is one.

    A library is replaced by renaming a file: processes that have loaded the old one keep it.
    """
    source, library = root / KERNELS / "kernels.c", root / LIBRARY
    stamp = library.with_name(_STAMP)
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    command = [*compiler, *_COMPILED_WITH]
    made_of = source.read_bytes() + "\0".join([*command, _platform_tag()]).encode()
    digest = hashlib.sha256(made_of).hexdigest()
    if library.is_file() and stamp.is_file() and stamp.read_text() == digest:
        return True
    for outdated in (library, stamp):
        outdated.unlink(missing_ok=True)
    if shutil.which(compiler[0]) is None:
        print(f"{compiler[0]} is not installed: Millstream is built without its native kernels", file=sys.stderr)
        return False
    library.parent.mkdir(exist_ok=True)
    new = library.with_suffix(f".{os.getpid()}")
    done = subprocess.run([*command, str(source), "-o", str(new)], capture_output=True, text=True)
    if done.returncode:
        new.unlink(missing_ok=True)
        problem = next(iter(done.stderr.splitlines()), f"exit status {done.returncode}")
        print(f"{compiler[0]} failed; the native kernels are left out: {problem}", file=sys.stderr)
        return False
    new.replace(library)
    stamp.write_text(digest)
    return True


def _platform_tag() -> str:
    """Returns the platform's part of a wheel's tag. A compiler makes code of one architecture only."""
    name = sysconfig.get_platform().replace("universal2", platform.machine())
    return name.replace("-", "_").replace(".", "_")


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
