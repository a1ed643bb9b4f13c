"""A whole cluster with mutual TLS between its services and slot workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from certificates import make_authority, make_certificate, secured
from system import given, running_cluster, write_job

pytestmark = pytest.mark.process


def test_a_job_runs_under_mutual_tls(tmp_path: Path) -> None:
    make_authority(tmp_path, "ours")
    make_certificate(tmp_path, "service", "ours")
    options = secured(tmp_path)
    with running_cluster(tmp_path / "cluster", 2, 1, **options) as cluster:
        body = """
        print(sorted(env.from_sequence(1, 6).key_by(lambda x: x).map(lambda x: x * x).execute_and_collect()))
        """
        script = write_job(tmp_path, "squares", body)
        arguments = given(*(f"{key}={value}" for key, value in options.items()))
        for given_by_hand in ([], arguments):  # or found in the cluster's folder, which belongs to this user
            assert "[1, 4, 9, 16, 25, 36]" in cluster.run("-p", "2", *given_by_hand, str(script)).stdout
        refused = cluster.run("-p", "2", *given("security.ssl.internal.enabled=false"), str(script), check=False)
        assert refused.returncode == 1, "a client without a certificate was let in"
