"""How many files and connections this process may have open."""

from __future__ import annotations

import contextlib
import resource


def allow_open_files() -> None:
    """As many as the host grants; Java does the same.

    A file sink has one file open for each bucket, and a service's connections must not run into the low soft limit.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS grants fewer than its limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
