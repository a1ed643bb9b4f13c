"""Programs of Debian packages, as tests use them: installed if the tests run as root, otherwise only searched for.

Several tests may install packages at the same time: dpkg's lock is waited for.
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
    """The path of the program; its package is installed first where that is possible.

    Skips the test where it is not.
    """
    found = shutil.which(program)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        if not _done(*_INSTALL, package):  # without lists of packages, none can be installed
            _done(*_UPDATE)
            _done(*_INSTALL, package)
        found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program}, and only root can install it: apt-get install {package}")
    return found


def _done(*command: str) -> bool:
    # Services of the package are not started: tests start and stop what they need themselves.
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    return subprocess.run(command, env=quietly, capture_output=True, check=False).returncode == 0
