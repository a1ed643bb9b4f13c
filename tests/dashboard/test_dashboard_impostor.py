"""An open page of the dashboard, while another program has the dispatcher's port: its token is not sent there."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Watched, running_browser
from impostor import impostor
from playwright.sync_api import expect
from system import running_cluster
from waiting import wait_until

from millstream.core.services.cluster_secret import cluster_secret
from millstream.dispatcher.dashboard.files import built_files

pytestmark = pytest.mark.process


def test_a_page_sends_its_token_to_a_server_that_knows_it_alone(tmp_path: Path) -> None:
    if not (built_files() / "index.html").is_file():
        pytest.skip("the dashboard was not built: there was no npm when the package was installed")
    with running_cluster(tmp_path / "cluster", 0, 1) as cluster, running_browser() as browser:
        secret = cluster_secret(cluster.security)
        assert secret is not None
        token, own = secret.rest_token("submit"), ("--dir", str(cluster.directory))
        watched = Watched(browser, f"http://{cluster.rest}")
        watched.log_in(token)
        connection = watched.page.locator(".connection")
        expect(connection).to_have_text("Live")
        cluster.cli("cluster", "stop", *own, "dispatcher")
        with impostor(cluster.ports["rest.port"]) as other:
            wait_until(lambda: other.recorded.count(b"GET /challenge?") >= 3, "the page to try again")
        assert b"authorization" not in other.recorded.lower()
        assert token.encode() not in other.recorded
        cluster.cli("cluster", "start", *own, "dispatcher")
        expect(connection).to_have_text("Live")
        watched.close()
