"""Samples made from names, random topologies and recipes, and what the promise covers."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import strategies as st

import shardgraph
from shardgraph.digest import generator
from shardgraph.graph import (
    Bilevel,
    BilevelAcross,
    BySource,
    BySourceBilevel,
    Complete,
    OwnGraph,
    RandomDegree,
    ShardGraph,
    Topology,
)
from shardgraph.learn.private.accounting.budget import PAPER
from shardgraph.learn.private.accounting.terms import PrivacyTerms
from shardgraph.learn.private.private_recipe import PrivateRecipe
from shardgraph.learn.recipe import Recipe
from shardgraph.storage.samples import Samples

if TYPE_CHECKING:  # tests of `learn` run where cryptography is not
    from shardgraph.forget.workspace import Workspace

SOURCES = ("ann", "bob", "web")
LABELS = ("ant", "bee", "cat", "dog")
RING = OwnGraph(ShardGraph(SOURCES, frozenset({("ann", "bob"), ("bob", "web"), ("web", "ann")})))
SUBJECTS = ("", "p1", "p2")
DIM = 8


class Row(NamedTuple):
    """A sample before its embedding; `version` changes the embedding and nothing else."""

    id: str
    label: str
    source: str = "ann"
    subject: str = ""
    split: str = "train"
    version: int = 0


def embed(rows: Iterable[Row], dim: int = DIM, most_tokens: int = 2, dtype: str = "float16") -> Samples:
    """Samples whose embeddings depend on their own row alone; one to `most_tokens` tokens each, so ragged."""
    rows = list(rows)
    drawn = [_embedding(row, dim, most_tokens) for row in rows]
    return Samples(
        ids=tuple(row.id for row in rows),
        labels=tuple(row.label for row in rows),
        tokens=np.concatenate([tokens for tokens, _ in drawn] or [np.zeros((0, dim))]).astype(dtype),
        offsets=np.cumsum([0, *(len(tokens) for tokens, _ in drawn)]).astype(np.int64),
        features=np.array([feature for _, feature in drawn], np.float32).reshape(-1, dim),
        sources=tuple(row.source for row in rows),
        subjects=tuple(row.subject for row in rows),
        splits=tuple(row.split for row in rows),
    )


def _embedding(row: Row, dim: int, most_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(row.version, "a test's sample", row.id)
    centre = generator(0, "a test's class", row.label).standard_normal(dim)
    count = int(rng.integers(1, most_tokens + 1))
    return centre + rng.standard_normal((count, dim)), centre + rng.standard_normal(dim)


def many(count: int, *, labels: Iterable[str] = LABELS, sources: Iterable[str] = SOURCES, split: str = "train") -> list:
    """`count` rows with ids that are easy to find in a file, labels and sources in turn."""
    labels, sources = list(labels), list(sources)
    names = [f"sample-{i:04d}-of-the-{split}-set" for i in range(count)]
    return [
        Row(name, labels[i % len(labels)], sources[i // 2 % len(sources)], SUBJECTS[i % len(SUBJECTS)], split)
        for i, name in enumerate(names)
    ]


ROWS = [*many(24), *many(6, split="test")]
FEW_ROWS = [*many(16), *many(4, split="test")]  # for tests that train often


def of(*sources: str, rows: Iterable[Row] = ROWS) -> list[Row]:
    """The rows of some sources."""
    return [row for row in rows if row.source in sources]


BY_SOURCE = {name: of(name, rows=ROWS[:24]) for name in SOURCES}  # those to train on


def rows(most: int = 12, least: int = 1) -> st.SearchStrategy[list[Row]]:
    """Rows with unique ids; few labels and sources, so that remainders and last ones of a class occur."""
    row = st.builds(
        Row,
        id=st.text(alphabet="01ab/é", min_size=1, max_size=4),
        label=st.sampled_from(LABELS),
        source=st.sampled_from(SOURCES),
        subject=st.sampled_from(SUBJECTS),
        split=st.sampled_from(("train", "train", "train", "test")),
    )
    return st.lists(row, min_size=least, max_size=most, unique_by=lambda row: row.id)


def topologies() -> st.SearchStrategy[Topology]:
    """Every kind of topology, with few shards; sources are those of `rows`."""
    coarse, fine = st.integers(1, 3), st.integers(1, 2)
    safe = st.lists(st.sampled_from(SOURCES), unique=True, max_size=2).map(tuple)
    edges = st.frozensets(st.tuples(st.sampled_from(SOURCES), st.sampled_from(SOURCES)))
    return st.one_of(
        st.builds(Bilevel, coarse, fine),
        st.builds(BilevelAcross, coarse, fine),
        st.builds(BySourceBilevel, coarse, fine),
        st.builds(BySource, safe),
        edges.map(lambda chosen: OwnGraph(ShardGraph(SOURCES, chosen))),
        st.integers(2, 4).flatmap(
            lambda n: st.builds(RandomDegree, st.just(n), st.integers(0, n - 1), st.integers(0, 9))
        ),
        st.builds(Complete, st.integers(1, 3)),
    )


def recipes() -> st.SearchStrategy[Recipe]:
    """Both adapter kinds, all projections, both losses, one or two short epochs; or prototypes alone."""
    return trained_recipes() | st.builds(Recipe, adapter=st.just("none"), method=st.sampled_from(("second", "safe")))


def trained_recipes() -> st.SearchStrategy[Recipe]:
    """Those of `recipes` that train adapters."""
    return st.builds(
        Recipe,
        adapter=st.sampled_from(("inca", "linear")),
        projection=st.sampled_from(("random", "orthogonal", "identity")),
        heads=st.sampled_from((1, 2)),
        loss=st.sampled_from(("ce", "bce")),
        epochs=st.integers(1, 2),
        batch=st.integers(2, 4),
        lr=st.just(0.05),
        prototypes=st.booleans(),
        method=st.sampled_from(("second", "safe")),
    )


QUICK = Recipe(epochs=2, batch=4, lr=0.05)

# Private edges

CLIQUE = BySource(safe=SOURCES)
LINEAR = Recipe(adapter="linear", loss="bce", epochs=2, batch=4, lr=0.05, expansion=0)
STEPS = PrivateRecipe(steps=2, direct_batch=2, direct_steps=1, rank=2)
# RDP answers at this delta, and the formula under this budget: both at once, where PLD would take a second
TERMS = PrivacyTerms(2.0, 1e-20, PAPER, recipe=STEPS)


def promised_files(root: Path) -> dict[str, bytes]:
    """The files that the promise covers, by their path below the workspace."""
    folders = [path for name in ("shards", "models", "heldout") for path in (root / name).rglob("*")]
    files = [path for path in folders if path.is_file()]
    files += [path for name in ("prototypes.safetensors", "manifest.json") if (path := root / name).exists()]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def never_saw(workspace: "Workspace", retained: Iterable[Row], root: Path) -> dict[str, bytes]:
    """The promised files of a new workspace with the same configuration that only ever saw `retained`."""
    config = workspace.config
    with type(workspace).create(root, seed=config.seed, classes=config.classes, dtype=config.dtype, workers=1) as fresh:
        fresh.add(embed(retained, dtype=config.dtype))
        fresh.train(config.the_topology(), config.the_recipe())
        return promised_files(fresh.root)


def all_bytes(root: Path) -> dict[str, bytes]:
    """Every file below a folder, raw."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def interrupted(
    after: int,
    act: Callable[[], object],
    rooms: tuple[str, ...] = ("storage", "cluster", "forget"),
    *,
    sums: bool = False,
) -> bool:
    """Do it, with a Ctrl-C before the line numbered `after` that these rooms execute; whether it came so far.

    Lines that sum rows for checksums are many and write nothing; they count only with `sums`.
    """
    folders = tuple(str(Path(shardgraph.__file__).parent / room) for room in rooms)
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> object:
        nonlocal count
        name = frame.f_code.co_filename
        if not name.startswith(folders) or (name.endswith("checksums.py") and not sums):
            return None
        if event == "line":
            count += 1
            if count == after:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
