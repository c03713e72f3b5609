"""Certificates: what was asked and what the model is now, chained and signed.

A certificate names no sample. Each sample id is in it as a leaf (the key `entries`) that only the requester's nonce
opens; the state before is in it as an HMAC. `model_digest` is plain: anyone with the retained data can rebuild it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shardgraph import __version__
from shardgraph.digest import canonical_json, digest
from shardgraph.errors import DamagedFile, VerificationError
from shardgraph.forget.build.wanted import Manifest, graph_over
from shardgraph.forget.context import Context
from shardgraph.forget.proof.keys import Keys, certificate_leaf, check_signature
from shardgraph.storage.files import write_file
from shardgraph.storage.tables import inventory, ledger

EXACT = "exact: the model equals, byte for byte, one built from the retained samples alone"
WITHDRAWN = (
    "withdrawn: every adapter that saw the data is out of service; those left equal, byte for byte, their rebuild"
)


@dataclass(frozen=True)
class Certificate:
    """One certificate of the chain."""

    number: int
    previous: str  # digest of the previous certificate, "" for the first
    time: str
    event: str  # "forget", "instant" (withdrawn, not rebuilt yet) or "repair"
    guarantee: str
    entries: tuple[str, ...]  # the leaves, one per forgotten sample, sorted; see keys.certificate_leaf
    asked: tuple[str, ...]  # HMACs of the names in the requests
    inputs: str  # HMAC of the digests of the affected units, before the erasure
    before: str  # HMAC of the model digest before the erasure
    model_digest: str
    missing: int  # groups withdrawn and not rebuilt yet
    config: str
    graph: str
    version: str
    fingerprint: dict[str, str]
    public_key: str
    signature: str = ""
    provisioned: int = 0  # groups of rights that had learned from the samples; not in the file if there are none
    privacy: dict[str, Any] | None = None  # the guarantee in numbers, with private edges; otherwise not in the file

    def message(self) -> bytes:
        """The bytes that are signed: everything but the signature."""
        return self._written({k: v for k, v in self.to_json().items() if k != "signature"})

    def signed(self, keys: Keys) -> "Certificate":
        """The certificate with its signature."""
        return Certificate(**{**asdict(self), "signature": keys.sign(self.message())})

    def to_json(self) -> dict[str, Any]:
        """The certificate as a plain dict."""
        absent = {"privacy": None, "provisioned": 0}  # left out, so that certificates without them keep their bytes
        return {name: value for name, value in asdict(self).items() if name not in absent or value != absent[name]}

    @property
    def digest(self) -> str:
        return digest("certificate", self._written(self.to_json()))

    def _written(self, value: dict[str, Any]) -> bytes:
        try:
            return canonical_json(value)
        except ValueError as error:  # JSON files can hold such values, certificates cannot
            number = f"certificate {self.number!r}"
            raise DamagedFile(
                f"{number} must hold numbers and valid text, got NaN, infinity or half a character"
            ) from error

    @classmethod
    def load(cls, path: Path) -> "Certificate":
        """Read a certificate from its file."""
        try:
            return cls.parse(path.read_bytes(), str(path))
        except FileNotFoundError:
            raise VerificationError(f"the certificate {path} is missing") from None

    @classmethod
    def parse(cls, raw: bytes, name: str = "this") -> "Certificate":
        """The certificate in these bytes; `check_certificate` decides whether it is genuine."""
        try:
            value = json.loads(raw)
            return cls(**{**value, "entries": tuple(value["entries"]), "asked": tuple(value["asked"])})
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DamagedFile(f"{name} is no certificate, or it is damaged") from error


class Certificates:
    """The certificates of one workspace, by number."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def last(self) -> int:
        """The number of the last certificate; 0 before the first."""
        return ledger.last_certificate(self._context.catalogue)

    def load(self, number: int) -> Certificate:
        """A certificate by its number."""
        return Certificate.load(self.path(number))

    def path(self, number: int) -> Path:
        """The path of a certificate."""
        return certificate_path(self._context.root, number)

    def nonces(self, number: int, ids: Sequence[str]) -> dict[str, str]:
        """The nonces that open the leaves of these samples; give each one only to the person who asked."""
        return {sample: self._context.keys.nonce(number, sample) for sample in ids}


# Writing and checking a certificate


def draft_certificate(context: Context, number: int, event: str, manifest: Manifest, **facts: object) -> dict[str, Any]:
    """What a certificate says about the model and the configuration of now, and these facts; for `issue`."""
    config = context.config
    graph = graph_over(inventory.unit_labels(context.catalogue), config).digest if config.trained else ""
    return {
        "number": number,
        "time": context.now().isoformat(),
        "event": event,
        **_guarantee(context, manifest),
        "model_digest": manifest.model_digest,
        "missing": len(manifest.missing),
        "config": config.digest,
        "graph": graph,
        "fingerprint": manifest.fingerprint or context.numerics,
        **facts,
    }


def _guarantee(context: Context, manifest: Manifest) -> dict[str, Any]:
    """The guarantee that holds: exact, withdrawn, or (alpha, beta) if served groups have private edges."""
    if context.config.privacy is None:
        return {"guarantee": WITHDRAWN if manifest.missing else EXACT}
    from shardgraph.forget.privacy.guarantee import state_guarantee

    return state_guarantee(context.store, context.config, manifest, context.numerics)


def issue(root: Path, keys: Keys, draft: dict[str, Any]) -> Certificate:
    """Complete, sign and write a certificate. The caller gives the number; writing it again replaces the file."""
    number = draft["number"]
    previous = load_intact(root, number - 1).digest if number > 1 else ""
    unsigned = Certificate(**draft, previous=previous, version=__version__, public_key=keys.public)
    certificate = unsigned.signed(keys)
    raw = json.dumps(certificate.to_json(), indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    write_file(root, certificate_path(root, number), raw)
    return certificate


def load_intact(root: Path, number: int) -> Certificate:
    """A certificate that the next one may be chained onto: its file is as it was signed."""
    path = certificate_path(root, number)
    found = Certificate.load(path)
    try:
        check_signature(found.public_key, found.message(), found.signature)
    except VerificationError as error:
        raise DamagedFile(
            f"{path} was changed since it was signed: restore it from a backup; the next certificate holds its digest"
        ) from error
    return found


def check_certificate(certificate: Certificate, public_key: str) -> None:
    """Raise unless the certificate was signed with this key and is unchanged since."""
    if certificate.public_key != public_key:
        raise VerificationError(f"certificate {certificate.number!r} was signed with another key")
    check_signature(public_key, certificate.message(), certificate.signature)


def opens(certificate: Certificate, sample_id: str, nonce: str) -> bool:
    """Whether the certificate has a leaf for this sample, opened with this nonce."""
    return certificate_leaf(nonce, sample_id) in certificate.entries


def certificate_path(root: Path, number: int) -> Path:
    """The path of a certificate."""
    return root / "certificates" / f"{number:06d}.json"
