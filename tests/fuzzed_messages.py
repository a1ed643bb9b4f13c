"""Arbitrary messages of any contract, and bytes that are not messages, for tests of all listening processes."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

Words = st.SearchStrategy[str]
_DEEPEST = 3
_BOUNDS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_ENUM: (-(2**31), 2**31 - 1),
}


def words(*known: str) -> Words:
    """Texts, some of which are meaningful to the receiver."""
    return st.sampled_from([*known, "", "0", "../..", "\0", "\n", "a" * 32, "127.0.0.1:1", "é"]) | st.text(max_size=5)


def messages(descriptor: Descriptor, texts: Words) -> st.SearchStrategy[bytes]:
    """Valid messages, with wrong fields."""
    return _message(descriptor, texts, 0).map(lambda message: message.SerializeToString())


def of_kind(descriptor: Descriptor, kind: str, texts: Words) -> st.SearchStrategy[bytes]:
    """Valid messages of one kind."""
    field = descriptor.fields_by_name[kind]

    def whole(content: Message) -> bytes:
        message: Any = GetMessageClass(descriptor)()
        getattr(message, kind).CopyFrom(content)
        return bytes(message.SerializeToString())

    return _message(field.message_type, texts, 1).map(whole)


def anything(descriptor: Descriptor, texts: Words) -> st.SearchStrategy[bytes]:
    """Valid messages, messages with a flaw, and bytes that are not messages."""
    valid = messages(descriptor, texts)
    at = st.integers(0, 200)
    cut = st.tuples(valid, at).map(lambda drawn: drawn[0][: drawn[1]])
    flipped = st.tuples(valid, at, st.integers(1, 255)).map(lambda drawn: _flip(*drawn))
    longer = st.tuples(valid, st.binary(max_size=20)).map(b"".join)
    huge = st.sampled_from([(b"\x0a\xff\xff\xff\xff\x0f", 1), (b"\x0a", 50_000), (b"\x0b", 5_000), (b"\xff", 10)])
    return valid | cut | flipped | longer | huge.map(lambda drawn: drawn[0] * drawn[1]) | st.binary(max_size=100)


def _flip(content: bytes, at: int, bits: int) -> bytes:
    if not content:
        return bytes([bits])
    at %= len(content)
    return content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :]


@st.composite
def _message(draw: Any, descriptor: Descriptor, texts: Words, depth: int) -> Message:
    message: Any = GetMessageClass(descriptor)()
    chosen = {oneof.name: draw(st.sampled_from(list(oneof.fields))).name for oneof in descriptor.oneofs}
    for field in descriptor.fields:
        oneof = field.containing_oneof
        if oneof is not None and chosen[oneof.name] != field.name:
            continue
        if (field.message_type is not None and depth >= _DEEPEST) or draw(st.integers(0, 3)) == 0:
            continue
        _fill(draw, message, field, texts, depth)
    return message


def _fill(draw: Any, message: Any, field: FieldDescriptor, texts: Words, depth: int) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for _ in range(draw(st.integers(0, 2))):
            at = draw(_scalar(key, texts))
            if value.message_type is not None:
                getattr(message, field.name)[at].CopyFrom(draw(_message(value.message_type, texts, depth + 1)))
            else:
                getattr(message, field.name)[at] = draw(_scalar(value, texts))
    elif field.is_repeated:
        element = (
            _scalar(field, texts) if field.message_type is None else _message(field.message_type, texts, depth + 1)
        )
        getattr(message, field.name).extend(draw(st.lists(element, max_size=3)))
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(draw(_message(field.message_type, texts, depth + 1)))
    else:
        setattr(message, field.name, draw(_scalar(field, texts)))


def _scalar(field: FieldDescriptor, texts: Words) -> st.SearchStrategy[Any]:
    if field.type == FieldDescriptor.TYPE_STRING:
        return texts.map(lambda text: text.encode(errors="replace").decode())
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=20)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return st.floats(width=32)
    lowest, highest = _BOUNDS[field.type]
    return st.sampled_from([0, 1, 2, lowest, highest]) | st.integers(lowest, highest)
