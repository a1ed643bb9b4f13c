"""Errors that indicate that something outside of the job failed: a disk, a connection, a name server.

Such an error may recur at the same record for as long as the outage lasts, without being caused by the record. Errors
about a missing or inaccessible file (`FileNotFoundError`, `PermissionError`) are not outages: a record may have named
the file.
"""

from __future__ import annotations

import errno
import socket

from millstream.core.logs.tracebacks import with_causes

_ERRNOS = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE,
    errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EADDRNOTAVAIL,
    errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN,
})  # fmt: skip


def is_outage(error: BaseException) -> bool:
    """Whether the error, or one of its causes, is an outage."""
    return any(map(_is_one, with_causes(error)))


def _is_one(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError | socket.gaierror):
        return True
    return isinstance(error, OSError) and error.errno in _ERRNOS
