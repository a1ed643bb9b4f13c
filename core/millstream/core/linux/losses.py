"""What Millstream does less well where there is no Linux, such as on a Mac."""

from __future__ import annotations

import sys

from msgspec import Struct


class Loss(Struct, frozen=True):
    """A feature, and what takes its place elsewhere."""

    feature: str
    elsewhere: str


LOSSES = (
    Loss("ending everything that a slot worker has started", "a process that leaves its process group survives it"),
    Loss(
        "finding processes that a crashed cluster has left behind",
        "`cluster start` and `stop` know only those that are recorded in the cluster directory",
    ),
    Loss("`taskmanager.memory.task.heap.size`", "the limit is not enforced"),
    Loss("evidence of a lack of memory when a process was killed", "the message names the signal only"),
    Loss("log files in the dashboard, REST and `millstream logs`", "the files are not found, and are not rotated"),
    Loss("memory and threads of services in metrics", "both are 0"),
    Loss("flame graphs of threads on and off the CPU", "a thread that waits may count as one that works"),
    Loss("thread dumps and profiles of a worker that native code blocks", "there are none"),
    Loss("job and tasks in `ps`", "the command line is shown as it was started"),
    Loss("credentials passed to child processes in memory", "they are in a temporary file without a name"),
    Loss("the user at the other end of the REST socket", "this cluster's user, who alone can reach the socket"),
    Loss("one file system synchronised behind an installed environment", "all file systems are"),
)  # fmt: skip


def losses(platform: str = sys.platform) -> tuple[Loss, ...]:
    """On this platform; none on Linux."""
    return () if is_linux(platform) else LOSSES


def is_linux(platform: str = sys.platform) -> bool:
    """Whether the calls of this package exist; a container on a Mac is Linux."""
    return platform == "linux"
