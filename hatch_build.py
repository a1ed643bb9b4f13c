"""Generates the protobuf modules when the package is built or installed editable.

The generated files are never committed: `proto/millstream/proto/*.proto` is the only source. Services and stubs
are bound from the descriptors at run time (`millstream.core.services.rpc`), so only the message modules are generated.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProtobufBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's generic has no useful parameter here
    """Runs protoc over every contract before hatchling collects the files."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before each build; leaves `*_pb2.py` and `*_pb2.pyi` beside the contracts."""
        from grpc_tools import protoc

        root = Path(self.root) / "proto"
        contracts = sorted(str(path.relative_to(root)) for path in root.rglob("*.proto"))
        well_known = str(resources.files("grpc_tools") / "_proto")
        arguments = ["protoc", f"-I{root}", f"-I{well_known}", f"--python_out={root}", f"--pyi_out={root}", *contracts]
        if protoc.main(arguments) != 0:
            raise RuntimeError(f"protoc failed for {contracts}")
        build_data["artifacts"].append("proto/millstream/proto/*_pb2.py")
        build_data["artifacts"].append("proto/millstream/proto/*_pb2.pyi")
