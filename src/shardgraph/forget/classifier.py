"""SafeClassifier: learning and exact forgetting on arrays in memory, with the interface of scikit-learn."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from shardgraph.errors import ConfigError, InputError, UnknownSample, WorkspaceError, check_list, some
from shardgraph.graph import Bilevel, Topology
from shardgraph.learn.ensemble import Model
from shardgraph.learn.group import train_group
from shardgraph.learn.inca import Adapters
from shardgraph.learn.prototypes import total
from shardgraph.learn.recipe import Recipe, recipe
from shardgraph.storage.samples import Samples, check, concatenate, from_arrays


class SafeClassifier:
    """A shard-graph classifier on token embeddings [n, t, d] or features [n, d].

    After `fit`, `forget(ids)` gives exactly the model that `fit` without these samples gives: `digest_` is equal. This
    holds for the same class list and an assignment by hash. Declare `classes` if all samples of a class may be
    forgotten, because with `fine` > 1 the shard of a sample depends on the class list. A balanced assignment depends on
    all samples of `fit`.
    """

    def __init__(
        self,
        coarse: int = 1,
        fine: int = 1,
        *,
        topology: Topology | None = None,
        recipe: Recipe | str = "default",
        classes: Sequence[str] | None = None,
        seed: int = 0,
        dtype: str = "float16",
    ) -> None:
        self.coarse = coarse
        self.fine = fine
        self.topology = topology
        self.recipe = recipe
        self.classes = classes
        self.seed = seed
        self.dtype = dtype

    def fit(
        self,
        X: np.ndarray,
        y: Iterable[Any],
        *,
        ids: Iterable[Any] | None = None,
        sources: Iterable[str] | None = None,
    ) -> "SafeClassifier":
        """Train on arrays; the default ids are row numbers."""
        samples = check(from_arrays(X, y, ids, () if sources is None else sources, self.dtype))
        self.dim_ = samples.tokens.shape[1]
        self.classes_declared_ = self._declared(samples.labels)
        self.recipe_ = recipe(self.recipe) if isinstance(self.recipe, str) else self.recipe
        self.topology_ = self.topology or Bilevel(self.coarse, self.fine)
        if self.topology_.graph(()).private:
            raise ConfigError("private edges need a Workspace: this classifier keeps no record of what it released")
        placed = self.topology_.place_first(
            samples.ids, samples.sources, samples.labels, seed=self.seed, classes=self.classes_declared_
        )
        rows: dict[str, list[int]] = {}
        for row, shard in enumerate(placed):
            rows.setdefault(shard, []).append(row)
        self.shards_ = {name: samples.take(chosen).canonical() for name, chosen in sorted(rows.items())}
        self.adapters_: dict[str, Adapters] = {}
        self.prototypes_ = total(
            self.shards_.values(), second_order=self.recipe_.second_order, expansion=self.recipe_.expansion
        )
        self._build()
        return self

    @property
    def digest_(self) -> str:
        """The digest of the model: equal digests mean equal bytes."""
        return self._fitted().digest

    @property
    def classes_(self) -> np.ndarray:
        """The classes that can be predicted."""
        return np.array(self._fitted().classes)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The predicted class of every row."""
        return np.array(self._fitted().predict(self._queries(X)))

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """A softmax over the scores [n, K], in the order of `classes_`."""
        scores = self._fitted().scores(self._queries(X)).astype(np.float64)
        exp = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: np.ndarray = exp / exp.sum(axis=1, keepdims=True)
        return shares

    def score(self, X: np.ndarray, y: Iterable[Any]) -> float:
        """Accuracy."""
        found, labels = self.predict(X), [str(label) for label in y]
        if len(found) != len(labels):
            raise InputError(f"there must be a label for every row, got {len(found)} rows and {len(labels)} labels")
        return float(np.mean(found == np.array(labels)))

    def plan_forget(self, ids: Iterable[Any]) -> dict[str, Any]:
        """The number of groups that forgetting would retrain, and the samples that this reads again."""
        touched = self._touched(ids)
        affected = self.topology_.graph(self.shards_).affected(touched)
        revisited = {shard for group in affected for shard in group.neighbourhood if shard in self.shards_}
        leaving = sum(len(rows) for rows in touched.values())
        samples = sum(len(self.shards_[shard]) for shard in revisited) - leaving
        whole = sum(len(shard) for shard in self.shards_.values())
        return {
            "samples": leaving,
            "groups_to_rebuild": len(affected),
            "samples_to_revisit": samples,
            "share_of_full_retraining": samples / whole if whole else 0.0,
        }

    def forget(self, ids: Iterable[Any]) -> "SafeClassifier":
        """Forget samples by id; only the groups that could have seen them are retrained."""
        touched = self._touched(ids)
        for group in self.topology_.graph(self.shards_).affected(touched):
            self.adapters_.pop(group.name, None)
        for name, rows in touched.items():
            shard = self.shards_[name]
            self.prototypes_ = self.prototypes_.minus(shard.take(rows))
            kept = shard.take(np.setdiff1d(np.arange(len(shard)), rows))
            self.shards_ = {**self.shards_, name: kept}
        self.shards_ = {name: shard for name, shard in self.shards_.items() if len(shard)}
        self._build()
        return self

    def _declared(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The class list: as declared, else the labels of the samples."""
        if self.classes is None:
            return tuple(sorted(set(labels)))
        check_list(self.classes, "classes")
        return tuple(sorted({str(name) for name in self.classes}))

    def _build(self) -> None:
        for group in self.topology_.graph(self.shards_).groups():
            parts = [self.shards_[name] for name in group.neighbourhood if name in self.shards_]
            mine = {label for name in group.members if name in self.shards_ for label in self.shards_[name].labels}
            if group.name in self.adapters_ or not mine or len({la for part in parts for la in part.labels}) < 2:
                continue
            self.adapters_[group.name] = train_group(
                group.name, concatenate(parts), tuple(sorted(mine)), self.recipe_, self.seed
            )
        self.model_ = Model.assemble(self.adapters_, self.prototypes_, self.recipe_, self.seed)

    def _touched(self, ids: Iterable[Any]) -> dict[str, list[int]]:
        self._fitted()
        check_list(ids, "the samples to forget")
        wanted = {str(i) for i in ids}
        found = {
            name: [row for row, sample in enumerate(shard.ids) if sample in wanted]
            for name, shard in self.shards_.items()
        }
        known = {self.shards_[name].ids[row] for name, rows in found.items() for row in rows}
        if unknown := sorted(wanted - known):
            raise UnknownSample(f"never seen here, or forgotten already: {some(unknown)}", unknown)
        return {name: rows for name, rows in found.items() if rows}

    def _queries(self, X: np.ndarray) -> Samples:
        samples = check(from_arrays(X, ["?"] * len(X), dtype=self.dtype))
        if samples.tokens.shape[1] != self.dim_:
            raise InputError(f"this model was fitted on {self.dim_} dimensions, got {samples.tokens.shape[1]}")
        return samples

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise WorkspaceError("fit must be called first")
        return self.model_
