"""The parties: sources of data, consumers with rights to a part of it, and the tokens of the service's callers."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shardgraph.storage.catalogue import Catalogue, Transaction
from shardgraph.storage.tables.inventory import Row

_SOURCE, _SHARD = "source", "shard"


@dataclass(frozen=True)
class Terms:
    """The terms of a source; `rate` is the share of its samples expected to be withdrawn in a year."""

    owner: str = ""
    terms: str = ""
    rate: float | None = None


@dataclass(frozen=True)
class Grant:
    """What a consumer may use; with `provision`, groups that learned from that part alone are kept for it."""

    consumer: str
    sources: tuple[str, ...]
    shards: tuple[str, ...]
    provision: bool


@dataclass(frozen=True)
class ProvisionedGroup:
    """A group whose adapters learned from a consumer's part alone; `units` are the units that they learned from."""

    consumer: str
    name: str
    key: str
    digest: str
    samples: int
    adapters: int
    units: tuple[str, ...]


@dataclass(frozen=True)
class Token:
    """A token; only the hash of its secret is stored, and "" once it is revoked.

    `sources` are those of an owner; a source leaves them with its last sample.
    """

    name: str
    role: str
    sources: tuple[str, ...]
    hash: str
    created: str


# Sources


def described_sources(catalogue: Catalogue) -> dict[str, Terms]:
    """The terms of all described sources, by name."""
    return {name: Terms(*rest) for name, *rest in catalogue.all("SELECT name, owner, terms, rate FROM sources")}


def describe_source(transaction: Transaction, name: str, terms: Terms) -> None:
    """Replace the terms of a source."""
    values = (name, terms.owner, terms.terms, terms.rate)
    transaction.execute("INSERT OR REPLACE INTO sources VALUES (?, ?, ?, ?)", values)


def clear_source(transaction: Transaction, name: str) -> None:
    """Delete the terms of a source; the catalogue becomes dirty."""
    transaction.execute("DELETE FROM sources WHERE name = ?", (name,))
    transaction.mark_dirty()


def drop_empty_sources(transaction: Transaction, names: Iterable[str]) -> None:
    """Delete the terms of those of the sources that have no sample left, and remove their names from all tokens."""
    here = "SELECT 1 FROM samples WHERE source = ? LIMIT 1"
    empty = {name for name in names if transaction.execute(here, (name,)).fetchone() is None}
    transaction.executemany("DELETE FROM sources WHERE name = ?", [(name,) for name in sorted(empty)])
    for token, sources in transaction.execute("SELECT name, sources FROM tokens").fetchall() if empty else ():
        left = [name for name in json.loads(sources) if name not in empty]
        if left != json.loads(sources):
            transaction.execute("UPDATE tokens SET sources = ? WHERE name = ?", (_list(left), token))


# Consumers and their rights


def find_grants(catalogue: Catalogue) -> dict[str, Grant]:
    """What every consumer may use, ordered by consumer."""
    named: dict[tuple[str, str], list[str]] = {}
    for consumer, kind, name in catalogue.all("SELECT consumer, kind, name FROM rights ORDER BY consumer, kind, name"):
        named.setdefault((consumer, kind), []).append(name)
    return {
        name: Grant(name, tuple(named.get((name, _SOURCE), ())), tuple(named.get((name, _SHARD), ())), bool(provision))
        for name, provision in catalogue.all("SELECT name, provision FROM consumers ORDER BY name")
    }


def find_grant(catalogue: Catalogue, consumer: str) -> Grant | None:
    """What a consumer may use; None if nothing was granted."""
    found = catalogue.one("SELECT provision FROM consumers WHERE name = ?", consumer)
    if found is None:
        return None
    rows = catalogue.all("SELECT kind, name FROM rights WHERE consumer = ? ORDER BY name", consumer)
    sources, shards = (tuple(name for kind, name in rows if kind == which) for which in (_SOURCE, _SHARD))
    return Grant(consumer, sources, shards, bool(found[0]))


def save_grant(transaction: Transaction, grant: Grant) -> None:
    """Replace what a consumer may use; a consumer that may use nothing is removed."""
    transaction.execute("DELETE FROM rights WHERE consumer = ?", (grant.consumer,))
    if not grant.sources and not grant.shards:
        transaction.execute("DELETE FROM consumers WHERE name = ?", (grant.consumer,))
        return
    transaction.execute("INSERT OR REPLACE INTO consumers VALUES (?, ?)", (grant.consumer, int(grant.provision)))
    rows = [(grant.consumer, _SOURCE, name) for name in grant.sources]
    rows += [(grant.consumer, _SHARD, name) for name in grant.shards]
    transaction.executemany("INSERT INTO rights VALUES (?, ?, ?)", rows)


def set_provision(transaction: Transaction, consumer: str) -> None:
    """Record that groups are kept for a consumer from now on."""
    transaction.execute("UPDATE consumers SET provision = 1 WHERE name = ?", (consumer,))


def drop_empty_rights(transaction: Transaction, rows: Iterable[Row]) -> None:
    """Remove from all rights those sources and shards of these samples that have no sample left."""
    rows = list(rows)
    sql = "DELETE FROM rights WHERE kind = ? AND name = ? AND NOT EXISTS (SELECT 1 FROM samples WHERE {} = ?)"
    transaction.executemany(sql.format("source"), sorted({(_SOURCE, row.source, row.source) for row in rows}))
    shards = {(_SHARD, row.unit.removeprefix("shard:"), row.unit) for row in rows if row.unit.startswith("shard:")}
    transaction.executemany(sql.format("unit"), sorted(shards))


# Groups that are kept for consumers


def provisioned_groups(catalogue: Catalogue, consumer: str | None = None) -> list[ProvisionedGroup]:
    """The groups that are kept for a consumer, or for all, ordered by consumer and name."""
    rows = catalogue.all(
        "SELECT consumer, name, key, digest, samples, adapters, units FROM provisioned"
        " WHERE ? IS NULL OR consumer = ? ORDER BY consumer, name",
        consumer,
        consumer,
    )
    return [
        ProvisionedGroup(owner, name, key, digest, samples, adapters, tuple(json.loads(units)))
        for owner, name, key, digest, samples, adapters, units in rows
    ]


def record_provisioned(transaction: Transaction, group: ProvisionedGroup) -> None:
    """Record a group that is kept for a consumer."""
    values = (group.consumer, group.name, group.key, group.digest, group.samples, group.adapters)
    sql = "INSERT OR REPLACE INTO provisioned VALUES (?, ?, ?, ?, ?, ?, ?)"
    transaction.execute(sql, (*values, json.dumps(list(group.units))))


def remove_provisioned(transaction: Transaction, groups: Iterable[tuple[str, str]]) -> None:
    """Remove groups that were kept, given as (consumer, name)."""
    transaction.executemany("DELETE FROM provisioned WHERE consumer = ? AND name = ?", list(groups))


def keep_provisioned(transaction: Transaction, consumer: str, keys: Mapping[str, str]) -> None:
    """Remove the groups kept for a consumer that are not among `keys`, or have another key."""
    rows = transaction.execute("SELECT name, key FROM provisioned WHERE consumer = ?", (consumer,)).fetchall()
    remove_provisioned(transaction, [(consumer, name) for name, key in rows if keys.get(name) != key])


# Tokens


def find_tokens(catalogue: Catalogue) -> list[Token]:
    """All tokens that are not revoked, by name."""
    sql = "SELECT name, role, sources, hash, created FROM tokens WHERE hash <> '' ORDER BY name"
    return [_token(*row) for row in catalogue.all(sql)]


def find_token(catalogue: Catalogue, name: str) -> Token | None:
    """A token by its name, also a revoked one, whose hash is "" then."""
    row = catalogue.one("SELECT name, role, sources, hash, created FROM tokens WHERE name = ?", name)
    return _token(*row) if row else None


def any_token(catalogue: Catalogue) -> bool:
    """Whether there is, or ever was, a token."""
    return catalogue.one("SELECT 1 FROM tokens LIMIT 1") is not None


def save_token(transaction: Transaction, token: Token) -> None:
    """Add a token, in place of a revoked one of the same name."""
    values = (token.name, token.role, _list(token.sources), token.hash, token.created)
    transaction.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?, ?)", values)


def revoke_token(transaction: Transaction, name: str) -> bool:
    """Make a token worthless, and keep its name alone; whether there was one that was not revoked yet."""
    row = transaction.execute("SELECT sources FROM tokens WHERE name = ? AND hash <> ''", (name,)).fetchone()
    transaction.execute("UPDATE tokens SET hash = '', sources = '[]' WHERE name = ?", (name,))
    if row is not None and row[0] != "[]":
        transaction.mark_dirty()
    return row is not None


def _list(names: Iterable[str]) -> str:
    """Names as JSON text, each as it is: an erasure searches the file for them."""
    return json.dumps(list(names), ensure_ascii=False)


def _token(name: str, role: str, sources: str, hash: str, created: str) -> Token:
    return Token(name, role, tuple(json.loads(sources)), hash, created)
