"""Where services may listen, and mutual TLS between a real server and real clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import certificates
import grpc
import pytest
from waiting import DEADLINE

from millstream.core.errors import ConfigurationError, MillstreamError
from millstream.core.messages import resource_manager as msg
from millstream.core.messages.session import Empty
from millstream.core.services.rpc import Stub, explain, open_channel, serve, service_handler
from millstream.core.services.security import check_listen, is_loopback, server_credentials
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import RESOURCE_MANAGER

TLS = "security.ssl.internal.enabled"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_loopback_is_served_without_security(host: str) -> None:
    assert is_loopback(host)
    check_listen(host, Configuration(), TLS, "rest.port")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.5", "example.com", ""])
def test_other_addresses_require_security_or_consent(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ConfigurationError) as caught:
        check_listen(host, Configuration(), TLS, "rest.bind-address")
    message = str(caught.value)
    assert message.startswith(f"rest.bind-address: refusing to listen on {host}")
    assert TLS in message
    assert "security.allow-insecure: true" in message
    check_listen(host, Configuration({"security.allow-insecure": True}), TLS, "rest.bind-address")
    check_listen(host, Configuration({TLS: True}), TLS, "rest.bind-address")


class Overview:
    async def connect_task_manager(self, _requests: Any, _context: Any) -> None: ...

    async def connect_job_manager(self, _requests: Any, _context: Any) -> None: ...

    async def get_overview(self, _request: Empty, _context: Any) -> msg.Overview:
        return msg.Overview(pending_slots=7)


@asynccontextmanager
async def serving(configuration: Configuration, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """Yields the port that it listens on."""
    handlers = [service_handler(RESOURCE_MANAGER, Overview())]
    server, bound = await serve(host, port, handlers, configuration, "resourcemanager.rpc.port")
    try:
        yield bound
    finally:
        await server.stop(0)


async def call(port: int, configuration: Configuration) -> int:
    async with open_channel(f"127.0.0.1:{port}", configuration) as channel:
        overview = await Stub(channel, RESOURCE_MANAGER).get_overview(Empty(), timeout=DEADLINE)
        assert isinstance(overview, msg.Overview)
        return overview.pending_slots


async def test_a_server_refuses_to_listen_on_all_addresses_without_security() -> None:
    with pytest.raises(ConfigurationError, match=r"resourcemanager\.rpc\.port: refusing to listen on 0\.0\.0\.0"):
        async with serving(Configuration(), "0.0.0.0"):
            pass


async def test_a_port_in_use_is_named() -> None:
    async with serving(Configuration()) as port:
        with pytest.raises(MillstreamError, match=rf"127\.0\.0\.1:{port} \(resourcemanager\.rpc\.port\)"):
            async with serving(Configuration(), port=port):
                pass


async def test_a_stub_has_only_the_methods_of_its_contract() -> None:
    async with open_channel("127.0.0.1:1", Configuration()) as channel:
        with pytest.raises(AttributeError, match="get_everything"):
            _ = Stub(channel, RESOURCE_MANAGER).get_everything


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    certificates.make_authority(folder, "ours")
    certificates.make_authority(folder, "theirs")
    certificates.make_certificate(folder, "service", "ours")
    certificates.make_certificate(folder, "stranger", "theirs")
    return folder


def secured(*place: Any) -> Configuration:
    return Configuration(certificates.secured(*place))


@pytest.mark.process
async def test_services_of_one_authority_communicate(pairs: Path) -> None:
    async with serving(secured(pairs)) as port:
        assert await call(port, secured(pairs)) == 7


@pytest.mark.process
@pytest.mark.parametrize("who", ["plain text", "no certificate", "another authority's certificate"])
async def test_a_client_without_a_certificate_of_the_authority_is_refused(pairs: Path, who: str) -> None:
    async with serving(secured(pairs)) as port:
        if who == "no certificate":
            anonymous = grpc.ssl_channel_credentials((pairs / "ours.pem").read_bytes())
            channel = grpc.aio.secure_channel(f"127.0.0.1:{port}", anonymous)
        elif who == "plain text":
            channel = open_channel(f"127.0.0.1:{port}", Configuration())
        else:
            channel = open_channel(f"127.0.0.1:{port}", secured(pairs, "stranger"))
        async with channel:
            with pytest.raises(grpc.RpcError) as caught:
                await Stub(channel, RESOURCE_MANAGER).get_overview(Empty(), timeout=DEADLINE)
            assert "\n" not in explain(caught.value)
        assert await call(port, secured(pairs)) == 7


@pytest.mark.process
async def test_a_server_of_another_authority_is_not_trusted(pairs: Path) -> None:
    async with serving(secured(pairs, "stranger", "ours")) as port:
        with pytest.raises(grpc.RpcError):
            await call(port, secured(pairs))


@pytest.mark.process
@pytest.mark.parametrize("missing", ["cert", "key", "ca"])
def test_a_missing_file_is_named(pairs: Path, missing: str) -> None:
    key = f"security.ssl.internal.{missing}"
    with pytest.raises(ConfigurationError, match=f"option '{key}': cannot read /nowhere: No such file"):
        server_credentials(secured(pairs).merged({key: "/nowhere"}))
    with pytest.raises(ConfigurationError, match=f"option '{key}' is needed when {TLS} is true"):
        server_credentials(secured(pairs).merged({key: ""}))


@pytest.mark.process
async def test_files_that_are_not_a_pair_are_not_blamed_on_the_port(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "garbage.pem").write_text("this is no certificate")
    for cert in (tmp_path / "garbage.pem", pairs / "stranger.pem"):
        configuration = secured(pairs).merged({"security.ssl.internal.cert": cert})
        with pytest.raises(ConfigurationError) as caught:
            async with serving(configuration):
                pass
        message = str(caught.value)
        assert message.startswith(f"security.ssl.internal.cert ({cert}) and security.ssl.internal.key")
        assert "\n" not in message


@pytest.mark.process
def test_a_key_with_a_passphrase_is_refused_without_prompting_for_it(pairs: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked.key"
    certificates.openssl(pairs, "pkcs8", "-topk8", "-in", "service.key", "-out", str(locked), "-passout", "pass:secret")
    with pytest.raises(ConfigurationError, match="unencrypted private key"):
        server_credentials(secured(pairs).merged({"security.ssl.internal.key": locked}))
