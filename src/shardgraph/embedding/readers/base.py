"""Reader: what every reader guarantees. The number of samples, their kind, and records in a stable order."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from shardgraph.embedding.records import Record


class Reader(ABC):
    """A person's data, read lazily and in the same order each time, in bounded memory.

    `modality` is "image" or "text": records are to be embedded by a backbone that takes it. `len()` counts samples
    and may be an upper bound where content without ids is merged (see `table`).
    """

    modality: str

    @abstractmethod
    def __len__(self) -> int:
        """How many samples there are at most."""

    @abstractmethod
    def __iter__(self) -> Iterator[Record]:
        """The records, each time from the first on."""
