"""The status of a workspace: what it holds, what is served and what waits."""

from typing import Any

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
    return {
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
        "topology": config.topology,
        "recipe": config.recipe,
        "privacy": _privacy(context, manifest),
        "disk_bytes": disk_use(root),
    } | ({"damaged": damaged} if damaged else {})


def _privacy(context: Context, manifest: Manifest) -> dict[str, Any] | None:
    """What private edges have cost; None without private edges."""
    if context.config.privacy is None:
        return None
    from shardgraph.forget.privacy.guarantee import privacy_status

    return privacy_status(context.store, context.config, manifest, context.numerics)
