"""`_metadata.json`: the model to bytes, and back with every field checked.

Decoding refuses what it does not know: another version, a missing or unknown field, a wrong type, a path that leaves
the snapshot's folder, contradictory numbers. The error names the file and the place in it.

The document has a checksum of itself: of its JSON without that field, with sorted keys, no spaces and only ASCII. So a
damaged letter in a name is not another name. A tool that writes a document of its own may leave it out.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from typing import Any

from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.keys.key_groups import HIGHEST_MAX_PARALLELISM
from millstream.core.snapshot.errors import SnapshotError, UnusableFileError
from millstream.core.snapshot.metadata.json_reader import JsonNode, parsed
from millstream.core.snapshot.metadata.model import (
    FORMAT_VERSION,
    OperatorSnapshot,
    SnapshotKind,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateSnapshot,
    TtlSettings,
    TtlUpdate,
    TtlVisibility,
    TypeJson,
    ValueEncoding,
    is_uri,
)
from millstream.core.snapshot.metadata.types_json import check_type_json

_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}\Z")
_NO_NAMES = frozenset({"", ".", ".."})  # in a plain path
_STATE_TYPES = ("key_type", "namespace_type", "value_type", "map_key_type")


def metadata_to_bytes(metadata: SnapshotMetadata) -> bytes:
    """The document, for people to read too."""
    document = {
        "version": metadata.version,
        "job_id": metadata.job_id,
        "job_name": metadata.job_name,
        "checkpoint_id": metadata.checkpoint_id,
        "kind": metadata.kind.value,
        "created_ms": metadata.created_ms,
        "properties": dict(metadata.properties),
        "operators": [operator_document(operator) for operator in metadata.operators],
    }
    return json.dumps(document | {"checksum": _checksum(document)}, indent=1, ensure_ascii=False).encode()


def _checksum(document: dict[str, Any]) -> str:
    content = {name: value for name, value in document.items() if name != "checksum"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    return f"sha256:{hashlib.sha256(canonical).hexdigest()}"


def operator_document(operator: OperatorSnapshot) -> dict[str, Any]:
    """An operator as the document writes it."""
    return {
        "operator_id": operator.operator_id,
        "uid": operator.uid,
        "name": operator.name,
        "parallelism": operator.parallelism,
        "max_parallelism": operator.max_parallelism,
        "finished": operator.finished,
        "states": [_state_to_json(state) for state in operator.states],
    }


def _state_to_json(state: StateSnapshot) -> dict[str, Any]:
    ttl = state.ttl
    return {
        "name": state.name,
        "kind": state.kind.value,
        **{name: getattr(state, name) for name in _STATE_TYPES},
        "encoding": state.encoding.value if state.encoding else None,
        "ttl": {"ttl_ms": ttl.ttl_ms, "update": ttl.update.value, "visibility": ttl.visibility.value} if ttl else None,
        "files": [_file_to_json(file) for file in state.files],
    }


def _file_to_json(file: StateFile) -> dict[str, Any]:
    document: dict[str, Any] = {
        "path": file.path,
        "subtask": file.subtask,
        "key_group_start": file.key_group_start,
        "key_group_end": file.key_group_end,
        "rows": file.rows,
        "size": file.size,
        "checksum": file.checksum,
    }
    if file.inline is not None:
        document["inline"] = base64.b64encode(file.inline).decode()
    return document


def metadata_from_bytes(data: bytes, file: str) -> SnapshotMetadata:
    """The model that a document holds; `file` is its name in errors."""
    return metadata_of(JsonNode(parsed(data, file), file))


def metadata_of(root: JsonNode) -> SnapshotMetadata:
    """The same of JSON that was parsed."""
    try:
        return _metadata(root)
    except SnapshotError as error:
        raise UnusableFileError(error.path, error.reason) from error


def _metadata(root: JsonNode) -> SnapshotMetadata:
    _check_version(root)
    root.fields(
        "version", "job_id", "job_name", "checkpoint_id", "kind", "created_ms", "operators",
        optional=("properties", "checksum"),
    )  # fmt: skip
    operators = _operators(root.field("operators"))
    properties, checksum = root.field("properties"), root.field("checksum")
    metadata = SnapshotMetadata(
        FORMAT_VERSION,
        JobId(root.field("job_id").text()),
        root.field("job_name").text(empty=True),
        root.field("checkpoint_id").integer(0),
        root.field("kind").enum(SnapshotKind),
        root.field("created_ms").integer(),
        operators,
        {} if properties.is_null() else {name: node.text(empty=True) for name, node in properties.entries()},
    )
    if metadata.kind is SnapshotKind.SAVEPOINT and metadata.shared_files():
        shared = metadata.shared_files()[0]
        raise SnapshotError(root.file, f"refers to {shared}, and all files of a savepoint lie in its folder")
    if not checksum.is_null() and checksum.text() != _checksum(root.value):
        raise SnapshotError(root.file, "is damaged: its content does not match its checksum")
    return metadata


def _check_version(root: JsonNode) -> None:
    if not isinstance(root.value, dict) or "version" not in root.value:
        raise root.error("is not a snapshot: it must be an object with the field 'version'")
    version = root.field("version").integer()
    if version != FORMAT_VERSION:
        raise SnapshotError(root.file, f"has format version {version}; this Millstream reads version {FORMAT_VERSION}")


def _unique(node: JsonNode, name: str, values: list[Any]) -> None:
    if len(set(values)) < len(values):
        twice, _ = Counter(values).most_common(1)[0]
        raise node.error(f"holds the {name} '{twice}' twice")


def operators_of(node: JsonNode) -> tuple[OperatorSnapshot, ...]:
    """A list of operators by itself, as JSON that was parsed."""
    try:
        return _operators(node)
    except SnapshotError as error:
        raise UnusableFileError(error.path, error.reason) from error


def _operators(node: JsonNode) -> tuple[OperatorSnapshot, ...]:
    operators = tuple(_operator(item) for item in node.items())
    _unique(node, "operator_id", [operator.operator_id for operator in operators])
    _unique(node, "uid", [operator.uid for operator in operators if operator.uid is not None])
    return operators


def _operator(node: JsonNode) -> OperatorSnapshot:
    node.fields("operator_id", "uid", "name", "parallelism", "max_parallelism", "states", optional=("finished",))
    parallelism, max_parallelism = node.field("parallelism"), node.field("max_parallelism")
    highest = max_parallelism.integer(1)
    if highest > HIGHEST_MAX_PARALLELISM:
        raise max_parallelism.error(f"is {highest}, and must be at most {HIGHEST_MAX_PARALLELISM}")
    if parallelism.integer(1) > highest:
        raise parallelism.error(f"is {parallelism.value}, above the max parallelism {highest}")
    states = tuple(_state(item, highest) for item in node.field("states").items())
    _unique(node.field("states"), "name", [state.name for state in states])
    uid, finished = node.field("uid"), node.field("finished")
    return OperatorSnapshot(
        OperatorId(node.field("operator_id").text()),
        None if uid.is_null() else uid.text(),
        node.field("name").text(empty=True),
        parallelism.integer(1),
        highest,
        states,
        False if finished.is_null() else finished.boolean(),
    )


def _state(node: JsonNode, max_parallelism: int) -> StateSnapshot:
    node.fields("name", "kind", "files", optional=(*_STATE_TYPES, "encoding", "ttl"))
    kind = node.field("kind").enum(StateKind)
    key_type = _type(node.field("key_type"))
    if kind.keyed and key_type is None:
        raise node.error(f"lacks the field 'key_type', which a state of kind {kind.value} has")
    encoding = node.field("encoding")
    files = tuple(_file(item, kind, max_parallelism) for item in node.field("files").items())
    _unique(node.field("files"), "path", [file.path for file in files])
    return StateSnapshot(
        node.field("name").text(),
        kind,
        key_type,
        _type(node.field("namespace_type")),
        _type(node.field("value_type")),
        _type(node.field("map_key_type")),
        None if encoding.is_null() else encoding.enum(ValueEncoding),
        _ttl(node.field("ttl")),
        files,
    )


def _type(node: JsonNode) -> TypeJson | None:
    if node.is_null():
        return None
    check_type_json(node)
    document: TypeJson = node.value
    return document


def _ttl(node: JsonNode) -> TtlSettings | None:
    if node.is_null():
        return None
    node.fields("ttl_ms", "update", "visibility")
    return TtlSettings(
        node.field("ttl_ms").integer(1),
        node.field("update").enum(TtlUpdate),
        node.field("visibility").enum(TtlVisibility),
    )


def _file(node: JsonNode, kind: StateKind, max_parallelism: int) -> StateFile:
    node.fields("path", "subtask", "key_group_start", "key_group_end", "rows", "size", "checksum", optional=("inline",))
    path, checksum, size = node.field("path"), node.field("checksum"), node.field("size").integer(0)
    if not is_uri(path.text()) and not _stays_inside(path.text()):
        raise path.error(f"is '{path.value:.200}', and must be a plain path inside the snapshot's folder, or a URI")
    if not _CHECKSUM.match(checksum.text()):
        raise checksum.error(f"is '{checksum.value:.100}', and must be 'sha256:' with 64 hexadecimal digits")
    start, end = _key_groups(node, kind, max_parallelism)
    inline = None if node.field("inline").is_null() else _bytes(node.field("inline"))
    if inline is not None and len(inline) != size:
        raise node.error(f"holds {len(inline)} bytes inline, and lists {size}")
    return StateFile(
        path.text(), node.field("subtask").integer(0), start, end, node.field("rows").integer(0), size, checksum.text(),
        inline,
    )  # fmt: skip


def _stays_inside(path: str) -> bool:
    return "\\" not in path and _NO_NAMES.isdisjoint(path.split("/"))


def _key_groups(node: JsonNode, kind: StateKind, max_parallelism: int) -> tuple[int | None, int | None]:
    start, end = node.field("key_group_start"), node.field("key_group_end")
    if start.is_null() and end.is_null():
        if kind.keyed:
            raise node.error(f"has no key groups, which files of a state of kind {kind.value} have")
        return None, None
    first, past = start.integer(0), end.integer(0)
    if not first <= past <= max_parallelism:
        raise node.error(
            f"has the key groups {first} to {past}, and must have a start up to its end, and an end up to the max "
            f"parallelism {max_parallelism}"
        )
    return first, past


def _bytes(node: JsonNode) -> bytes:
    try:
        return base64.b64decode(node.text(empty=True), validate=True)
    except (binascii.Error, ValueError) as error:
        raise node.error(f"is not base64: {error}") from error
