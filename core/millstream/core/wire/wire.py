"""Converts between the frozen structs inside a process and the protobuf messages between processes.

A class is matched with the message of its contract by the names of the fields. The match is checked when the class is
first used in a message: a field that only one side has, or whose types differ, raises ContractError.

| in Python | in the contract |
|---|---|
| `int`, `str`, `bytes`, `bool`, `float`, a `NewType` of them | the same |
| an `Enum` of strings or integers | a string, an enum or an integer |
| `X | None` | `optional`, or a message that may be missing |
| `tuple[X, ...]`, `frozenset[X]` (sorted) | `repeated` |
| `Mapping[K, V]`, with no structs in it | `map` |
| a frozen struct (`msgspec.Struct`) | a message |
| a union of structs, as a whole message or as the field `kind` | a `oneof kind` |

The members of a `oneof` are matched by name: `cancel_job` is `CancelJob`, otherwise it is the class named like the
member's message. A member without fields may be `session.Empty`, one with a single field may be just that value.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from operator import attrgetter, methodcaller
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from msgspec import Struct, StructMeta

from millstream.core.errors import MillstreamError

M = TypeVar("M")
Convert = Callable[[Any], Any]
_PLAIN = (int, str, bytes, bool, float)


class WireError(MillstreamError):
    """The bytes are not a message of their contract, or contain values unknown to this process."""


class UnknownKindError(WireError):
    """The `kind` of a message is empty, or unknown to this process."""


class ContractError(TypeError):
    """A class does not match its message: a bug in the program."""


class Wire(Generic[M]):
    """Encodes and decodes one type of message. Used from any thread."""

    def __init__(self, python_type: Any, message_type: type[Message]) -> None:
        self.python_type = python_type
        self._message_type: Any = message_type

    @functools.cached_property
    def _converter(self) -> _Converter:
        return _Converters().of(self.python_type, self._message_type.DESCRIPTOR)

    def to_bytes(self, value: M) -> bytes:
        """Encodes a message."""
        message = self._message_type(**self._converter.encode(value))
        return message.SerializeToString()  # type: ignore[no-any-return]  # protobuf is untyped

    def from_bytes(self, raw: bytes) -> M:
        """Decodes a message. Raises WireError."""
        try:
            return self._converter.decode(self._message_type.FromString(raw))  # type: ignore[no-any-return]  # as above
        except _NoKind as error:
            raise UnknownKindError(self._refusal(error)) from error
        except (DecodeError, ValueError) as error:
            raise WireError(self._refusal(error)) from error

    def _refusal(self, error: Exception) -> str:
        return f"this is no {self._message_type.DESCRIPTOR.full_name} that is known here: {error}"


class _NoKind(ValueError):
    """The `kind` of a message is not set."""


class _Converter(Struct):
    """Converts between a class and its message. Built on first use: a process uses few of all kinds of a session.

    It encodes to the arguments of the message's constructor, with nested messages as dictionaries: message objects
    would be copied into their parent, which more than doubles the time.
    """

    encode: Convert
    decode: Convert


class _Converters:
    """The converters of all classes that a message may contain."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, str], _Converter] = {}

    def of(self, python_type: Any, descriptor: Descriptor) -> _Converter:
        known = self._known.get((python_type, descriptor.full_name))
        if known is None:
            known = self._known[python_type, descriptor.full_name] = self._unmade(python_type, descriptor)
        return known

    def _unmade(self, python_type: Any, descriptor: Descriptor) -> _Converter:
        """Returns a converter that is built on first use, possibly by two threads at once, which is harmless."""

        def make() -> None:
            pairing = self._envelope if _is_union(python_type) else self._struct
            converter.encode, converter.decode = pairing(python_type, descriptor)

        def encode(value: Any) -> Any:
            make()
            return converter.encode(value)

        def decode(message: Any) -> Any:
            make()
            return converter.decode(message)

        converter = _Converter(encode, decode)
        return converter

    # Messages

    def _envelope(self, union: Any, descriptor: Descriptor) -> tuple[Convert, Convert]:
        """Returns the conversions of a message that is one of several."""
        if any(field.containing_oneof is None for field in descriptor.fields):
            raise ContractError(f"{descriptor.full_name} has more than its oneof: it is no union, but has a `kind`")
        return self._kind(union, descriptor)

    def _struct(self, cls: Any, descriptor: Descriptor) -> tuple[Convert, Convert]:
        hints = typing.get_type_hints(cls)
        names = list(cls.__struct_fields__)
        plain = {field.name: field for field in descriptor.fields if _oneof_of(field) is None}
        wanted = {*plain, "kind"} if descriptor.oneofs_by_name.get("kind") else set(plain)
        if set(names) != wanted:
            raise ContractError(f"{cls.__name__} and {descriptor.full_name} differ in {sorted(set(names) ^ wanted)}")
        fields = {name: self._field(hints[name], field) for name, field in plain.items()}
        encode_kind, decode_kind = (
            self._kind(hints["kind"], descriptor) if "kind" in wanted and "kind" not in plain else (None, None)
        )
        same = [name for name, (encode, _) in fields.items() if encode is _same]
        encoders = [(name, attrgetter(name), encode) for name, (encode, _) in fields.items() if encode is not _same]
        by_name = [(name, fields[name][1]) for name in names if name not in cls.__match_args__]  # keyword-only
        decoders = [fields[name][1] if name in fields else decode_kind for name in cls.__match_args__]
        get_same = _attributes(same)

        def encode(value: Any) -> Any:
            content = dict(zip(same, get_same(value), strict=True))
            for name, get, convert in encoders:
                content[name] = convert(get(value))
            if encode_kind is not None:
                content |= encode_kind(value.kind)
            return content

        def decode(message: Any) -> Any:
            return cls(*[convert(message) for convert in decoders if convert is not None])

        def decode_with_names(message: Any) -> Any:
            values = [convert(message) for convert in decoders if convert is not None]
            return cls(*values, **{name: convert(message) for name, convert in by_name})

        return encode, decode_with_names if by_name else decode

    def _kind(self, union: Any, descriptor: Descriptor) -> tuple[Convert, Convert]:
        """Returns the conversions of a `oneof kind`: to a keyword of the message's constructor, and back."""
        classes = typing.get_args(union) if _is_union(union) else (union,)
        members = descriptor.oneofs_by_name["kind"].fields
        found = {member.name: _member_class(member, classes) for member in members}
        if left := set(classes) - set(found.values()):
            raise ContractError(f"{descriptor.full_name} has no member for {sorted(c.__name__ for c in left)}")
        encoders: dict[Any, tuple[str, Convert]] = {}
        decoders: dict[str, Convert] = {}
        for member in members:
            cls = found[member.name]
            encode, decode = self._member(cls, member)
            encoders[cls] = (member.name, encode)
            decoders[member.name] = decode

        def encode_kind(value: Any) -> dict[str, Any]:
            name, encode = encoders[type(value)]
            return {name: encode(value)}

        def decode_kind(message: Any) -> Any:
            name = message.WhichOneof("kind")
            if name is None:
                raise _NoKind("it has no content, or of a kind that is new")
            return decoders[name](getattr(message, name))

        return encode_kind, decode_kind

    def _member(self, cls: Any, member: FieldDescriptor) -> tuple[Convert, Convert]:
        if member.message_type is not None:
            converter = self.of(cls, member.message_type)
            return (lambda value: converter.encode(value)), (lambda message: converter.decode(message))
        (name,) = cls.__struct_fields__
        into, out_of = _scalar(typing.get_type_hints(cls)[name])
        get = attrgetter(name)
        return (lambda value: into(get(value))), (lambda value: cls(out_of(value)))

    # Fields

    def _field(self, hint: Any, field: FieldDescriptor) -> tuple[Convert, Convert]:
        """Returns the conversions of a field: to an argument of the message's constructor, and back."""
        get = attrgetter(field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _check(typing.get_origin(hint) is Mapping or typing.get_origin(hint) is dict, hint, field)
            return _map(get, *_scalar(typing.get_args(hint)[1]))
        if field.is_repeated:
            collection = typing.get_origin(hint)
            _check(collection in (tuple, frozenset), hint, field)
            into, out_of = self._element(typing.get_args(hint)[0], field)
            order: Convert = sorted if collection is frozenset else list
            return (
                _same if into is _same and order is list else lambda value: order(map(into, value)),
                lambda message: collection(map(out_of, get(message))),
            )
        if _is_union(hint):
            present, (inner, nothing) = methodcaller("HasField", field.name), _optional(hint, field)
            _check(field.has_presence and nothing is type(None), hint, field)
            into, out_of = self._element(inner, field)
            return (
                _same if into is _same else lambda value: None if value is None else into(value),
                lambda message: out_of(get(message)) if present(message) else None,
            )
        into, out_of = self._element(hint, field)
        return into, get if out_of is _same else lambda message: out_of(get(message))

    def _element(self, hint: Any, field: FieldDescriptor) -> tuple[Convert, Convert]:
        if field.message_type is None:
            return _scalar(hint)
        _check(isinstance(hint, StructMeta), hint, field)
        converter = self.of(hint, field.message_type)
        return (lambda value: converter.encode(value)), (lambda message: converter.decode(message))


def _scalar(hint: Any) -> tuple[Convert, Convert]:
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _same if issubclass(hint, str | int) else attrgetter("value"), hint
    if hint not in _PLAIN:
        raise ContractError(f"{hint} has no form on the wire")
    return _same, _same


def _map(get: Convert, into: Convert, out_of: Convert) -> tuple[Convert, Convert]:
    """Returns the conversions of a map, with a shortcut for empty ones: protobuf's maps are slow."""

    def encode(value: Mapping[Any, Any]) -> Any:
        if not value:
            return None
        return value if into is _same else {key: into(item) for key, item in value.items()}

    def decode(message: Any) -> dict[Any, Any]:
        entries = get(message)
        return {key: out_of(entries[key]) for key in entries} if entries else {}

    return encode, decode


def _same(value: Any) -> Any:
    """The identity, which marks fields that need no conversion, as most do."""
    return value


def _attributes(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Reads all attributes at once, which takes half the time of single reads."""
    match names:
        case []:
            return lambda _value: ()
        case [name]:
            return lambda value: (getattr(value, name),)
        case _:
            return attrgetter(*names)


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _optional(hint: Any, field: FieldDescriptor) -> tuple[Any, Any]:
    inner, *rest = typing.get_args(hint)
    _check(len(rest) == 1, hint, field)
    return inner, rest[0]


def _oneof_of(field: FieldDescriptor) -> str | None:
    """Returns the `kind` that the field is a member of, ignoring the implicit oneof of an `optional` field."""
    oneof = field.containing_oneof
    return oneof.name if oneof is not None and not oneof.name.startswith("_") else None


def _member_class(member: FieldDescriptor, classes: tuple[Any, ...]) -> Any:
    called = member.name.replace("_", "")
    for cls in classes:
        if cls.__name__.lower() == called:
            return cls
    for cls in classes:
        if member.message_type is not None and cls.__name__ == member.message_type.name:
            return cls
    raise ContractError(f"no class of {[c.__name__ for c in classes]} is the member {member.full_name}")


def _check(fits: bool, hint: Any, field: FieldDescriptor) -> None:
    if not fits:
        raise ContractError(f"{hint} is not the type of {field.full_name}")
