"""The guarantee if served groups have private edges: (alpha, beta), and the method that computed them.

No text about private edges contains the word "exact", which is reserved for equal bytes of the whole model.
"""

from dataclasses import asdict
from typing import Any

from shardgraph.forget.build.wanted import Manifest, wanted_groups
from shardgraph.forget.config import Config
from shardgraph.forget.privacy.charges import Charges, joint_guarantee, removals_left, worst_guarantee, worst_loss
from shardgraph.forget.proof.certificate import EXACT, WITHDRAWN
from shardgraph.learn.numerics import Numerics
from shardgraph.learn.private.accounting.terms import PrivacyTerms
from shardgraph.storage.store import Store


def private_groups(store: Store, config: Config, manifest: Manifest, numerics: Numerics) -> list[str]:
    """The served groups with private edges; a group that is not among the wanted ones counts as such."""
    if config.privacy is None:
        return []
    wanted = wanted_groups(store, config, numerics)
    return sorted(name for name in manifest.groups if name not in wanted or wanted[name].private)


def state_guarantee(store: Store, config: Config, manifest: Manifest, numerics: Numerics) -> dict[str, Any]:
    """The guarantee for a certificate: in words, and in numbers where there are private edges."""
    terms = config.the_privacy()
    private = private_groups(store, config, manifest, numerics)
    if terms is None or not private:
        return {"guarantee": WITHDRAWN if manifest.missing else EXACT}
    numbers = _numbers(Charges.load(store.catalogue), terms, len(private))
    return {"guarantee": _words(numbers, terms, withdrawn=bool(manifest.missing)), "privacy": numbers}


def privacy_status(store: Store, config: Config, manifest: Manifest, numerics: Numerics) -> dict[str, Any] | None:
    """What private edges have cost, and how many samples may still leave each shard; None without private edges."""
    terms = config.the_privacy()
    if terms is None:
        return None
    charges, private = Charges.load(store.catalogue), private_groups(store, config, manifest, numerics)
    left = {shard: {"left": now, "of": first} for shard, (now, first) in removals_left(charges, terms, private).items()}
    return _numbers(charges, terms, len(private)) | {"shards": left}


def _numbers(charges: Charges, terms: PrivacyTerms, groups: int) -> dict[str, Any]:
    found, (loss, loss_method) = worst_guarantee(charges, terms), worst_loss(charges, terms)
    return asdict(found) | {
        "groups": groups,
        "together": asdict(joint_guarantee(charges, terms)),
        "budget": asdict(terms.budget) | {"vacuous": terms.budget.vacuous},
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "sample_loss": {"epsilon": loss, "method": loss_method},
    }


def _words(numbers: dict[str, Any], terms: PrivacyTerms, *, withdrawn: bool) -> str:
    groups = "1 group" if numbers["groups"] == 1 else f"{numbers['groups']} groups"
    close = f"{groups} with private edges, {_close(numbers)} removed since they were built"
    if numbers["together"]["removed"] != numbers["removed"]:
        close += f", in every set of groups that share samples; all sets together {_close(numbers['together'])}"
    close += (
        f" (by {numbers['method']}; a sample has lost epsilon {numbers['sample_loss']['epsilon']:.3g} at delta "
        f"{terms.delta:g} to the adapters of other shards; budget {terms.budget} for each set)"
    )
    rest = "the prototypes and the groups without private edges equal, byte for byte, a build from the retained samples"
    if withdrawn:
        out = "every adapter that used the data directly is out of service"
        return f"withdrawn, private: {out}; of those left, {close}; {rest}"
    return f"private: {close}; {rest}"


def _close(found: dict[str, Any]) -> str:
    gone = "1 sample" if found["removed"] == 1 else f"{found['removed']} samples"
    return f"(alpha, beta) = ({found['alpha']:.4g}, {found['beta']:.3g})-close to ones that never saw the {gone}"
