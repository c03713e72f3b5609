"""Every error that shardgraph raises on purpose.

    ShardgraphError
    ├── InputError            what was given cannot be used (a ValueError)
    │   ├── UnknownSample     a request names samples that were never here
    │   ├── DuplicateSample   an id is there already, or twice in one input
    │   ├── ForgottenSample   an id was forgotten and may not come back unasked
    │   └── UnknownConsumer   nobody of this name was granted anything
    ├── GraphError            a shard graph or topology that makes no sense (a ValueError)
    ├── ConfigError           the workspace's configuration says otherwise
    │   └── FingerprintError  these numerics are not the ones the model was built with
    ├── BackboneError         a backbone cannot be loaded or does not fit
    └── WorkspaceError        the workspace cannot do this now
        ├── WorkspaceBusy     another process writes
        ├── DiskFull          too little room, found before anything was written
        ├── NothingToServe    a right leaves no sample to answer from
        ├── DamagedFile       a file is torn, missing or was changed by somebody else
        └── VerificationError what is on disk does not match what was certified

An error says what was asked, what was found and what to do; it carries the ids concerned in
`ids`, so that a caller can act on them, while the text that may reach a log names at most a few.
"""

from collections.abc import Iterable


class ShardgraphError(Exception):
    """Base of all errors raised on purpose; `ids` holds the samples concerned."""

    def __init__(self, message: str, ids: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.ids = tuple(ids)


class InputError(ShardgraphError, ValueError):
    """What was given cannot be used."""


class UnknownSample(InputError):
    """A request names samples that were never here."""


class DuplicateSample(InputError):
    """An id is there already, or twice in one input."""


class ForgottenSample(InputError):
    """An id was forgotten and may not come back unasked."""


class UnknownConsumer(InputError):
    """Nobody of this name was granted anything."""


class GraphError(ShardgraphError, ValueError):
    """A shard graph or topology that makes no sense."""


class ConfigError(ShardgraphError):
    """The workspace's configuration says otherwise."""


class FingerprintError(ConfigError):
    """These numerics are not the ones the model was built with."""


class BackboneError(ShardgraphError):
    """A backbone cannot be loaded or does not fit."""


class WorkspaceError(ShardgraphError):
    """The workspace cannot do this now."""


class WorkspaceBusy(WorkspaceError):
    """Another process writes to this workspace."""


class DiskFull(WorkspaceError):
    """Too little room on the disk, found before anything was written."""


class NothingToServe(WorkspaceError):
    """A right leaves no sample to answer from."""


class DamagedFile(WorkspaceError):
    """A file is torn, missing or was changed by somebody else."""


class VerificationError(WorkspaceError):
    """What is on disk does not match what was certified."""


def check_text(words: Iterable[str], name: str) -> None:
    """Raise unless all of `words` can be written as UTF-8, which half of a surrogate pair cannot."""
    try:
        "".join(words).encode()
    except UnicodeEncodeError as problem:
        raise InputError(
            f"{name} must be valid text, got {problem.object[problem.start]!r}, half a character"
        ) from None


def check_list(names: Iterable[object], what: str) -> None:
    """Raise if one string was given where a list of names must be: its letters would count as names."""
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise InputError(f"{what} must be a list of names, got {names!r}: write [{names!r}]")


def some(ids: Iterable[str], most: int = 3) -> str:
    """The first few ids, for a message: "'a', 'b', 'c' and 7 more"."""
    names = list(ids)
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
