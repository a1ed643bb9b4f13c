"""`DataStreamSink`: the end of a stream."""

from __future__ import annotations

from typing import Self

from millstream.core.overriding import override
from millstream.datastream.data_stream.operator_settings import OperatorSettings
from millstream.datastream.graph.transformations import OperatorTransformation
from millstream.datastream.slot_sharing_group import SlotSharingGroup


class DataStreamSink(OperatorSettings):
    """The result of `sink_to` and `print`: sets the name, uid, parallelism and slot sharing group of the sink."""


class CommittedSink(DataStreamSink):
    """A sink of two operators: the writers, which the settings are for, and one committer, which has the state."""

    def __init__(self, writer: OperatorTransformation, committer: OperatorTransformation) -> None:
        super().__init__(writer)
        self._committer = DataStreamSink(committer)
        self.name(writer.name)

    @override
    def name(self, name: str) -> Self:
        super().name(f"{name}: Writer")
        self._committer.name(f"{name}: Committer")
        return self

    @override
    def uid(self, uid: str) -> Self:
        super().uid(uid)
        self._committer.uid(f"{uid}-committer")
        return self

    @override
    def set_uid_hash(self, uid_hash: str) -> Self:
        self._committer.set_uid_hash(uid_hash)
        return self

    @override
    def set_description(self, description: str) -> Self:
        super().set_description(f"{description}: Writer")
        self._committer.set_description(f"{description}: Committer")
        return self

    @override
    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        super().slot_sharing_group(slot_sharing_group)
        self._committer.slot_sharing_group(slot_sharing_group)
        return self
