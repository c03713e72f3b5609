"""Every error that shardgraph raises on purpose.

    ShardgraphError
    ├── InputError            an argument is invalid (a ValueError)
    │   ├── UnknownSample     a request names samples that the workspace never held
    │   ├── DuplicateSample   an id is in the workspace already, or twice in one input
    │   ├── ForgottenSample   an id was forgotten and may be added again only with permission
    │   └── UnknownConsumer   no right was granted to a consumer of this name
    ├── GraphError            a shard graph or topology is invalid (a ValueError)
    ├── ConfigError           an argument contradicts the configuration, or the configuration is invalid
    │   └── FingerprintError  the model was built with other numerics
    ├── BackboneError         a backbone cannot be loaded or does not fit
    ├── UnreachableData       data at a URL cannot be read now
    └── WorkspaceError        the workspace cannot do this now
        ├── WorkspaceBusy     another process is writing
        ├── DiskFull          the disk has too little room; nothing was written
        ├── NothingToServe    a right covers no sample to predict from
        ├── DamagedFile       a file is damaged, missing, or was changed by another program
        └── VerificationError what is on disk does not match what was certified

An error says what must hold, what was found and what to do. Its `ids` hold all samples concerned, so that a caller can
act on them; its text, which may reach a log, names only a few.
"""

from collections.abc import Iterable


class ShardgraphError(Exception):
    """Base of all errors raised on purpose; `ids` holds the samples concerned."""

    def __init__(self, message: str, ids: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.ids = tuple(ids)


class InputError(ShardgraphError, ValueError):
    """An argument is invalid."""


class UnknownSample(InputError):
    """A request names samples that the workspace never held."""


class DuplicateSample(InputError):
    """An id is in the workspace already, or twice in one input."""


class ForgottenSample(InputError):
    """An id was forgotten and may be added again only with permission."""


class UnknownConsumer(InputError):
    """No right was granted to a consumer of this name."""


class GraphError(ShardgraphError, ValueError):
    """A shard graph or topology is invalid."""


class ConfigError(ShardgraphError):
    """An argument contradicts the configuration, or the configuration is invalid."""


class FingerprintError(ConfigError):
    """The model was built with other numerics."""


class BackboneError(ShardgraphError):
    """A backbone cannot be loaded or does not fit."""


class UnreachableData(ShardgraphError):
    """Data at a URL cannot be read now: no connection, no permission, or an answer that was not expected."""


class WorkspaceError(ShardgraphError):
    """The workspace cannot do this now."""


class WorkspaceBusy(WorkspaceError):
    """Another process is writing to this workspace."""


class DiskFull(WorkspaceError):
    """The disk has too little room; nothing was written."""


class NothingToServe(WorkspaceError):
    """A right covers no sample to predict from."""


class DamagedFile(WorkspaceError):
    """A file is damaged, missing, or was changed by another program."""


class VerificationError(WorkspaceError):
    """What is on disk does not match what was certified."""


def check_text(words: Iterable[str], name: str) -> None:
    """Raise unless all of `words` can be encoded as UTF-8; half of a surrogate pair cannot."""
    try:
        "".join(words).encode()
    except UnicodeEncodeError as problem:
        raise InputError(
            f"{name} must be valid text, got {problem.object[problem.start]!r}, half a character"
        ) from None


def check_list(names: Iterable[object], what: str) -> None:
    """Raise if a single string was given instead of a list of names: its letters would count as names."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InputError(f"{what} must be a list of names, got {names!r}: write [{names!r}]")


def some(ids: Iterable[str], most: int = 3) -> str:
    """The first few ids, for a message: "'a', 'b', 'c' and 7 more"."""
    names = list(ids)
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
