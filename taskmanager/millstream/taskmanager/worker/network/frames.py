"""The frames between two slot workers, and the only place of the data plane that knows their wire format.

A frame is encoded when it is passed to the exchange, and decoded when the exchange has read it: everywhere else there
are only these classes.
"""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import ChannelId, JobId
from millstream.core.messages.session import Heartbeat
from millstream.core.wire.wire import Wire
from millstream.proto import dataplane_pb2

SERVICE: str = dataplane_pb2.DESCRIPTOR.services_by_name["DataPlane"].full_name


class Hello(Struct, frozen=True):
    """The first frame in each direction."""

    job_id: JobId
    worker_address: str


class Data(Struct):
    """One buffer: a batch, a fragment of a large one, or a signal.

    Not frozen: it waits for credit in the queue of its channel, which sets `sequence` and `backlog` when it is sent,
    and may give a barrier `priority` until then. It does not change after it was sent.
    """

    channel: ChannelId
    sequence: int = 0
    """From 0, without gaps: a lost or repeated buffer is an error."""
    backlog: int = 0
    """The number of buffers that wait behind this one."""
    more: bool = False
    """Whether the batch continues in the next buffer."""
    codec: int = 0
    """How a batch is encoded, or which signal it is: a plain number, since it is also stored in snapshots."""
    compressed: bool = False
    payload: bytes = b""
    priority: bool = False
    """Whether it is a barrier that overtook the buffers of its channel: it needs no credit."""


class Credit(Struct, frozen=True):
    """Room for more buffers, each of at most so many rows; 0 rows: no limit."""

    channel: ChannelId
    buffers: int
    rows: int = 0


class Backlog(Struct, frozen=True):
    """The number of buffers that wait for credit, and the checkpoint of an urgent barrier among them; 0: none."""

    channel: ChannelId
    buffers: int
    pressing: int = 0


Frame = Hello | Data | Credit | Backlog | Heartbeat
FRAME: Wire[Frame] = Wire(Frame, dataplane_pb2.Frame)
