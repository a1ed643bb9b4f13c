"""Archives with given members, as users pack them."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping


def zip_of(members: Mapping[str | zipfile.ZipInfo, str | bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def tar_of(members: Mapping[str | tarfile.TarInfo, bytes], mode: str = "w:gz") -> bytes:
    """An archive of files, or of whatever a member's header specifies."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode, format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        for name, content in members.items():
            member = tarfile.TarInfo(name) if isinstance(name, str) else name
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()
