"""Who sends a REST request, by what it shows, and how often they may.

A cluster that has a secret or tokens, or requires client certificates, refuses requests without one. What counts:

- `Authorization: Bearer ...` with a token of the tokens file, or one that was made from the secret for a role. The
  command line makes one for each request, and sends it over TLS to a server that has shown that it has the secret, too;
- the user who runs the service, through the Unix socket `rest.unix-socket`: its folder is open to no other;
- a certificate of the authority in `security.ssl.rest.ca`, which TLS has checked before anything is sent. Where there
  are tokens, one of them is needed as well, and has the role.

What was shown and does not count is in the audit log. Without any of these options every caller may do everything, as
in Flink.
"""

from __future__ import annotations

import hmac
import logging
import re
from urllib.parse import unquote

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream.core.clock import Clock
from millstream.core.logs.printable import printable
from millstream.core.services import challenge
from millstream.core.services.cluster_secret import cluster_secret
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import (
    REST_AUTH_TOKENS_FILE,
    REST_RATE_LIMIT,
    SSL_REST_AUTHENTICATION_ENABLED,
)
from millstream.dispatcher.audit import Audit
from millstream.dispatcher.callers import Caller, Credential, Role
from millstream.dispatcher.rest.connection import CERTIFICATE, OWNER
from millstream.dispatcher.rest.forwarding import USER_HEADER
from millstream.dispatcher.rest.rates import RateLimit
from millstream.dispatcher.rest.tokens import TokensFile

log = logging.getLogger(__name__)
_CHALLENGES = frozenset({challenge.PATH, f"/v1{challenge.PATH}"})
_LONGEST_NAME = 100
_UNTIL = re.compile(r"[0-9]{1,12}\Z")
_MOST_CLIENTS = 10_000
_REFUSALS = 10  # a second of one address: each is a line of the audit log, whose size is bounded


class RefusedCredentials(Exception):
    """What was shown does not count; the words are for who showed it."""


class Shown(Struct, frozen=True):
    """What a request shows of its sender."""

    authorization: str = ""
    certificate: str = ""
    """The name in the client's certificate, which TLS has checked."""
    owner: str = ""
    """The user's name, of a request through the Unix socket."""
    user: str = ""
    """By the header of the request."""
    origin: str = ""


class Authentication:
    """Decides who sends a request. Owned by the server's loop."""

    def __init__(self, configuration: Configuration, clock: Clock) -> None:
        self._clock = clock
        self._secret = cluster_secret(configuration)
        tokens = configuration.get(REST_AUTH_TOKENS_FILE)
        self._tokens = TokensFile(tokens) if tokens else None
        if self._tokens is not None:
            self._tokens.all()  # raises at once when it cannot be used
        self._needs_certificates = configuration.get(SSL_REST_AUTHENTICATION_ENABLED)

    @property
    def is_open(self) -> bool:
        """Whether every caller may do everything."""
        return self._secret is None and self._tokens is None and not self._needs_certificates

    def caller(self, shown: Shown) -> Caller:
        """Who sends the request. Raises RefusedCredentials."""
        if self.is_open:
            return Caller("", Credential.NONE, Role.SUBMIT, shown.origin)
        scheme, _, value = shown.authorization.partition(" ")
        match scheme.lower():
            case "" if shown.owner:
                return Caller(shown.owner, Credential.SECRET, Role.SUBMIT, shown.origin)
            case "" if shown.certificate and self._tokens is None:
                return Caller(shown.certificate, Credential.CERTIFICATE, Role.SUBMIT, shown.origin)
            case "":
                return Caller("", Credential.NONE, Role.ANYONE, shown.origin)
            case "bearer":
                return self._of_token(value.strip(), shown)
            case _:
                raise RefusedCredentials("the Authorization header has to be 'Bearer' with a token")

    def proof(self, name: str, nonce: str) -> str | None:
        """What shows a client that this server knows the token of this name; None: it does not."""
        role, _, until = name.partition(".")
        if self._secret is not None and _UNTIL.match(until) is not None:
            return challenge.proof(challenge.hash_of(self._secret.rest_token(role, int(until))), nonce)
        hashes = (token.sha256 for token in (self._tokens.all() if self._tokens is not None else ()))
        known = next((one for one in hashes if challenge.name_of_hash(one) == name), None)
        return None if known is None else challenge.proof(known, nonce)

    def _of_token(self, token: str, shown: Shown) -> Caller:
        if (role := self._role_of_secret(token)) is not None:
            return Caller(shown.user, Credential.SECRET, role, shown.origin)
        for known in self._tokens.all() if self._tokens is not None else ():
            if known.is_of(token):
                return Caller(known.name, Credential.TOKEN, known.role, shown.origin)
        raise RefusedCredentials("the token is not valid for this cluster, or has expired")

    def _role_of_secret(self, token: str) -> Role | None:
        given, _, rest = token.partition(".")
        until, role = rest.partition(".")[0], Role.named(given)
        if self._secret is None or role is None or _UNTIL.match(until) is None:
            return None
        expected = self._secret.rest_token(role.name.lower(), int(until))
        is_ours = hmac.compare_digest(expected.encode(), token.encode())
        if is_ours and int(until) * 1000 < self._clock.now_ms():
            raise RefusedCredentials("the token has expired: make a new one with `millstream cluster token`")
        return role if is_ours else None


class AuthenticatedApp:
    """Puts the caller of each request in `scope["state"]["caller"]`, and bounds the rate of requests of a client."""

    def __init__(
        self, app: ASGIApp, authentication: Authentication, configuration: Configuration, clock: Clock, audit: Audit
    ) -> None:
        self._authentication = authentication
        self._audit = audit
        self._app = app
        self._clock = clock
        rate = configuration.get(REST_RATE_LIMIT)
        self._is_limited = rate > 0
        self._rates = RateLimit(rate, _MOST_CLIENTS)
        self._refusals = RateLimit(_REFUSALS, _MOST_CLIENTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves the request, or responds with the reason for a refusal."""
        headers = Headers(scope=scope)
        host, port = scope.get("client") or ("", 0)
        state, refused = scope.get("state", {}), ""
        try:
            given = headers.getlist("authorization")
            if len(given) > 1:
                raise RefusedCredentials("the request has several Authorization headers")
            shown = Shown(
                authorization=given[0] if given else "",
                certificate=str(state.get(CERTIFICATE, "")),
                owner=str(state.get(OWNER, "")),
                user=printable(unquote(headers.get(USER_HEADER.decode(), "")))[:_LONGEST_NAME],
                origin=f"{host}:{port}" if host else "the Unix socket",
            )
            caller = self._authentication.caller(shown)
        except RefusedCredentials as error:
            caller, refused = Caller("", Credential.NONE, Role.ANYONE, f"{host}:{port}"), str(error)
        except Exception:  # a tokens file that was spoilt while the server runs: no request is served
            caller = Caller("", Credential.NONE, Role.ANYONE, f"{host}:{port}")
            refused = "the cluster's tokens cannot be read; the dispatcher's log has the details"
            log.exception("cannot authenticate a request")
        client = caller.name or caller.credential.value if caller.role is not Role.ANYONE else host
        now = self._clock.monotonic()
        # a challenge comes before its client is known: others of the same address must not use its rate up
        wait = 0.0 if scope["path"] in _CHALLENGES else self._rates.wait(str(client), now)
        too_often = self._refusals.wait(str(client), now) if refused and not wait else 0.0
        if wait or (too_often and self._is_limited):
            await _too_many(wait or too_often)(scope, receive, send)
            return
        if refused:
            if not too_often:
                self._audit.record("log in", caller, failure=refused, request=f"{scope['method']} {scope['path']}")
            await unauthorized(refused)(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send)


def unauthorized(reason: str) -> JSONResponse:
    """The response to a request without valid credentials."""
    return JSONResponse({"errors": [reason]}, 401, {"WWW-Authenticate": 'Bearer realm="millstream"'})


def _too_many(wait: float) -> JSONResponse:
    reason = "too many requests of this client; 'rest.rate-limit' is how many a second are served"
    return JSONResponse({"errors": [reason]}, 429, {"Retry-After": str(max(1, round(wait)))})
