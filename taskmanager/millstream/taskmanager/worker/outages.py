"""Errors that say that something outside of the job failed: a disk, a connection, a name server.

Such an error may come at the same record again and again, for as long as the outage lasts, and is not the record's.
What only names a thing that is not there (`FileNotFoundError`, `PermissionError`) is no outage: a record may have named
it.
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
    """Whether the error, or one that led to it, is of this kind."""
    return any(map(_is_one, with_causes(error)))


def _is_one(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError | socket.gaierror):
        return True
    return isinstance(error, OSError) and error.errno in _ERRNOS
