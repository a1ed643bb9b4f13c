"""A private certificate authority of a cluster, and the certificates that it signs.

Keys are on the curve P-256 and unencrypted, since services start unattended and cannot ask for a passphrase. A
certificate is valid for servers and clients: both ends of every connection present one. Only code that creates
certificates imports this module: the package `cryptography` takes 50 ms and 18 MB.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_DAYS = 3650
_ALWAYS = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC))
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of the group of P-256
_BEFORE = timedelta(hours=1)  # clocks of hosts differ


class Authority:
    """Signs certificates."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @staticmethod
    def new() -> Authority:
        """Creates an authority with a random key."""
        key = ec.generate_private_key(ec.SECP256R1())
        return Authority._signed(key, "Millstream authority", _days(_AUTHORITY_DAYS))

    @staticmethod
    def of_number(number: int) -> Authority:
        """Derives an authority from a secret number of more than 256 bits, the same for all who know the number.

        It never expires, since it can be derived again at any time.
        """
        key = ec.derive_private_key(number % (_ORDER - 1) + 1, ec.SECP256R1())
        mark = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest.hex()
        return Authority._signed(key, f"Millstream cluster {mark[:16]}", _ALWAYS)

    @staticmethod
    def _signed(key: ec.EllipticCurvePrivateKey, common_name: str, period: tuple[datetime, datetime]) -> Authority:
        name = _name(common_name)
        builder = _builder(name, name, key.public_key(), period)
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return Authority(builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256()), key)

    @staticmethod
    def of(certificate: bytes, key: bytes) -> Authority:
        """Loads an authority from PEM. Raises ValueError when the texts are not valid."""
        loaded = serialization.load_pem_private_key(key, password=None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not on an elliptic curve")
        return Authority(x509.load_pem_x509_certificate(certificate), loaded)

    def certificate(
        self, common_name: str, hosts: Sequence[str], days: int, *, at_once: bool = False
    ) -> tuple[bytes, bytes]:
        """Creates a certificate for these names and addresses; returns it and its key, as PEM.

        `at_once`: it is valid regardless of the clock of the other host.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        first, last = _days(days)
        period = (_ALWAYS[0] if at_once else first, last)
        builder = _builder(_name(common_name), self._certificate.subject, key.public_key(), period)
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        signer: ec.EllipticCurvePublicKey = self._key.public_key()
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        builder = builder.add_extension(both, critical=False)
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer)
        signed = builder.add_extension(issued_by, critical=False).sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM), _private(key)

    def to_pem(self) -> tuple[bytes, bytes]:
        """Returns its own certificate and key, as PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM), _private(self._key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, period: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(period[0]).not_valid_after(period[1])


def _days(days: int) -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now - _BEFORE, now + timedelta(days=days)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        return x509.DNSName(text)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
