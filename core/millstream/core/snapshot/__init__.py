"""Snapshots: their model, their files, and where they are stored. Importing this loads neither pyarrow nor NumPy."""

from millstream.core.snapshot.errors import IncompatibleStateError, SnapshotError, UnusableFileError
from millstream.core.snapshot.fitting.compatibility import (
    Compatibility,
    CompatibilityKind,
    compare_state,
    compare_types,
)
from millstream.core.snapshot.inspection.verify import check_files, verify_snapshot
from millstream.core.snapshot.metadata.model import (
    FORMAT_VERSION,
    METADATA_FILE,
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
    enumerator_property,
)
from millstream.core.snapshot.metadata.model_json import metadata_from_bytes, metadata_to_bytes
from millstream.core.snapshot.metadata.types_json import type_from_json, type_to_json
from millstream.core.snapshot.storage.file_storage import FileSystemStorage, storage_at
from millstream.core.snapshot.storage.memory_storage import MemoryStorage
from millstream.core.snapshot.storage.registry import SharedFileRegistry
from millstream.core.snapshot.storage.storage import CheckpointStorage, StateWriter, StoredCheckpoint, WrittenFile
from millstream.core.snapshot.tables.columns import Pickled
from millstream.core.snapshot.tables.files import FileFormat, read_state, write_state
from millstream.core.snapshot.tables.restore import Rows, read_rows
from millstream.core.snapshot.tables.table import (
    StateTypes,
    broadcast_table,
    element_table,
    list_table,
    map_table,
    timer_table,
    value_table,
)

__all__ = [
    "FORMAT_VERSION",
    "METADATA_FILE",
    "CheckpointStorage",
    "Compatibility",
    "CompatibilityKind",
    "FileFormat",
    "FileSystemStorage",
    "IncompatibleStateError",
    "MemoryStorage",
    "OperatorSnapshot",
    "Pickled",
    "Rows",
    "SharedFileRegistry",
    "SnapshotError",
    "SnapshotKind",
    "SnapshotMetadata",
    "StateFile",
    "StateKind",
    "StateSnapshot",
    "StateTypes",
    "StateWriter",
    "StoredCheckpoint",
    "TtlSettings",
    "TtlUpdate",
    "TtlVisibility",
    "TypeJson",
    "UnusableFileError",
    "ValueEncoding",
    "WrittenFile",
    "broadcast_table",
    "check_files",
    "compare_state",
    "compare_types",
    "element_table",
    "enumerator_property",
    "list_table",
    "map_table",
    "metadata_from_bytes",
    "metadata_to_bytes",
    "read_rows",
    "read_state",
    "storage_at",
    "timer_table",
    "type_from_json",
    "type_to_json",
    "value_table",
    "verify_snapshot",
    "write_state",
]
