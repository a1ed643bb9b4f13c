"""A whole cluster with mutual TLS between its services and slot workers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from system import given, running_cluster, write_job

pytestmark = pytest.mark.process


def certificates(folder: Path) -> dict[str, str]:
    """An authority, and one certificate that it signed for loopback."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority", "-days", "2")
    openssl("req", *curve, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=millstream")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "request.pem", "-out", "cert.pem", *signed)
    files = {"cert": "cert.pem", "key": "key.pem", "ca": "ca.pem"}
    options = {f"security.ssl.internal.{name}": str(folder / file) for name, file in files.items()}
    return {"security.ssl.internal.enabled": "true", **options}


def test_a_job_runs_under_mutual_tls(tmp_path: Path) -> None:
    options = certificates(tmp_path)
    with running_cluster(tmp_path / "cluster", 2, 1, **options) as cluster:
        body = """
        print(sorted(env.from_sequence(1, 6).key_by(lambda x: x).map(lambda x: x * x).execute_and_collect()))
        """
        script = write_job(tmp_path, "squares", body)
        secured = given(*(f"{key}={value}" for key, value in options.items()))
        assert "[1, 4, 9, 16, 25, 36]" in cluster.run("-p", "2", *secured, str(script)).stdout
        refused = cluster.run("-p", "2", str(script), check=False)
        assert refused.returncode == 1, "a client without a certificate was let in"
