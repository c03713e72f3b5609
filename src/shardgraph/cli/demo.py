"""`demo`: the whole story on real data, in under a minute."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import shardgraph
from shardgraph.cli.forgetting import plan_rows
from shardgraph.cli.options import Json
from shardgraph.cli.output import print_facts, print_json
from shardgraph.cli.progress import Bars
from shardgraph.errors import InputError, VerificationError

COARSE, FINE, SEED = 2, 1, 7
SAMPLE, SOURCE = "digit-0001", "willow"

Tell = Callable[[str, list[tuple[str, object]]], None]


@dataclass(frozen=True)
class Story:
    """All that the demo found, in order: enough to print it, or to write a report."""

    learned: dict[str, Any]
    plans: dict[str, dict[str, Any]]
    certificates: tuple[dict[str, Any], ...]
    forgot: dict[str, Any]
    verified: dict[str, Any]
    never_saw: dict[str, Any]

    @property
    def equal(self) -> bool:
        return bool(self.forgot["model_digest"] == self.never_saw["model_digest"])


def demo(
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep both workspaces in this new folder.")] = None,
    as_json: Json = False,
) -> None:
    """Learn, forget and prove it, on scikit-learn's handwritten digits."""
    bars = Bars()

    def tell(title: str, rows: list[tuple[str, object]]) -> None:
        bars.close()
        if not as_json:
            print_facts(f"\n{title}", rows)

    with _folder(keep) as folder:
        try:
            story = tell_story(folder, tell, bars)
        finally:
            bars.close()
    if as_json:
        print_json(asdict(story) | {"equal": story.equal, "kept": str(keep) if keep else None})
    if not story.equal:
        raise VerificationError("the two models differ: this must not happen, please report it")


def tell_story(folder: Path, tell: Tell, progress: Bars) -> Story:
    """Learn everything and forget some of it in one workspace, never see it in another; compare."""
    from shardgraph.cli.digits import digits

    samples = digits()
    with shardgraph.Workspace.create(folder / "learned-then-forgot", seed=SEED, progress=progress) as ws:
        ws.add(samples)
        learned = _learn(ws)
        schools = len(set(samples.sources))
        tell(f"1. Learned {len(samples)} digits from {schools} schools", _facts(learned))
        requests = {
            f"the sample {SAMPLE}": shardgraph.ForgetRequest(samples=(SAMPLE,)),
            f"the school {SOURCE}": shardgraph.ForgetRequest(sources=(SOURCE,)),
        }
        plans, certificates = {}, []
        for what, request in requests.items():
            orders = ws.plan(request)
            plans[what] = orders.to_json()
            tell(f"{len(plans) * 2}. What forgetting {what} would cost", plan_rows(plans[what]))
            certificate = ws.forget(orders)
            certificates.append(certificate.to_json())
            rows = [("certificate", certificate.number), ("guarantee", certificate.guarantee)]
            tell(f"{len(plans) * 2 + 1}. Forgot {what}", [*rows, ("model", certificate.model_digest)])
        forgot = ws.evaluate() | {"model_digest": ws.model().digest}
        verified = ws.verify(full=True)
        checks = [(check.name, check.detail) for check in verified.checks]
        tell("6. Verified: certificates, files, and every group built anew", [*checks, *_facts(forgot)])
    never_saw = _never_saw(folder / "never-saw", samples, progress)
    rows = [("learned, then forgot", forgot["model_digest"]), ("never saw", never_saw["model_digest"])]
    story = Story(learned, plans, tuple(certificates), forgot, verified.to_json(), never_saw)
    equal = "equal, byte for byte" if story.equal else "NOT EQUAL"
    tell("7. A second workspace that never saw them", [*rows, ("the two models are", equal)])
    return story


def _learn(ws: "shardgraph.Workspace") -> dict[str, Any]:
    manifest = ws.train(shardgraph.BySourceBilevel(COARSE, FINE), shardgraph.recipe("default", lr=0.05))
    return ws.evaluate() | {"model_digest": manifest.model_digest, "groups": len(manifest.groups)}


def _never_saw(path: Path, samples: "shardgraph.Samples", progress: Bars) -> dict[str, Any]:
    """Learn without the sample and the school, adding the rest in another order."""
    kept = [i for i in range(len(samples)) if samples.ids[i] != SAMPLE and samples.sources[i] != SOURCE]
    with shardgraph.Workspace.create(path, seed=SEED, progress=progress) as ws:
        ws.add(samples.take(kept[::-1]))
        return _learn(ws)


def _facts(found: dict[str, Any]) -> list[tuple[str, object]]:
    accuracy = f"{found['accuracy']:.1%} on {found['samples']} digits held out"
    return [("accuracy", accuracy), ("model", found["model_digest"])]


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="shardgraph-demo-") as folder:
            yield Path(folder)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InputError(f"{keep} is there already and not empty; choose another folder")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep
