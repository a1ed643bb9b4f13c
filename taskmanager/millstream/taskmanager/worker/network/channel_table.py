"""All channels of one slot worker: dispatches frames, and connects tasks of the same worker.

Owned by the worker's loop. A frame for an unknown channel is a protocol violation by the peer, except on closed
channels: these may still receive what was in flight when their task ended. A worker outlives many restarts of its
tasks, with new channels each time, so only the most recent channels that are closed, or not yet open, are remembered.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, assert_never

from millstream.core.jobs.ids import ChannelId
from millstream.core.messages.session import Heartbeat
from millstream.taskmanager.worker.network.frames import Backlog, Credit, Data, Frame, Hello
from millstream.taskmanager.worker.network.inputs import InputGate, LocalInputChannel, ProtocolError, RemoteInputChannel
from millstream.taskmanager.worker.network.output_channel import OutputChannel
from millstream.taskmanager.worker.network.outputs import RemoteOutputChannel

_REMEMBERED = 1 << 16


def _drop_oldest(channels: dict[int, Any], limit: int) -> None:
    # removed one by one, each would iterate over all before it
    for channel in list(islice(channels, max(0, len(channels) - limit))):
        del channels[channel]


class ChannelTable:
    """Channels by id."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        """The most rows of a batch on a channel, until its consumer has sent its limit; 0: no limit."""
        self._inputs: dict[int, tuple[InputGate, RemoteInputChannel]] = {}
        self._outputs: dict[int, RemoteOutputChannel] = {}
        self._local: dict[int, LocalInputChannel] = {}
        self._early_credit: dict[int, tuple[int, int]] = {}
        self._done: dict[int, None] = {}

    @property
    def remembered(self) -> int:
        """How many channels that are not open are remembered."""
        return len(self._done) + len(self._early_credit)

    @property
    def _remembered(self) -> int:
        return max(_REMEMBERED, 4 * (len(self._inputs) + len(self._outputs) + len(self._local)))

    def local(self, channel_id: ChannelId, name: str) -> LocalInputChannel:
        """The channel between two tasks of this worker, created by the one that is deployed first."""
        channel = self._local.setdefault(channel_id, LocalInputChannel(channel_id, name, self.limit))
        channel.name = channel.name or name
        return channel

    def add_input(self, gate: InputGate, channel: RemoteInputChannel) -> None:
        """Registers a channel: its data is passed to the gate."""
        self._inputs[channel.channel_id] = (gate, channel)

    def add_output(self, channel: RemoteOutputChannel) -> None:
        """Registers a channel: its credit is passed to it, including credit that arrived earlier."""
        self._outputs[channel.channel_id] = channel
        early = self._early_credit.pop(channel.channel_id, None)
        if early is not None:
            channel.granted(*early)

    def forget(self, gates: list[InputGate], outputs: list[OutputChannel]) -> None:
        """Removes the channels of a task that has ended."""
        remembered = self._remembered
        for channel in (c for gate in gates for c in gate.channels):
            self._inputs.pop(channel.channel_id, None)
            self._local.pop(channel.channel_id, None)
            self._done[channel.channel_id] = None
        for output in outputs:
            if self._outputs.pop(output.channel_id, None) is not None:
                self._done[output.channel_id] = None
        _drop_oldest(self._done, remembered)
        _drop_oldest(self._early_credit, remembered)

    def arrived(self, peer: str, frame: Frame) -> None:
        """Dispatches a frame. Raises ProtocolError if the peer must not send it."""
        match frame:
            case Data():
                entry = self._inputs.get(frame.channel)
                if entry is not None and entry[1].peer == peer:
                    entry[0].arrived(entry[1], frame)
                elif frame.channel not in self._done:
                    raise ProtocolError(f"data on channel {frame.channel}, which this worker does not have")
            case Credit():
                self._credit(peer, frame)
            case Backlog():
                entry = self._inputs.get(frame.channel)
                if entry is not None and entry[1].peer == peer and not entry[1].ended:
                    entry[0].announced(entry[1], frame.buffers, frame.pressing)
            case Hello() | Heartbeat():
                raise ProtocolError(f"unexpected frame of kind {type(frame).__name__.lower()}")
            case _:
                assert_never(frame)

    def _credit(self, peer: str, credit: Credit) -> None:
        channel = self._outputs.get(credit.channel)
        if channel is not None and channel.peer == peer:
            channel.granted(credit.buffers, credit.rows)
        elif credit.channel not in self._done:
            before, _ = self._early_credit.get(credit.channel, (0, 0))
            self._early_credit[credit.channel] = (before + credit.buffers, credit.rows)
            # otherwise they are dropped with the next task that ends
            if len(self._early_credit) > 2 * self._remembered:
                _drop_oldest(self._early_credit, self._remembered)
