"""How a REST server shows that it knows a token before the token is sent to it, where there is no TLS.

The client names the token without giving it away, with a number that is used once. Who knows the token, or its SHA-256,
makes an HMAC over the number. A process that has merely taken the server's port cannot, so it is not sent the token.
Pure; the dashboard does the same in `session.ts`.
"""

from __future__ import annotations

import hashlib
import hmac
import re

PATH = "/challenge"
_OF_SECRET = re.compile(r"([a-z]+\.[0-9]{1,12})\.[0-9a-f]{64}\Z")
NONCE = re.compile(r"[0-9a-f]{32,128}\Z")


def hash_of(token: str) -> str:
    """The SHA-256 of a token, as the file of tokens has it."""
    return hashlib.sha256(token.encode()).hexdigest()


def name_of_token(token: str) -> str:
    """What names a token to those who know it: role and end of one of the secret, else a hash of its hash."""
    of_secret = _OF_SECRET.match(token)
    return of_secret.group(1) if of_secret is not None else name_of_hash(hash_of(token))


def name_of_hash(token_hash: str) -> str:
    """The name of a token of which only the SHA-256 is known."""
    return hashlib.sha256(token_hash.encode()).hexdigest()[:16]


def proof(token_hash: str, nonce: str) -> str:
    """What only those make who know the token or its SHA-256."""
    return hmac.digest(token_hash.encode(), f"millstream server {nonce}".encode(), "sha256").hex()
