"""Who calls the dispatcher, and what they may do."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from millstream.core.services.identity import CLUSTER_NAME


class Role(IntEnum):
    """What a caller of the REST API may do, and what an endpoint needs. Each may do what those before it may."""

    ANYONE = 0
    READ = 1  # read the cluster, its jobs and its logs
    OPERATE = 2  # cancel, stop and rescale jobs, take and delete snapshots
    SUBMIT = 3  # have code run

    @staticmethod
    def named(text: str) -> Role | None:
        """The role of this name, of those that can be granted."""
        return next((role for role in GIVEN_ROLES if role.name.lower() == text.lower()), None)


GIVEN_ROLES = (Role.READ, Role.OPERATE, Role.SUBMIT)


class Credential(Enum):
    """By what a caller is known."""

    NONE = "none"
    SECRET = "cluster secret"
    TOKEN = "token"
    CERTIFICATE = "certificate"


class Caller(Struct, frozen=True):
    """One who sends a request. With the cluster's secret, the name is that in the certificate."""

    name: str
    credential: Credential
    role: Role
    origin: str
    """The address that the request came from."""


def rpc_caller(context: Any) -> Caller:
    """Who makes a gRPC call that was let through: with the secret, with a certificate, or where neither is needed."""
    origin = str(context.peer()).removeprefix("ipv4:").removeprefix("ipv6:")
    shown = context.auth_context()
    names = shown.get("x509_common_name", ())
    if names:
        by_secret = CLUSTER_NAME.encode() in shown.get("x509_subject_alternative_name", ())
        credential = Credential.SECRET if by_secret else Credential.CERTIFICATE
        return Caller(unquote(bytes(names[0]).decode(errors="replace")), credential, Role.SUBMIT, origin)
    return Caller("", Credential.NONE, Role.SUBMIT, origin)
