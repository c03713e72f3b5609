"""The steps of the demo: train, forget a sample and a source, verify, and compare with a workspace without them."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shardgraph
from shardgraph.cli.command import ProgressBars
from shardgraph.cli.commands.forget import plan_rows
from shardgraph.cli.demo import digits

if TYPE_CHECKING:
    from shardgraph.forget import GraphView

BACKBONE, SEED, SAFE = "efficientnet-lite0", 7, "museum"
SAMPLE, SOURCE = "digit-0004", "willow"
LEARNED, NEVER_SAW = "learned-then-forgot", "never-saw"  # the folders of the two workspaces

Tell = Callable[[str, list[tuple[str, object]]], None]  # prints a title and rows


@dataclass(frozen=True)
class Step:
    """One forget: its plan, the groups that it rebuilt and that vanished, its certificate and its duration."""

    what: str
    plan: dict[str, Any]
    groups: tuple[str, ...]
    vanished: tuple[str, ...]
    certificate: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class Story:
    """All results of the demo, in order."""

    learned: dict[str, Any]
    steps: tuple[Step, ...]
    forgot: dict[str, Any]
    verified: dict[str, Any]
    never_saw: dict[str, Any]
    graph: "GraphView" = field(repr=False)  # the graph before anything was forgotten

    @property
    def equal(self) -> bool:
        """Whether the model that forgot equals the model that never saw the samples."""
        return bool(self.forgot["model_digest"] == self.never_saw["model_digest"])

    def to_json(self) -> dict[str, Any]:
        """The results as a plain dict."""
        facts = {name: getattr(self, name) for name in ("learned", "forgot", "verified", "never_saw", "equal")}
        return facts | {
            "plans": {step.what: step.plan for step in self.steps},
            "certificates": [step.certificate for step in self.steps],
        }


def run_story(folder: Path, rows: list[digits.Digit], tell: Tell, progress: ProgressBars) -> Story:
    """Train on all rows and forget some in one workspace, train without these in another, and compare the models."""
    table = digits.write_table(rows, folder / "digits.parquet")
    with _new_workspace(folder / LEARNED, progress) as ws:
        learned = _learn(ws, table)
        graph = ws.views.graph()
        tell(f"1. Trained on {len(rows)} images from {len(graph.shards)} sources", _accuracy_rows(learned))
        requests = {
            f"the picture {SAMPLE}": shardgraph.ForgetRequest(samples=(SAMPLE,)),
            f"the school {SOURCE}": shardgraph.ForgetRequest(sources=(SOURCE,)),
        }
        steps = [_forget(ws, what, request, 2 * i, tell) for i, (what, request) in enumerate(requests.items(), 1)]
        forgot = ws.evaluate() | {"model_digest": ws.model().digest}
        verified = ws.verify(full=True)
        checks = [(check.name, check.detail) for check in verified.checks]
        tell("6. Verified certificates and files, and rebuilt every group", [*checks, *_accuracy_rows(forgot)])
    kept = [row for row in rows if row.id != SAMPLE and row.source != SOURCE]
    with _new_workspace(folder / NEVER_SAW, progress) as ws:  # embeds the images again, in another order
        never_saw = _learn(ws, digits.write_table(kept[::-1], folder / "never-saw.parquet"))
    story = Story(learned, tuple(steps), forgot, verified.to_json(), never_saw, graph)
    both = [("trained, then forgot", forgot["model_digest"]), ("never saw", never_saw["model_digest"])]
    equal = "equal, byte for byte" if story.equal else "NOT EQUAL"
    tell("7. A second workspace that never saw them", [*both, ("the two models are", equal)])
    return story


def _new_workspace(path: Path, progress: ProgressBars) -> "shardgraph.Workspace":
    identity = shardgraph.backbone_identity(BACKBONE, dtype="float16", size=digits.SIZE)
    names = [str(i) for i in range(10)]
    return shardgraph.Workspace.create(path, seed=SEED, backbone=identity, classes=names, progress=progress)


def _learn(ws: "shardgraph.Workspace", table: Path) -> dict[str, Any]:
    from shardgraph.cli.reading import add_path

    add_path(ws, table, (), allow_return=False, skip_bad=False, only_new=False)
    start = time.monotonic()
    manifest = ws.train(shardgraph.BySource(safe=(SAFE,)))
    facts = {"model_digest": manifest.model_digest, "groups": len(manifest.groups)}
    return ws.evaluate() | facts | {"seconds": round(time.monotonic() - start, 2)}


def _forget(
    ws: "shardgraph.Workspace", what: str, request: "shardgraph.ForgetRequest", number: int, tell: Tell
) -> Step:
    plan = ws.plan(request)
    figures = plan.to_json()
    tell(f"{number}. The cost of forgetting {what}", plan_rows(figures))
    start = time.monotonic()
    certificate = ws.forget(plan)
    seconds = round(time.monotonic() - start, 2)
    rows = [("certificate", certificate.number), ("guarantee", certificate.guarantee), ("seconds", seconds)]
    tell(f"{number + 1}. Forgot {what}", [*rows, ("model", certificate.model_digest)])
    rebuilt = tuple(name for name in plan.groups if name not in plan.vanishing)
    return Step(what, figures, rebuilt, plan.vanishing, asdict(certificate), seconds)


def _accuracy_rows(found: dict[str, Any]) -> list[tuple[str, object]]:
    accuracy = f"{found['accuracy']:.1%} on {found['samples']} held-out images"
    return [("accuracy", accuracy), ("model", found["model_digest"])]
