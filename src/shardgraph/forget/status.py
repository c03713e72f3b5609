"""The status of a workspace: what is here, what is served and what waits."""

from typing import Any

from shardgraph.forget.bench import Bench
from shardgraph.forget.build.manifest import Manifest
from shardgraph.forget.proof.guarantee import privacy_status
from shardgraph.learn.numerics import difference
from shardgraph.storage.files import disk_use
from shardgraph.storage.tables import erasures, inventory


def status(bench: Bench) -> dict[str, Any]:
    """Figures for a person or a script; it names no sample."""
    catalogue, config, root = bench.store.catalogue, bench.config, bench.store.root
    manifest = Manifest.load(root)
    waiting = inventory.count_waiting(catalogue)
    same = not manifest.fingerprint or manifest.fingerprint == bench.numerics
    return {
        "model_digest": manifest.model_digest or None,
        "trained": config.trained,
        "complete": bool(manifest.model_digest) and not manifest.missing and not waiting,
        "samples": inventory.count_by_split(catalogue),
        "waiting": waiting,
        "classes": len(manifest.classes),
        "shards": sum(unit.startswith("shard:") for unit in inventory.unit_digests(catalogue)),
        "groups": {"serving": len(manifest.groups), "missing": len(manifest.missing)},
        "lambda": manifest.weight,
        "requests": erasures.count_erasures_by_state(catalogue),
        "numerics": "same" if same else difference(bench.numerics, manifest.fingerprint),
        "seed": config.seed,
        "topology": config.topology,
        "recipe": config.recipe,
        "privacy": privacy_status(bench.store, config, manifest, bench.numerics),
        "disk_bytes": disk_use(root),
    }
