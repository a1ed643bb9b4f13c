"""Who calls the dispatcher, and what they may do."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any

from msgspec import Struct

from millstream.core.services.cluster_secret import user_of
from millstream.core.services.proven_calls import PROOF


class Role(IntEnum):
    """What a caller of the REST API may do, and what an endpoint needs. Each may do what those before it may."""

    ANYONE = 0
    READ = 1  # look at the cluster, its jobs and its logs
    OPERATE = 2  # cancel, stop and rescale jobs, take and delete snapshots
    SUBMIT = 3  # have code run

    @staticmethod
    def named(text: str) -> Role | None:
        """The role of this name that can be given to somebody."""
        return next((role for role in GIVEN_ROLES if role.name.lower() == text.lower()), None)


GIVEN_ROLES = (Role.READ, Role.OPERATE, Role.SUBMIT)


class Credential(Enum):
    """By what a caller is known."""

    NONE = "none"
    SECRET = "cluster secret"
    TOKEN = "token"
    CERTIFICATE = "certificate"


class Caller(Struct, frozen=True):
    """One who sends a request. With the cluster's secret, the name is what they say of themselves."""

    name: str
    credential: Credential
    role: Role
    origin: str
    """The address that the request came from."""


def rpc_caller(context: Any) -> Caller:
    """Who makes a gRPC call that was let through: with the secret, with a certificate, or where neither is needed."""
    origin = str(context.peer()).removeprefix("ipv4:").removeprefix("ipv6:")
    header = next((str(value) for key, value in context.invocation_metadata() or () if key == PROOF), "")
    if header:
        return Caller(user_of(header), Credential.SECRET, Role.SUBMIT, origin)
    names = context.auth_context().get("x509_common_name", ())
    if names:
        return Caller(bytes(names[0]).decode(errors="replace"), Credential.CERTIFICATE, Role.SUBMIT, origin)
    return Caller("", Credential.NONE, Role.SUBMIT, origin)
