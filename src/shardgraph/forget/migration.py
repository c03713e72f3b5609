"""Migration: updates the catalogue of a workspace that has an earlier layout."""

from pathlib import Path

from shardgraph.forget.config import Config
from shardgraph.storage.catalogue import Catalogue
from shardgraph.storage.files import WriteLock
from shardgraph.storage.migrations import Migration, pending_at


def pending_migrations(root: Path) -> list[Migration]:
    """The migrations that a workspace's catalogue lacks; changes nothing."""
    Config.load(root)  # an error if there is no workspace, or one of another format
    return pending_at(root / "catalog.sqlite")


def migrate_catalogue(root: Path) -> list[Migration]:
    """Apply the pending migrations, and return them; an error while another process writes.

    Opening a catalogue applies its migrations, so they are listed from the closed file first.
    """
    if not pending_migrations(root):
        return []
    with WriteLock(root):
        found = pending_migrations(root)  # another process may have applied them before this one had the lock
        Catalogue(root / "catalog.sqlite").close()
    return found
