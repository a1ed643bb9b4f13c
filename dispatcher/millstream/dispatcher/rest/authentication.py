"""Who sends a REST request, by what it shows, and how often they may.

A cluster that has a secret, tokens, or asks for client certificates serves nobody else. What counts as showing one:

- `Authorization: Millstream-Proof ...`, which the command line sends: a proof of the secret for this request. The
  answer carries the server's, so that whoever merely took the port is not believed;
- `Authorization: Bearer ...` with a token of the tokens file, or one that is derived from the secret for a role;
- a certificate of the authority in `security.ssl.rest.ca`, which TLS has checked before anything is sent. Where there
  are tokens, one of them is needed as well, and says the role.

What was shown and does not count is in the audit log. Without any of these options every caller may do everything, as
in Flink.
"""

from __future__ import annotations

import hmac
import logging

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millstream.core.clock import Clock
from millstream.core.services.cluster_secret import ProofError, cluster_secret
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.audit import Audit
from millstream.dispatcher.callers import GIVEN_ROLES, Caller, Credential, Role
from millstream.dispatcher.rest.connection import CERTIFICATE
from millstream.dispatcher.rest.rates import RateLimit
from millstream.dispatcher.rest.tokens import TokensFile

log = logging.getLogger(__name__)
PROOF_SCHEME = "Millstream-Proof"
ANSWER_HEADER = "Millstream-Answer"
_MOST_CLIENTS = 10_000
_REFUSALS = 10  # a second of one address: each is a line of the audit log, whose size is bounded


class RefusedCredentials(Exception):
    """What was shown does not count; the words are for who showed it."""


class Authentication:
    """Decides who sends a request. Owned by the server's loop."""

    def __init__(self, configuration: Configuration) -> None:
        self._secret = cluster_secret(configuration)
        tokens = configuration.string("security.rest.auth.tokens-file")
        self._tokens = TokensFile(tokens) if tokens else None
        if self._tokens is not None:
            self._tokens.all()  # says at once when it cannot be used
        self._asks_for_certificates = configuration.boolean("security.ssl.rest.authentication-enabled")
        secret = self._secret
        self._derived = [] if secret is None else [(r, secret.rest_token(r.name.lower())) for r in GIVEN_ROLES]

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything."""
        return self._secret is None and self._tokens is None and not self._asks_for_certificates

    def caller(self, request: str, authorization: str, certificate: str, origin: str) -> tuple[Caller, str | None]:
        """Who sends the request, and what to answer to their proof. Raises RefusedCredentials.

        `request` is its method and target, `certificate` the name in the client's one.
        """
        if self.is_open:
            return Caller("", Credential.NONE, Role.SUBMIT, origin), None
        scheme, _, value = authorization.partition(" ")
        match scheme.lower():
            case "":
                if certificate and self._tokens is None:
                    return Caller(certificate, Credential.CERTIFICATE, Role.SUBMIT, origin), None
                return Caller("", Credential.NONE, Role.ANYONE, origin), None
            case "bearer":
                name, credential, role = self._of_token(value.strip())
                return Caller(name, credential, role, origin), None
            case "millstream-proof" if self._secret is not None:
                try:
                    user, answer = self._secret.check(value, request)
                except ProofError as error:
                    raise RefusedCredentials(str(error)) from error
                return Caller(user, Credential.SECRET, Role.SUBMIT, origin), answer
            case "millstream-proof":
                raise RefusedCredentials("this cluster has no secret, and the request proves one")
            case _:
                raise RefusedCredentials("the Authorization header has to be 'Bearer' with a token")

    def _of_token(self, token: str) -> tuple[str, Credential, Role]:
        found: tuple[str, Credential, Role] | None = None
        for role, derived in self._derived:
            if hmac.compare_digest(derived.encode(), token.encode()):
                found = "", Credential.SECRET, role
        for known in self._tokens.all() if self._tokens is not None else ():
            if known.is_of(token):
                found = known.name, Credential.TOKEN, known.role
        if found is None:
            raise RefusedCredentials("the token is none of this cluster's, or no longer")
        return found


class AuthenticatedApp:
    """An application that is told who sends each request, in `scope["state"]["caller"]`, and is not asked too often."""

    def __init__(self, app: ASGIApp, configuration: Configuration, clock: Clock, audit: Audit) -> None:
        self.authentication = Authentication(configuration)
        self._audit = audit
        self._app = app
        self._clock = clock
        rate = configuration.integer("rest.rate-limit")
        self._is_limited = rate > 0
        self._rates = RateLimit(rate, _MOST_CLIENTS)
        self._refusals = RateLimit(_REFUSALS, _MOST_CLIENTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves the request, or answers why not."""
        headers = Headers(scope=scope)
        host, port = scope.get("client") or ("", 0)
        query = scope["query_string"].decode("latin-1")
        request = f"{scope['method']} {scope['raw_path'].decode('latin-1')}{'?' if query else ''}{query}"
        certificate = str(scope.get("state", {}).get(CERTIFICATE, ""))
        refused, answer = "", None
        try:
            given = headers.getlist("authorization")
            if len(given) > 1:
                raise RefusedCredentials("the request has several Authorization headers")
            caller, answer = self.authentication.caller(
                request, given[0] if given else "", certificate, f"{host}:{port}"
            )
        except RefusedCredentials as error:
            caller, refused = Caller("", Credential.NONE, Role.ANYONE, f"{host}:{port}"), str(error)
        except Exception:  # a tokens file that was spoilt while the server runs: nobody is let in
            caller = Caller("", Credential.NONE, Role.ANYONE, f"{host}:{port}")
            refused = "the cluster's tokens cannot be read; the dispatcher's log has the details"
            log.exception("cannot tell who sends a request")
        client = caller.name or caller.credential.value if caller.role is not Role.ANYONE else host
        now = self._clock.monotonic()
        wait = self._rates.wait(str(client), now)
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

        async def sending(message: Message) -> None:
            if answer is not None and message["type"] == "http.response.start":
                MutableHeaders(scope=message)[ANSWER_HEADER] = answer
            await send(message)

        await self._app(scope, receive, sending)


def unauthorized(reason: str) -> JSONResponse:
    """The answer to who has not shown who they are."""
    return JSONResponse({"errors": [reason]}, 401, {"WWW-Authenticate": 'Bearer realm="millstream"'})


def _too_many(wait: float) -> JSONResponse:
    reason = "too many requests of this client; 'rest.rate-limit' says how many a second are answered"
    return JSONResponse({"errors": [reason]}, 429, {"Retry-After": str(max(1, round(wait)))})
