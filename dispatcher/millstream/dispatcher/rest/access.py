"""Which requests the REST API serves at all: those addressed to it, and not sent by web pages of others.

A client that reaches the API can run code, and a browser on its host reaches it. A page of another site can have the
browser send requests (a plain form needs no permission), and by changing what its own name resolves to, it becomes a
page of the API's address. The first shows in `Origin` and `Sec-Fetch-Site`, the second in `Host`: browsers set them,
and pages cannot. Clients other than browsers send neither of the first two.

The policy is pure; `GuardedApp` applies it before anything else handles a request.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.services import (
    REST_ADDRESS,
    REST_ALLOWED_HOSTS,
    REST_BIND_ADDRESS,
    SSL_REST_ENABLED,
)
from millstream.core.settings.options.submission import WEB_ACCESS_CONTROL_ALLOW_ORIGIN

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/@?#\\%,]+)(?::([0-9]{0,5}))?\Z")
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)\Z", re.DOTALL)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_WILDCARDS = frozenset({"0.0.0.0", "::", ""})
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Authority(Struct, frozen=True):
    """A host as it is compared, with its port as far as one was written."""

    host: str
    port: int | None

    @staticmethod
    def parse(text: str) -> Authority | None:
        """From `host`, `host:port` or `[address]:port`; None when it is none of these."""
        match = _AUTHORITY.match(text)
        if match is None:
            return None
        return Authority(_plain_host(match.group(1)), int(match.group(2)) if match.group(2) else None)


class AccessPolicy(Struct, frozen=True):
    """Which hosts requests may be addressed to, and which origins their pages may have."""

    hosts: frozenset[str]
    any_host: bool
    origins: frozenset[str]
    any_origin: bool
    own_address: bool  # whether the address that the connection was made to counts as well
    schemes: frozenset[str]  # of its own pages: a proxy may add TLS, and nothing takes it away

    @staticmethod
    def of(configuration: Configuration) -> AccessPolicy:
        """By the options. Raises ConfigurationError for one that cannot be meant."""
        served = (configuration.get(REST_ADDRESS), configuration.get(REST_BIND_ADDRESS))
        hosts = _listed(configuration, REST_ALLOWED_HOSTS)
        for host in hosts:
            authority = Authority.parse(host) if not _is_bare_ipv6(host) else Authority(host, None)
            if authority is None or authority.port is not None or ("*" in host and host != "*"):
                raise ConfigurationError(
                    f"option '{REST_ALLOWED_HOSTS}': '{host}' is no host; write names or addresses without scheme and "
                    "port, separated by commas, or * for any"
                )
        origins = _listed(configuration, WEB_ACCESS_CONTROL_ALLOW_ORIGIN)
        for origin in origins:
            if origin != "*" and _origin(origin) is None:
                raise ConfigurationError(
                    f"option '{WEB_ACCESS_CONTROL_ALLOW_ORIGIN}': '{origin}' is no origin; write them like "
                    "https://host:port, separated by commas, or * for any"
                )
        return AccessPolicy(
            hosts=frozenset(_plain_host(h) for h in (*served, *hosts) if h not in _WILDCARDS and h != "*"),
            any_host="*" in hosts,
            origins=frozenset(_plain_origin(o) for o in origins if o != "*"),
            any_origin="*" in origins,
            own_address=served[1] in _WILDCARDS,
            schemes=frozenset({"https"} if configuration.get(SSL_REST_ENABLED) else _DEFAULT_PORTS),
        )

    def refusal(self, target: str, headers: Headers, own_address: str) -> str | None:
        """Why a request is refused, or None. `own_address` is where the connection was made to."""
        named = headers.getlist("host")
        absolute = _ABSOLUTE.match(target)
        if absolute is not None:  # then the target counts; the header may not contradict the policy either
            named = [*named, absolute.group(2)]
        if not named and not self.any_host:
            return f"the request has no Host header; requests have to name a host of option '{REST_ALLOWED_HOSTS}'"
        if len(headers.getlist("host")) > 1:
            return "the request has several Host headers"
        for host in named:
            if not self._serves(host, own_address):
                return (
                    f"the API is not served under the host '{_shown(host)}'; if it should be, add the host to the "
                    f"dispatcher's option '{REST_ALLOWED_HOSTS}'"
                )
        return self._refused_page(headers, Authority.parse(named[-1]) if named else None)

    def _serves(self, host: str, own_address: str) -> bool:
        if self.any_host:
            return True
        authority = Authority.parse(host)
        if authority is None:
            return False
        if authority.host in self.hosts or _is_loopback(authority.host):
            return True
        return self.own_address and authority.host == _plain_host(own_address)

    def _refused_page(self, headers: Headers, addressed: Authority | None) -> str | None:
        if self.any_origin:
            return None
        origins = headers.getlist("origin")
        for origin in origins:
            if not self._accepts(origin, addressed):
                return (
                    f"requests from web pages of '{_shown(origin)}' are refused; if they should be served, add this "
                    f"origin to the dispatcher's option '{WEB_ACCESS_CONTROL_ALLOW_ORIGIN}'"
                )
        sites = headers.getlist("sec-fetch-site")
        if not origins and any(site.strip().lower() not in ("same-origin", "none") for site in sites):
            return (
                "requests from web pages of other sites are refused; pages of the origins in the dispatcher's option "
                f"'{WEB_ACCESS_CONTROL_ALLOW_ORIGIN}' are served"
            )
        return None

    def _accepts(self, origin: str, addressed: Authority | None) -> bool:
        page = _origin(origin)
        if page is None:
            return False
        if _plain_origin(origin) in self.origins:
            return True
        if _scheme(origin) not in self.schemes:
            return False
        default = _DEFAULT_PORTS[_scheme(origin)]
        if addressed is None or (page.port or default) != (addressed.port or default):
            return False  # a page of another server on the same host
        if _is_loopback(addressed.host) and _is_loopback(page.host):
            return True
        return page.host == addressed.host or (page.host in self.hosts and not _is_loopback(page.host))


class GuardedApp:
    """An application behind the policy. Pages of the listed origins may read its responses."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app = app
        self._policy = policy
        if policy.any_origin or policy.origins:
            origins: Sequence[str] = ["*"] if policy.any_origin else sorted(policy.origins)
            self._app = CORSMiddleware(app, allow_origins=origins, allow_methods=_METHODS, allow_headers=["*"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves the request, or responds with the reason for a refusal."""
        target = scope["path"]
        server = scope.get("server") or ("", 0)
        refusal = self._policy.refusal(target, Headers(scope=scope), str(server[0] or ""))
        if refusal is not None:
            await JSONResponse({"errors": [refusal]}, status_code=403)(scope, receive, send)
            return
        absolute = _ABSOLUTE.match(target)
        if absolute is not None:
            scope = {**scope, "path": absolute.group(3) or "/"}
        await self._app(scope, receive, send)


def _listed(configuration: Configuration, key: OptionKey[str]) -> list[str]:
    return [part.strip() for part in configuration.get(key).split(",") if part.strip()]


def _origin(text: str) -> Authority | None:
    match = _ABSOLUTE.match(text)
    if match is None or match.group(3) not in ("", "/"):
        return None
    return Authority.parse(match.group(2))


def _scheme(origin: str) -> str:
    return origin.partition("://")[0].lower()


def _plain_origin(origin: str) -> str:
    """As browsers write it: in lower case, with a port unless it is the scheme's own."""
    page, scheme = _origin(origin), _scheme(origin)
    assert page is not None
    host = f"[{page.host}]" if ":" in page.host else page.host
    return f"{scheme}://{host}" + (f":{page.port}" if page.port not in (None, _DEFAULT_PORTS.get(scheme)) else "")


def _is_bare_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


def _plain_host(text: str) -> str:
    """One spelling for each host: lower case, no brackets, no dot at the end, addresses in their short form."""
    host = text.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}..."
