"""The REST endpoint by which this server shows that it knows a token, before a client sends the token."""

from __future__ import annotations

from starlette.requests import Request

from millstream.core.services.challenge import NONCE, PATH
from millstream.dispatcher.callers import Role
from millstream.dispatcher.rest import schemas
from millstream.dispatcher.rest.authentication import Authentication
from millstream.dispatcher.rest.job_json import Json
from millstream.dispatcher.rest.table import Parameter, RestError, RestRoute

_NONCE: schemas.Schema = {"type": "string", "pattern": "^[0-9a-f]{32,128}$"}
_PARAMETERS = (
    Parameter("token", schemas.STRING, "The name of the token: role and end, or 16 digits of a hash.", required=True),
    Parameter("nonce", _NONCE, "32 to 128 hexadecimal digits, used once.", required=True),
)


class ChallengeEndpoints:
    """Proves knowledge of tokens; gives none away."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication

    def routes(self) -> list[RestRoute]:
        """The rows of the table for these endpoints."""
        return [
            RestRoute(
                "GET", PATH, self.challenge, "A proof that this server knows a token, for clients without TLS.",
                schemas.PROOF, parameters=_PARAMETERS, errors=(400, 404), needs=Role.ANYONE,
            )
        ]  # fmt: skip

    async def challenge(self, request: Request) -> Json:
        """`GET /challenge?token=NAME&nonce=NUMBER`."""
        name, nonce = request.query_params.get("token", ""), request.query_params.get("nonce", "")
        if NONCE.match(nonce) is None:
            raise RestError(400, "nonce: expected 32 to 128 hexadecimal digits, used once")
        proof = self._authentication.proof(name, nonce)
        if proof is None:
            raise RestError(404, "the token is not valid for this cluster, or has expired")
        return {"proof": proof}
