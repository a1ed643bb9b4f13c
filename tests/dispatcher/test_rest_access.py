"""Which requests are served: by the host that they are addressed to, and by the page that sent them."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from dispatcher_fixtures import DEADLINE, Http, configuration, running, wheel
from starlette.datastructures import Headers

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.rest.access import AccessPolicy

_EVIL = {"Origin": "http://evil.example"}


def refusal(
    headers: list[tuple[str, str]], options: dict[str, str] | None = None, target: str = "/", own: str = "127.0.0.1"
) -> str | None:
    policy = AccessPolicy.of(Configuration(options))
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return policy.refusal(target, Headers(raw=raw), own)


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:8081", "localhost.", "localhost.:1", "127.0.0.1:8081", "127.8.9.10", "[::1]", "[::1]:80",
     "[0:0:0:0:0:0:0:1]:8081", "[::ffff:127.0.0.1]", "localhost:"],
)  # fmt: skip
def test_loopback_is_served_on_any_port(host: str) -> None:
    assert refusal([("Host", host)]) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8081", "127.0.0.1.evil.example", "localhost.evil.example", "localhost@evil.example",
     "evil.example@localhost", "10.0.0.1:8081", "0.0.0.0:8081", "[::]", "[::2]:8081", "[::1].evil.example", "",
     "localhost..", "2130706433", "127.1", "0x7f000001", "localhost:8081:1", "localhost/evil",
     "localhost, evil.example", "localhost:port", "xn--lcalhost-0ob", "*"],
)  # fmt: skip
def test_any_other_host_is_refused_and_the_option_is_named(host: str) -> None:
    assert "rest.allowed-hosts" in (refusal([("Host", host)]) or "")


def test_a_missing_host_and_a_second_one_are_refused() -> None:
    assert "no Host header" in (refusal([]) or "")
    assert "several Host headers" in (refusal([("Host", "localhost"), ("Host", "localhost")]) or "")
    forwarded = [("Host", "evil.example"), ("X-Forwarded-Host", "localhost"), ("Forwarded", "host=localhost")]
    assert "evil.example" in (refusal(forwarded) or "")


def test_the_target_names_the_host_too() -> None:
    assert refusal([("Host", "localhost")], target="http://localhost:8081/jobs") is None
    assert "evil" in (refusal([("Host", "localhost")], target="http://evil.example/jobs") or "")
    assert "evil" in (refusal([("Host", "evil.example")], target="http://localhost/jobs") or "")
    assert "evil" in (refusal([], target="http://evil.example/jobs") or "")


def test_hosts_of_the_options_are_served() -> None:
    options = {
        "rest.address": "Mill.example",
        "rest.bind-address": "10.0.0.5",
        "rest.allowed-hosts": "other.example, 2001:DB8::1, [2001:db8::2]",
    }
    for host in ("mill.example:1", "10.0.0.5:8081", "OTHER.example.", "[2001:db8::1]:80", "[2001:db8:0::2]"):
        assert refusal([("Host", host)], options) is None, host
    assert refusal([("Host", "sub.other.example")], options)
    assert refusal([("Host", "[2001:db8::3]")], options)


def test_on_all_addresses_the_one_that_was_connected_to_is_served() -> None:
    for bound, own in (("0.0.0.0", "10.0.0.5"), ("::", "::ffff:10.0.0.5")):
        options = {"rest.bind-address": bound}
        assert refusal([("Host", "10.0.0.5:8081")], options, own=own) is None
        assert refusal([("Host", "10.0.0.6:8081")], options, own=own)
        assert refusal([("Host", "evil.example")], options, own=own)
        assert refusal([("Host", "0.0.0.0:8081")], options, own=own)
    assert refusal([("Host", "10.0.0.5:8081")], own="10.0.0.5")


def test_any_host_is_the_users_word_and_origins_still_count() -> None:
    options = {"rest.allowed-hosts": "*"}
    assert refusal([("Host", "any.example")], options) is None
    assert refusal([], options) is None
    assert refusal([("Host", "any.example:81"), ("Origin", "http://any.example:81")], options) is None
    assert refusal([("Host", "any.example"), ("Origin", "http://evil.example")], options)
    assert refusal([("Origin", "http://evil.example")], options)


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:8081", "http://localhost:8081", "https://LOCALHOST:8081", "http://[::1]:8081"]
)
def test_the_apis_own_pages_are_served(origin: str) -> None:
    site = ("Sec-Fetch-Site", "same-origin")
    assert refusal([("Host", "127.0.0.1:8081"), ("Origin", origin), site]) is None


@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", "http://evil.example:8081", "http://127.0.0.1:3000", "http://127.0.0.1", "",
     "http://127.0.0.1:8081.evil.example", "http://127.0.0.1:8081@evil.example", "127.0.0.1:8081", "file://",
     "http://127.0.0.1:8081/path", "http://127.0.0.1:8081 http://evil.example", "*"],
)  # fmt: skip
def test_pages_of_others_are_refused_and_the_option_is_named(origin: str) -> None:
    assert "web.access-control-allow-origin" in (refusal([("Host", "127.0.0.1:8081"), ("Origin", origin)]) or "")
    both = [("Host", "127.0.0.1:8081"), ("Origin", "http://127.0.0.1:8081"), ("Origin", origin)]
    assert refusal(both)


def test_over_https_a_page_without_tls_is_not_the_apis_own() -> None:
    tls = {"security.ssl.rest.enabled": "true"}
    assert refusal([("Host", "localhost:8081"), ("Origin", "https://localhost:8081")], tls) is None
    assert "http://localhost" in (refusal([("Host", "localhost:8081"), ("Origin", "http://localhost:8081")], tls) or "")


def test_a_page_of_the_same_port_on_another_machine_is_not_the_apis_own() -> None:
    options = {"rest.address": "mill.example"}
    assert refusal([("Host", "mill.example:8081"), ("Origin", "http://localhost:8081")], options)
    assert refusal([("Host", "mill.example"), ("Origin", "http://mill.example")], options) is None
    assert refusal([("Host", "mill.example"), ("Origin", "https://mill.example:443")], options) is None


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "something-new"])
def test_a_page_that_names_no_origin_is_refused_by_its_site(site: str) -> None:
    host = ("Host", "localhost:8081")
    assert refusal([host, ("Sec-Fetch-Site", site)])
    assert refusal([host, ("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", site)])
    assert refusal([host, ("Sec-Fetch-Site", site)], {"web.access-control-allow-origin": "*"}) is None
    assert refusal([host, ("Sec-Fetch-Site", "none")]) is None


def test_origins_of_the_option_are_served() -> None:
    options = {"web.access-control-allow-origin": "https://Dash.example:443, http://[2001:db8::1]:3000/"}
    for origin in ("https://dash.example", "http://[2001:db8::1]:3000"):
        headers = [("Host", "localhost:8081"), ("Origin", origin), ("Sec-Fetch-Site", "cross-site")]
        assert refusal(headers, options) is None, origin
    for origin in ("http://dash.example", "https://dash.example:444", "https://x.dash.example", "null"):
        assert refusal([("Host", "localhost:8081"), ("Origin", origin)], options), origin
    assert refusal([("Host", "localhost"), ("Origin", "null")], {"web.access-control-allow-origin": "*"}) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [("rest.allowed-hosts", "http://a.example"), ("rest.allowed-hosts", "a.example:80"), ("rest.allowed-hosts", "*.a"),
     ("web.access-control-allow-origin", "a.example"), ("web.access-control-allow-origin", "https://a.example/x")],
)  # fmt: skip
def test_an_option_that_cannot_be_meant_is_an_error(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=key):
        AccessPolicy.of(Configuration({key: value}))


async def _raw(address: str, request: str) -> bytes:
    host, _, port = address.rpartition(":")

    def exchange() -> bytes:
        with socket.create_connection((host, int(port)), timeout=DEADLINE) as connection:
            connection.sendall(request.encode())
            return b"".join(iter(lambda: connection.recv(65536), b""))

    return await asyncio.to_thread(exchange)


async def test_every_path_and_method_is_behind_it(tmp_path: Path) -> None:
    program = f"import pathlib\ndef main():\n    pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    options = configuration(tmp_path)
    async with running(options) as service:
        http = Http(service.rest_address)
        uploaded = await http.upload("tinyjob-1.0-py3-none-any.whl", wheel({"tinyjob.py": program}))
        path = f"/jars/{uploaded.json['filename'].rpartition('/')[2]}/plan"
        for method, where in (
            ("GET", path), ("POST", path), ("GET", f"/v1{path.replace('jars', 'wheels')}"),
            ("GET", "/openapi.json"), ("GET", "/nowhere"), ("PUT", "/jobs"), ("OPTIONS", "/jobs"),
            ("HEAD", "/overview"), ("POST", "/jars/upload"), ("DELETE", path.removesuffix("/plan")),
        ):  # fmt: skip
            for headers in ({"Host": "evil.example"}, _EVIL, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
                response = await http(method, where, headers=headers, status=403)
                assert method == "HEAD" or set(response.json) == {"errors"}
                assert "access-control-allow-origin" not in response.headers
        assert not (tmp_path / "ran").exists()
        assert len((await http("GET", "/jars")).json["files"]) == 1
        assert b" 403 " in await _raw(service.rest_address, "GET /overview HTTP/1.0\r\n\r\n")
        end = "Host: localhost\r\nConnection: close\r\n\r\n"
        assert b" 200 " in await _raw(service.rest_address, f"GET http://localhost/overview HTTP/1.1\r\n{end}")
        assert b" 403 " in await _raw(service.rest_address, f"GET http://evil.example/overview HTTP/1.1\r\n{end}")
        assert b" 400 " in await _raw(service.rest_address, f"GET /overview HTTP/1.1\r\nHost: a.example\r\n{end}")


async def test_a_listed_origin_may_send_preflight_requests_and_read_the_response(tmp_path: Path) -> None:
    options = configuration(tmp_path, **{"web.access-control-allow-origin": "https://dash.example"})
    async with running(options) as service:
        http = Http(service.rest_address)
        page = {"Origin": "https://dash.example"}
        assert (await http("GET", "/jobs", headers=page, status=200)).headers[
            "access-control-allow-origin"
        ] == "https://dash.example"
        asked = {**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        assert (
            "POST"
            in (await http("OPTIONS", "/jobs", headers=asked, status=200)).headers["access-control-allow-methods"]
        )
        await http("OPTIONS", "/jobs", headers={**asked, **_EVIL}, status=403)
