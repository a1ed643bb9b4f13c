"""Programs of Debian's packages, as tests use them: installed where the tests run as root, else only looked for.

Several tests may want one at a time: dpkg's lock is waited for.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

import pytest

_INSTALL = (
    "apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "--option", "DPkg::Lock::Timeout=300",
)  # fmt: skip
_UPDATE = ("apt-get", "update", "--quiet", "--option", "DPkg::Lock::Timeout=300")


@functools.cache
def program_of(package: str, program: str) -> str:
    """Where the program is; its package is installed first where that is possible. Skips the test where it is not."""
    found = shutil.which(program)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        if not _done(*_INSTALL, package):  # without lists of packages, there are none to install
            _done(*_UPDATE)
            _done(*_INSTALL, package)
        found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program}, and only root can install it: apt-get install {package}")
    return found


def _done(*command: str) -> bool:
    # A service of the package is not started: what tests need of it, they start and stop themselves.
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    return subprocess.run(command, env=quietly, capture_output=True, check=False).returncode == 0
