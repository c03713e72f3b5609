"""The workspace's keys: a secret for keyed hashes, and an Ed25519 key that signs certificates.

Training is deterministic, so with a plain digest of past data or models anyone could test whether a given sample was
in them. Statements about past states therefore hold HMACs under the secret.
"""

import hashlib
import hmac
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from shardgraph.errors import DamagedFile, VerificationError
from shardgraph.storage.files import read_file, write_file
from shardgraph.storage.samples import Samples


@dataclass(frozen=True)
class Keys:
    """The secret and the signing key of a workspace."""

    secret: bytes
    signing: Ed25519PrivateKey

    @classmethod
    def create(cls, root: Path) -> "Keys":
        """Create the keys of a new workspace; only the owner of the files can read the private ones."""
        signing = Ed25519PrivateKey.generate()
        raw = signing.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        write_file(root, root / "secret.key", os.urandom(32), mode=0o600)
        write_file(root, root / "signing.key", raw, mode=0o600)
        public = signing.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
        write_file(root, root / "public.key", public.encode() + b"\n")
        return cls.load(root)

    @classmethod
    def load(cls, root: Path) -> "Keys":
        """Read the keys of a workspace."""
        names = ("secret.key", "signing.key")
        if lost := [name for name in names if not (root / name).exists()]:
            raise DamagedFile(f"{root / lost[0]} is missing: restore it from a backup; no other key can replace it")
        secret, raw = (bytes(read_file(root / name)) for name in names)
        if len(secret) != 32 or len(raw) != 32:
            raise DamagedFile(
                f"secret.key and signing.key of {root} must have 32 bytes each: restore them from a backup"
            )
        return cls(secret, Ed25519PrivateKey.from_private_bytes(raw))

    def with_new_secret(self) -> "Keys":
        """The same signing key with a new secret."""
        return Keys(os.urandom(32), self.signing)

    def save_secret(self, root: Path) -> None:
        """Replace secret.key; the old one is overwritten."""
        write_file(root, root / "secret.key", self.secret, mode=0o600)

    @property
    def public(self) -> str:
        """The public key, in hex."""
        return self.signing.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()

    def mark(self, *parts: str) -> str:
        """A keyed hash (HMAC) of names; without the secret it discloses nothing."""
        return hmac.new(self.secret, _joined(parts), hashlib.sha256).hexdigest()

    def contents(self, samples: Samples) -> list[str]:
        """A keyed hash of what every sample holds: HMAC-SHA-256 over its tokens and features, the first 32 digits."""
        begun = hmac.new(self.secret, _joined(("content",)), hashlib.sha256)
        tokens, features = (np.ascontiguousarray(part) for part in (samples.tokens, samples.features))
        found = []
        for i, (start, end) in enumerate(pairwise(samples.offsets.tolist())):
            h = begun.copy()
            h.update(tokens[start:end].view(np.uint8).data)
            h.update(features[i].view(np.uint8).data)
            found.append(h.hexdigest()[:32])
        return found

    def nonce(self, certificate: int, sample_id: str) -> str:
        """The nonce that opens a sample's leaf in a certificate; only the requester should get it."""
        return self.mark("nonce", str(certificate), sample_id)

    def sign(self, message: bytes) -> str:
        """An Ed25519 signature, in hex."""
        return self.signing.sign(message).hex()


def certificate_leaf(nonce: str, sample_id: str) -> str:
    """A sample's leaf in a certificate; id and nonce are both needed to recompute it."""
    return hashlib.sha256(_joined(("entry", nonce, sample_id))).hexdigest()


def check_signature(public: str, message: bytes, signature: str) -> None:
    """Raise unless the signature of the message is valid under the public key."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError, TypeError):
        raise VerificationError("the certificate's signature is not that of this public key") from None


def _joined(parts: tuple[str, ...]) -> bytes:
    return b"".join(len(raw).to_bytes(8, "big") + raw for raw in (part.encode() for part in parts))
