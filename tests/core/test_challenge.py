"""How a server proves that it knows a token; the dashboard's tests have the same figures."""

from __future__ import annotations

import pytest

from millstream.core.services import challenge
from millstream.core.services.cluster_secret import ClusterSecret

NONCE = "00112233445566778899aabbccddeeff"


@pytest.mark.parametrize(
    ("token", "name", "proof"),
    [
        (
            "lookerlooker", "496f9fae853b7d7f",
            "290b9ee4d6061ce18bcc310dd6b1e7b44bcbc711cbf70654390b59302f41f6ae",
        ),
        (
            "submit.1800000000." + "ab" * 32, "submit.1800000000",
            "eff70e905429542e4069318b6664355d4782885defed6ff30efdccdcad90c95b",
        ),
    ],
)  # fmt: skip
def test_names_and_proofs(token: str, name: str, proof: str) -> None:
    assert challenge.name_of_token(token) == name
    assert challenge.proof(challenge.hash_of(token), NONCE) == proof


def test_a_proof_is_for_one_token_and_one_number() -> None:
    secret = ClusterSecret("the secret of this cluster")
    tokens = [secret.rest_token("read", 1), secret.rest_token("read", 2), secret.rest_token("submit", 1), "x" * 32]
    proofs = {challenge.proof(challenge.hash_of(token), nonce) for token in tokens for nonce in (NONCE, "0" * 32)}
    assert len(proofs) == 8
    for token in tokens:
        assert token.rpartition(".")[2] not in challenge.name_of_token(token)
