"""The status of a workspace: what it holds, what is served and what waits."""

from typing import Any

from shardgraph.errors import ShardgraphError
from shardgraph.forget.build.wanted import Manifest, damaged_groups, is_damaged, prototypes_path
from shardgraph.forget.context import Context
from shardgraph.learn.numerics import difference
from shardgraph.storage.files import disk_use
from shardgraph.storage.tables import erasures, inventory


def status(context: Context) -> dict[str, Any]:
    """The status as a plain dict; it names no sample. `damaged` is there if a file of the model is damaged."""
    catalogue, config, root = context.catalogue, context.config, context.root
    manifest = Manifest.load(root)
    waiting = inventory.count_waiting(catalogue)
    same = not manifest.fingerprint or manifest.fingerprint == context.numerics
    damaged = len(damaged_groups(root, manifest))
    damaged += bool(manifest.model_digest) and is_damaged(prototypes_path(root), manifest.prototypes)
    return (
        {
            "model_digest": manifest.model_digest or None,
            "trained": config.trained,
            "complete": bool(manifest.model_digest) and not manifest.missing and not waiting and not damaged,
            "samples": inventory.count_by_split(catalogue),
            "waiting": waiting,
            "classes": len(manifest.classes),
            "shards": sum(unit.startswith("shard:") for unit in inventory.unit_digests(catalogue)),
            "groups": {"serving": len(manifest.groups), "missing": len(manifest.missing)},
            "lambda": manifest.weight,
            "requests": erasures.count_erasures_by_state(catalogue),
            "numerics": "same" if same else difference(context.numerics, manifest.fingerprint),
            "seed": config.seed,
            "topology": _topology(context),
            "recipe": config.recipe,
            "privacy": _privacy(context, manifest),
            "disk_bytes": disk_use(root),
        }
        | ({"record": _record(context)} if context.keeps_log else {})
        | ({"damaged": damaged} if damaged else {})
    )


def _record(context: Context) -> dict[str, Any]:
    """Whether the record outside the workspace is in order, and what was found."""
    from shardgraph.forget.proof.log_standing import describe, log_path

    path = log_path(context.root)
    try:
        found, ok = describe(context), True
    except ShardgraphError as error:
        found, ok = str(error), False
    return {"path": str(path) if path else None, "ok": ok, "detail": found}


def _topology(context: Context) -> dict[str, Any] | None:
    """The topology; of sources that it declares and that were forgotten, it shows the beginning of their marks."""
    declared, keys = context.config.declared_sources, context.keys
    if not declared:
        return context.config.topology
    here = inventory.count_by(context.catalogue, "source", sorted(declared))
    marks = {name: keys.mark("sources", name) for name in sorted(declared - here.keys())}
    gone = erasures.certificates_of(context.catalogue, list(marks.values()))
    shown = {name: f"forgotten {mark[:8]}" for name, mark in marks.items() if mark in gone}

    def rename(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: rename(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [rename(part) for part in value]
        return shown.get(value, value) if isinstance(value, str) else value

    topology = context.config.topology or {}
    return topology | {name: rename(topology[name]) for name in ("safe", "own") if name in topology}


def _privacy(context: Context, manifest: Manifest) -> dict[str, Any] | None:
    """What private edges have cost; None without private edges."""
    if context.config.privacy is None:
        return None
    from shardgraph.forget.privacy.guarantee import privacy_status

    return privacy_status(context.store, context.config, manifest, context.numerics)
