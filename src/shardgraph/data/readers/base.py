"""What every reader promises: how many samples, of what kind, one after the other in a stable order."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar

Item = TypeVar("Item", covariant=True)


class Reader(ABC, Generic[Item]):
    """A person's data, read lazily and in the same order each time, in bounded memory.

    `modality` is "image" or "text" (items are `Record`s, to be embedded by a backbone) or
    "embedding" (items are chunks of `Samples`, ready to learn from). `len()` counts samples and may
    be an upper bound where content without ids is merged (see `table`).
    """

    modality: str
    default_chunk: ClassVar[int] = 1024

    @abstractmethod
    def __len__(self) -> int:
        """How many samples there are at most."""

    @abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """The items, each time from the first on."""
