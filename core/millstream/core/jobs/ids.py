"""Identifiers, as types. All are strings of hexadecimal digits or readable names, made once and never parsed."""

from __future__ import annotations

import hashlib
import uuid
from typing import NewType

JobId = NewType("JobId", str)
OperatorId = NewType("OperatorId", str)
VertexId = NewType("VertexId", str)
AttemptId = NewType("AttemptId", str)
AllocationId = NewType("AllocationId", str)
TaskManagerId = NewType("TaskManagerId", str)
JobManagerId = NewType("JobManagerId", str)
ChannelId = NewType("ChannelId", int)
LeaderEpoch = NewType("LeaderEpoch", int)
"""Increases with each change of a leader."""

# Where there is none, on the wire and in messages.
NO_JOB = JobId("")
NO_ALLOCATION = AllocationId("")
NO_ATTEMPT = AttemptId("")
ANY_EPOCH = LeaderEpoch(0)


def new_id() -> str:
    """Returns a random id of 32 hexadecimal digits, in the form of Flink's ids."""
    return uuid.uuid4().hex


def stable_id(*parts: str) -> str:
    """Returns an id that is the same for the same parts, in every process and version."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4, "big"))
        digest.update(encoded)
    return digest.hexdigest()
