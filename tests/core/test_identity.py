"""The certificates that are derived from a cluster's secret, and where they are stored."""

from __future__ import annotations

import os
import ssl
import stat
from pathlib import Path

import pytest

from millstream.core.errors import ConfigurationError
from millstream.core.services import identity as identities
from millstream.core.services.cluster_secret import make_secret_file
from millstream.core.services.identity import (
    CLUSTER_NAME,
    Identity,
    certificates_of_secret,
    client_context,
    identity,
    server_context,
)
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.secrets import shown_options

OURS = Configuration({"security.cluster.secret": "the secret of our own cluster"})
THEIRS = Configuration({"security.cluster.secret": "the secret of another cluster"})


def of(configuration: Configuration) -> Identity:
    found = identity(configuration)
    assert found is not None
    return found


def shake_hands(server: Identity, client: Identity) -> None:
    """Performs the handshake in memory. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server_context(server).wrap_bio(to_server, to_client, server_side=True)
    asking = client_context(client).wrap_bio(to_client, to_server, server_hostname=CLUSTER_NAME)
    waiting = [asking, serving]
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not waiting


def test_certificates_of_one_secret_trust_each_other_and_no_other() -> None:
    identities._made.cache_clear()
    one = of(OURS)
    identities._made.cache_clear()  # another process creates its own
    other = of(OURS)
    assert one.certificate != other.certificate
    shake_hands(one, other)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(of(THEIRS), one)


def test_without_a_secret_there_is_none() -> None:
    assert identity(Configuration()) is None
    assert certificates_of_secret(Configuration()) == {}


def test_a_child_gets_certificates_that_are_not_shown() -> None:
    handed = certificates_of_secret(OURS)
    options = Configuration().merged(handed)
    assert of(options) == of(OURS)
    assert "PRIVATE KEY" not in repr(options) + str(shown_options(options.to_dict()))
    with pytest.raises(ConfigurationError, match=r"security\.cluster\.secret-certificates"):
        identity(Configuration({"security.cluster.secret-certificates": "nothing"}))


def test_they_are_stored_beside_the_file_for_its_user_only(tmp_path: Path) -> None:
    secret, kept = tmp_path / "secret", tmp_path / "secret.pem"
    make_secret_file(secret)
    options = Configuration({"security.cluster.secret-file": str(secret)})
    before = os.umask(0)
    try:
        first = of(options)
    finally:
        os.umask(before)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == ["secret", "secret.pem"]
    assert secret.read_text().strip() not in kept.read_text()
    identities._made.cache_clear()
    assert of(options) == first
    secret.unlink()
    make_secret_file(secret)
    of_the_new_one = of(options)
    assert of_the_new_one.authority != first.authority
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(first, of_the_new_one)


@pytest.mark.parametrize("spoilt", ["empty", "no end", "another key", "another time", "for others"])
def test_modified_certificates_are_created_again(tmp_path: Path, spoilt: str) -> None:
    secret, kept = tmp_path / "secret", tmp_path / "secret.pem"
    make_secret_file(secret)
    options = Configuration({"security.cluster.secret-file": str(secret)})
    text = of(options).certificate.decode()
    content = kept.read_text()
    number = content.split()[2]
    changed = {
        "empty": "", "no end": content[:-30], "for others": content,
        "another key": content.replace(text, of(THEIRS).certificate.decode()),
        "another time": content.replace(number, str(int(number) + 9), 1),
    }[spoilt]  # fmt: skip
    kept.write_text(changed)
    kept.chmod(0o644 if spoilt == "for others" else 0o600)
    identities._made.cache_clear()
    made = of(options)
    assert made.certificate.decode() != text
    assert made.certificate.decode() in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    shake_hands(made, made)


def test_they_are_renewed_a_year_before_they_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_secret_file(tmp_path / "secret")
    options = Configuration({"security.cluster.secret-file": str(tmp_path / "secret")})
    with monkeypatch.context() as patched:
        patched.setattr(identities, "_DAYS", 364)
        first = of(options)
    identities._made.cache_clear()
    second = of(options)
    assert second != first
    assert of(options) == second
