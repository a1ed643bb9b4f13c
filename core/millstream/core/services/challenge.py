"""Proves that a REST server knows a token before the token is sent to it, where there is no TLS.

The client identifies the token without revealing it, with a nonce. A server that knows the token, or its SHA-256,
returns an HMAC of the nonce. A process that has only taken over the server's port cannot, and never receives the token.
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
    """Returns the SHA-256 of a token, as the token file contains it."""
    return hashlib.sha256(token.encode()).hexdigest()


def name_of_token(token: str) -> str:
    """Returns the public name of a token: role and expiry if it derives from the secret, else a hash of its hash."""
    of_secret = _OF_SECRET.match(token)
    return of_secret.group(1) if of_secret is not None else name_of_hash(hash_of(token))


def name_of_hash(token_hash: str) -> str:
    """Returns the public name of a token from its SHA-256."""
    return hashlib.sha256(token_hash.encode()).hexdigest()[:16]


def proof(token_hash: str, nonce: str) -> str:
    """Returns the proof, which requires the token or its SHA-256."""
    return hmac.digest(token_hash.encode(), f"millstream server {nonce}".encode(), "sha256").hex()
