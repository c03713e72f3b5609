"""Columns: the meaning of the columns of a table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from shardgraph.embedding.records import EMBEDDING, IMAGE, TEXT
from shardgraph.errors import InputError

_CONTENT = {"image": IMAGE, "path": IMAGE, "text": TEXT, "embedding": EMBEDDING}  # the first there is what is read
_ADVICE = "name the one that has another name (--column MEANING=NAME, in Python columns={MEANING: NAME})"


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns; one that is None has its own name as default and may be missing.

    One of `image` (encoded bytes), `path` (of an image, from the table's folder, or a URL), `text` and `embedding` (a
    list of numbers, or a list of tokens) must be there, and `label`; `id`, `source`, `subject` and `split` may be.
    """

    id: str | None = None
    image: str | None = None
    path: str | None = None
    text: str | None = None
    embedding: str | None = None
    label: str | None = None
    source: str | None = None
    subject: str | None = None
    split: str | None = None

    def resolve(self, found: Sequence[str], *, labelled: bool = True, modality: str | None = None) -> dict[str, str]:
        """Meaning -> column for the columns that are there, with exactly one kind of content, of `modality` if it can.

        What is not `labelled` is only to be predicted: labels are passed over.
        """
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        absent = sorted(name for name in named.values() if name is not None and name not in found)
        if absent:
            raise InputError(f"column {absent[0]!r} must be in the table, it has {_list(found)}")
        there = {meaning: name or meaning for meaning, name in named.items() if (name or meaning) in found}
        kinds = sorted(_CONTENT, key=lambda kind: _CONTENT[kind] != modality)
        content = [kind for kind in kinds if named[kind]] or [kind for kind in kinds if kind in there]
        if not labelled:
            there.pop("label", None)
        if not content or (labelled and "label" not in there):
            wanted = "'label'" if content else "'image', 'path', 'text' or 'embedding'"
            raise InputError(f"a table must have a column {wanted}, it has {_list(found)}: {_ADVICE}")
        meant = {kind: name for kind, name in there.items() if kind not in _CONTENT or kind == content[0]}
        if twice := [name for name in meant.values() if found.count(name) > 1]:
            raise InputError(f"a table must have column {twice[0]!r} once, it has {_list(found)}: rename the others")
        return meant


def columns_of(named: Mapping[str, str] | None) -> Columns | None:
    """The column names of a table, by meaning."""
    if not named:
        return None
    known = [field.name for field in fields(Columns)]
    if odd := sorted(meaning for meaning, name in named.items() if meaning not in known or not name):
        raise InputError(f"a column must be given as MEANING=NAME, MEANING one of {', '.join(known)}; got {odd[0]!r}")
    return Columns(**named)


def modality(meanings: Mapping[str, str]) -> str:
    """What the samples of a table are."""
    return next(kind for meaning, kind in _CONTENT.items() if meaning in meanings)


def class_names(meaning: str, column: str, metadata: Mapping[bytes, bytes] | None) -> list[str]:
    """The names of a column's integers, where the schema's metadata has them; else [].

    Looked for under `classes` (labels), under the column's name with an s (`domains` for `domain`),
    and in the features that Hugging Face's `datasets` writes.
    """
    metadata = metadata or {}
    for key in (["classes"] if meaning == "label" else []) + [f"{column}s"]:
        names = _json(metadata.get(key.encode()))
        if isinstance(names, list):
            return [str(name) for name in names]
    feature: Any = _json(metadata.get(b"huggingface"))
    for step in ("info", "features", column, "names"):
        feature = feature.get(step) if isinstance(feature, dict) else None
    return [str(name) for name in feature] if isinstance(feature, list) else []


def _json(raw: bytes | None) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None


def _list(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"
