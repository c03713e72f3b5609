"""Which data sets have the records that an experiment is made of; runs that were stopped have some of them."""

from collections.abc import Callable

from experiments import domains, others, private
from experiments.records import NoRecords, Records
from experiments.runs import ALONE, FINE, INSTANT

APART = {  # what takes long and is run by itself
    "private": "python -m experiments.private --cache CACHE --data SET--BACKBONE --out RESULTS/runs",
    "ablation": "python -m experiments.ablation --cache CACHE --out RESULTS/runs",
}


def command(experiment: str) -> str:
    """What writes an experiment's records."""
    return APART.get(experiment, "shardgraph experiment all --cache CACHE --out RESULTS")


def finished(experiment: str, records: Records) -> Records:
    """The records of the data sets that are far enough for this experiment."""
    if experiment == "graphs":
        return records
    enough = _NEEDS[experiment]
    kept = Records({name: own for name, own in records.sets.items() if enough(records, name)})
    if not kept.sets or (experiment == "instant" and not _all_measured(kept)):
        hint = " on data with several sources" if experiment == "domains" else ""
        raise NoRecords(f"{experiment!r} needs records that are not there: `{command(experiment)}` writes them{hint}")
    return kept


def _levels(records: Records, name: str) -> bool:
    alone = all(records.accuracy(name, who, 0) for who in ALONE)
    return alone and len(levels := records.levels(name)) > 1 and levels[0] == 1


def _second(records: Records, name: str) -> bool:
    return _levels(records, name) and {64, 256} <= set(records.levels(name))


def _adapters(records: Records, name: str) -> bool:
    return bool(records.levels(name, "linear"))


def _fine(records: Records, name: str) -> bool:
    return all(any(records.of(name, study="fine", rival=who)) for who in FINE)


def _instant(records: Records, name: str) -> bool:
    """Whoever was measured was measured at every step."""
    steps = {who: {r["gone"] for r in records.of(name, study="instant", rival=who)} for who in INSTANT}
    measured = [own for own in steps.values() if own]
    return bool(measured) and all(own == measured[0] for own in measured)


def _all_measured(records: Records) -> bool:
    return all(any(any(records.of(name, study="instant", rival=who)) for name in records.sets) for who in INSTANT)


def _domains(records: Records, name: str) -> bool:
    return all(any(records.of(name, study="domains", rival=graph)) for graph in domains.NAMES)


def _others(records: Records, name: str) -> bool:
    sliced = all(any(records.of(name, study="others", rival=who)) for who in others.WHO[1:3])
    return sliced and others.N in records.levels(name)


def _private(records: Records, name: str) -> bool:
    return all(any(records.of(name, study="private", kind=kind)) for kind in private.KINDS)


def _ablation(records: Records, name: str) -> bool:
    return any(records.of(name, study="ablation", change="default"))


_NEEDS: dict[str, Callable[[Records, str], bool]] = {
    "second": _second,
    "accuracy": _levels,
    "cost": _levels,
    "prototypes": _levels,
    "adapters": _adapters,
    "fine": _fine,
    "instant": _instant,
    "domains": _domains,
    "others": _others,
    "private": _private,
    "ablation": _ablation,
}
