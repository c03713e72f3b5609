"""Predictions as values: the best classes of every sample, and the files they are written to."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardgraph.errors import InputError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Prediction:
    """The best classes of one sample with their scores, SAFE(z), best first."""

    id: str
    top: tuple[tuple[str, float], ...]

    def to_json(self) -> dict[str, Any]:
        """The prediction as a plain dict."""
        label, score = self.top[0]
        top = [{"label": label, "score": score} for label, score in self.top]
        return {"id": self.id, "label": label, "score": score} | ({"top": top} if len(top) > 1 else {})


def best(ids: Sequence[str], scores: "np.ndarray", classes: Sequence[str], k: int) -> list[Prediction]:
    """The `k` best classes of every row of scores [n, K]."""
    order = (-scores).argsort(axis=1, kind="stable")[:, :k]
    return [
        Prediction(name, tuple((classes[j], float(row[j])) for j in chosen.tolist()))
        for name, row, chosen in zip(ids, scores, order, strict=True)
    ]


def check_place(path: Path) -> None:
    """Raise unless predictions can be written to a file of this name, before they are made."""
    if path.suffix not in (".csv", ".json"):
        raise InputError(f"predictions must go to a .csv or .json file, got {path}")
    if not path.parent.is_dir():
        raise InputError(f"predictions must go to a folder that exists, {path.parent} does not: make it first")


def write(predictions: Sequence[Prediction], path: Path) -> None:
    """Write predictions: a row a sample and rank (.csv), or a list (.json)."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".json":
            json.dump([prediction.to_json() for prediction in predictions], file, ensure_ascii=False)
            return
        rows = csv.writer(file)
        rows.writerow(("id", "rank", "label", "score"))
        for prediction in predictions:
            rows.writerows((prediction.id, rank, *found) for rank, found in enumerate(prediction.top, start=1))
