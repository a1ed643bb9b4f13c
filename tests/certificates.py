"""Certificates for loopback, and the options of services that use them."""

from __future__ import annotations

import subprocess
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_LOOPBACK = "subjectAltName=IP:127.0.0.1,DNS:localhost"


def openssl(folder: Path, *arguments: str) -> None:
    """Runs openssl in a folder."""
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def make_authority(folder: Path, name: str) -> None:
    """Creates `name.pem` and `name.key`; the authority may also serve with them."""
    openssl(
        folder, "req", "-x509", *_KEY, "-days", "2", "-subj", f"/CN={name}", "-addext", _LOOPBACK,
        "-keyout", f"{name}.key", "-out", f"{name}.pem",
    )  # fmt: skip


def make_certificate(folder: Path, name: str, authority: str) -> None:
    """Creates a certificate signed by the authority, as `name.pem` and `name.key`."""
    openssl(folder, "req", *_KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    (folder / f"{name}.ext").write_text(_LOOPBACK)
    openssl(
        folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
        "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem",
    )  # fmt: skip


def secured(folder: Path, certificate: str = "service", authority: str = "ours") -> dict[str, str]:
    """Options for mutual TLS between services."""
    return {
        "security.ssl.internal.enabled": "true",
        "security.ssl.internal.cert": str(folder / f"{certificate}.pem"),
        "security.ssl.internal.key": str(folder / f"{certificate}.key"),
        "security.ssl.internal.ca": str(folder / f"{authority}.pem"),
    }
