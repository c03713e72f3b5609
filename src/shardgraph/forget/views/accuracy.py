"""The accuracy of a model on held-out samples, of all of them and by class."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from shardgraph.errors import InputError
from shardgraph.learn.ensemble import Model
from shardgraph.storage.samples import Samples


def measure_accuracy(model: Model, parts: Iterable[Samples], where: str = "") -> dict[str, Any]:
    """The figures of `Workspace.evaluate`; one part is in memory at a time; an error if there is none."""
    counts, right = Counter[str](), Counter[str]()
    for samples in parts:
        counts.update(samples.labels)
        right.update(a for a, b in zip(model.predict(samples), samples.labels, strict=True) if a == b)
        del samples
    if not counts:
        raise InputError(f"there is no sample whose split is test{where}; add some, then train")
    classes = [
        {"label": label, "accuracy": right[label] / count, "samples": count, "correct": right[label]}
        for label, count in sorted(counts.items())
    ]
    return {
        "accuracy": right.total() / counts.total(),
        "samples": counts.total(),
        "correct": right.total(),
        "unknown": sum(count for label, count in counts.items() if label not in model.classes),
        "macro_accuracy": sum(right[label] / count for label, count in counts.items()) / len(counts),
        "classes": classes,
    }
