"""Flipped bits: a few in every run, more in the slow one; `python -m tests.faults.bitflips` tries a thousand."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.bitflips import CATALOGUE, Template, catalogue_content, command, content, flip, make_template, run


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Template]:
    """The workspace in whose copies bits are flipped."""
    yield make_template(tmp_path_factory.mktemp("flips"))


def test_an_undamaged_workspace_passes(template):
    code, told = command("verify WS", template.folder / "ws")
    assert code == 0 and told["ok"]


def test_flips_are_found_or_harmless(template):
    counts, wrong = run(template, 24, seed=1)
    assert not wrong
    assert sum(row["content"] for row in counts.values()) >= 8, "the flips must hit content"


@pytest.mark.slow
def test_many_flips_are_found_or_harmless(template):
    counts, wrong = run(template, 150, seed=2)
    assert not wrong
    assert sum(row["found"] for row in counts.values()) >= 60
    assert (
        sum(row["complete"] for row in counts.values()) >= 20 and sum(row["refused"] for row in counts.values()) >= 20
    )


def test_the_harness_sees_what_a_flip_changes(template, tmp_path):
    raw = (template.folder / "ws" / CATALOGUE).read_bytes()
    path = tmp_path / CATALOGUE
    path.write_bytes(raw)
    before = catalogue_content(path)
    for place in _places(raw, b"ann"):
        changed = bytearray(raw)
        changed[place] ^= 1
        path.write_bytes(changed)
        assert catalogue_content(path) != before, "a name in a table or in an index"


def test_a_flip_changes_one_bit(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(100))
    before = content(path)
    byte = flip(path, random.Random(0))
    after = path.read_bytes()
    assert before != after and after[byte].bit_count() == 1 and sum(after) == after[byte]


def _places(raw: bytes, name: bytes) -> list[int]:
    found, start = [], raw.find(name)
    while start >= 0 and len(found) < 5:
        found.append(start)
        start = raw.find(name, start + 1)
    return found


def test_the_template_has_what_can_rot(template):
    kinds = {
        path.relative_to(template.folder).parts[-2 if path.suffix == ".safetensors" else -1] for path in template.files
    }
    assert {"config.json", "manifest.json", "secret.key", "signing.key", "public.key", CATALOGUE} <= kinds
    folders = {path.relative_to(template.folder / "ws").parts[0] for path in template.files if "ws" in path.parts}
    assert {"shards", "heldout", "inbox", "models", "rights", "certificates"} <= folders
    assert Path(template.folder / "record.log") in template.files
