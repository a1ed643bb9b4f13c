"""Hides credentials: decides which options hold them, and removes them from texts. The only place that does.

Credentials are recognised by the names of options, as in Flink, and in URIs: before the host
(`s3://key:secret@bucket/path`) and in parameters (`?secret_key=...`). Logs, REST responses, errors on a terminal and
`repr` are filtered here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from millstream.core.settings.options.services import CLUSTER_SECRET_FILE, REST_AUTH_TOKEN_FILE, REST_AUTH_TOKENS_FILE

HIDDEN = "******"
_SENSITIVE = (
    "password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "api-key", "api_key", "access-key",
    "access_key", "accesskey", "account.key", "account-key", "account_key", "accountkey", "service-key", "auth-params",
    "basic-auth", "jaas.config", "http-headers", "signature",
)  # fmt: skip
_PATHS = frozenset({CLUSTER_SECRET_FILE, REST_AUTH_TOKENS_FILE, REST_AUTH_TOKEN_FILE})
"""Options that name the file of a credential, and hold none."""
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s'\"<>`]+)")
_PARAMETER = re.compile(r"([?&;])([^=&;?#\s]+)=([^&;#\s]*)")


def is_secret(key: str) -> bool:
    """Whether an option or parameter of this name holds a credential."""
    lowered = key.lower()
    if lowered in _PATHS:
        return False
    return any(part in lowered for part in _SENSITIVE) or lowered == "sig"


def without_secrets(text: str) -> str:
    """Returns the text with the credentials of all URIs in it hidden."""
    return _URI.sub(_hide, text) if "://" in text else text


def _hide(match: re.Match[str]) -> str:
    scheme, rest = match.groups()
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        rest = f"{HIDDEN}@{rest[authority.rindex('@') + 1 :]}"
    elif "@" in rest and _is_torn(authority):  # a secret with a slash that was not encoded
        rest = f"{HIDDEN}@{rest[rest.rindex('@') + 1 :]}"
    return scheme + _PARAMETER.sub(_hide_parameter, rest)


def _is_torn(authority: str) -> bool:
    name, colon, port = authority.rpartition(":")
    return bool(colon) and not port.isdigit() and not name.startswith("[")


def _hide_parameter(match: re.Match[str]) -> str:
    separator, name, value = match.groups()
    return f"{separator}{name}={HIDDEN}" if value and is_secret(name) else match.group(0)


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options with credentials hidden."""
    return {key: HIDDEN if value and is_secret(key) else without_secrets(value) for key, value in options.items()}


def split_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Splits options into those that other users of this host may see, and those with credentials."""
    shown = shown_options(options)
    plain = {key: value for key, value in options.items() if shown[key] == value}
    return plain, {key: value for key, value in options.items() if key not in plain}


def json_without_secrets(value: Any) -> Any:
    """Returns a JSON value with credentials hidden in all texts."""
    match value:
        case str():
            return without_secrets(value)
        case dict():
            return {key: json_without_secrets(item) for key, item in value.items()}
        case list() | tuple():
            return [json_without_secrets(item) for item in value]
        case _:
            return value
