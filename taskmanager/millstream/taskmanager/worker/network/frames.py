"""The frames between two slot workers, and the one place of the data plane that knows their form on the wire.

A frame becomes bytes when it is handed to the exchange, and is made of bytes when the exchange has read it: in between
there are only these classes.
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

    Not frozen: it waits for credit in the queue of its channel, which fills in `sequence` and `backlog` when it leaves,
    and may give a barrier `priority` until then. Nothing changes once it has been sent.
    """

    channel: ChannelId
    sequence: int = 0
    """From 0, without gaps: a lost or repeated buffer is an error."""
    backlog: int = 0
    """The buffers that wait behind this one."""
    more: bool = False
    """Whether the batch continues in the next buffer."""
    codec: int = 0
    """How a batch is encoded, or which signal it is: a plain number, since it also goes into snapshots."""
    compressed: bool = False
    payload: bytes = b""
    priority: bool = False
    """Whether it is a barrier that overtook the buffers of its channel: it takes no credit."""


class Credit(Struct, frozen=True):
    """Room for more buffers, each of at most so many rows; 0 rows: no limit."""

    channel: ChannelId
    buffers: int
    rows: int = 0


class Backlog(Struct, frozen=True):
    """How many buffers wait for credit, and the checkpoint of a barrier among them that presses; 0: none does."""

    channel: ChannelId
    buffers: int
    pressing: int = 0


class ChannelClosed(Struct, frozen=True):
    """One end is done with the channel."""

    channel: ChannelId
    reason: str


Frame = Hello | Data | Credit | ChannelClosed | Backlog | Heartbeat
FRAME: Wire[Frame] = Wire(Frame, dataplane_pb2.Frame)
