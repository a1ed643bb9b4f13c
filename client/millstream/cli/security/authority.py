"""An authority of a cluster's own, and certificates that it signs. Needs the package `cryptography`.

Keys are on the curve P-256 and unencrypted, as services start without anyone there to type a passphrase. A certificate
is for servers and clients alike: both ends of every connection show one.
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
_BEFORE = timedelta(hours=1)  # clocks of hosts differ


class Authority:
    """Signs certificates."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @staticmethod
    def new() -> Authority:
        """One that nobody knows yet."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Millstream authority")
        builder = _builder(name, name, key.public_key(), _AUTHORITY_DAYS)
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
        """One that was made before. Raises ValueError when the texts are none."""
        loaded = serialization.load_pem_private_key(key, password=None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not on an elliptic curve")
        return Authority(x509.load_pem_x509_certificate(certificate), loaded)

    def certificate(self, common_name: str, hosts: Sequence[str], days: int) -> tuple[bytes, bytes]:
        """A new certificate for these names and addresses, and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(common_name), self._certificate.subject, key.public_key(), days)
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        signer: ec.EllipticCurvePublicKey = self._key.public_key()
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        builder = builder.add_extension(both, critical=False)
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer)
        signed = builder.add_extension(issued_by, critical=False).sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM), _private(key)

    def to_pem(self) -> tuple[bytes, bytes]:
        """Its own certificate and key."""
        return self._certificate.public_bytes(serialization.Encoding.PEM), _private(self._key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _BEFORE).not_valid_after(now + timedelta(days=days))


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
