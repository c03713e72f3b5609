"""Records of all data sets, and questions about them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.recordfile import Record, read
from experiments.runs import methods_at
from shardgraph.errors import InputError

RUNS = Path(__file__).parent / "results" / "runs"
YOURS = Path("experiment-results")  # what is run on a cache goes here, unless another place is named


class NoRecords(InputError):
    """What was measured does not make this experiment yet."""


@dataclass(frozen=True)
class Records:
    """What was measured, by data set and backbone ("cub200--efficientnet-lite2")."""

    sets: dict[str, list[Record]]

    @classmethod
    def load(cls, folder: Path = RUNS) -> "Records":
        """All records in a folder."""
        return cls({path.stem: read(path) for path in sorted(folder.glob("*.jsonl"))})

    def of(self, name: str, study: str | None = None, **about: object) -> Iterator[Record]:
        """The records of a data set about this."""
        for record in self.sets[name]:
            if record.get("study") == study and all(record.get(key) == value for key, value in about.items()):
                yield record

    def accuracy(self, name: str, rival: str, n: int, adapter: str = "inca") -> dict[int, float]:
        """Accuracy by seed; at one shard all graphs are one."""
        if n == 1 and rival not in ("Ceiling", "Ours"):
            rival = "No sharding"
        if n == 1 and rival == "Ours":
            rival = "Ceiling"
        adapter = "none" if n == 0 else adapter
        return {r["seed"]: r["accuracy"] for r in self.of(name, rival=rival, n=n, adapter=adapter)}

    def levels(self, name: str, adapter: str = "inca") -> list[int]:
        """The numbers of shards that every method was tried at; linear adapters go without our own."""
        found: dict[int, set[str]] = {}
        for record in self.of(name, adapter=adapter):
            found.setdefault(record["n"], set()).add(record["rival"])
        own = {"Ours", "Ceiling"} if adapter == "linear" else set()
        return sorted(n for n, there in found.items() if {who for who, _ in methods_at((n,))} - own <= there)

    def difference(self, name: str, a: str, b: str, n: int) -> list[float]:
        """a minus b, by seed."""
        one, other = self.accuracy(name, a, n), self.accuracy(name, b, n)
        return [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]


def title(name: str) -> str:
    """A data set and its backbone, for people."""
    data, _, backbone = name.partition("--")
    return f"{data} ({backbone})"
