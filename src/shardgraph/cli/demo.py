"""`demo`: the whole story on real pictures with a real pretrained backbone, in under two minutes."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any

import typer

import shardgraph
from shardgraph.cli import digits
from shardgraph.cli.forgetting import plan_rows
from shardgraph.cli.options import Json
from shardgraph.cli.output import print_facts, print_json
from shardgraph.cli.progress import Bars
from shardgraph.errors import InputError, VerificationError

if TYPE_CHECKING:
    from shardgraph.forget.views.graph_view import Portrait

BACKBONE, SEED, SAFE = "efficientnet-lite0", 7, "museum"
SAMPLE, SOURCE = "digit-0004", "willow"
LEARNED, NEVER_SAW, REPORT, ORIGINALS = "learned-then-forgot", "never-saw", "report.html", "originals"

Tell = Callable[[str, list[tuple[str, object]]], None]


@dataclass(frozen=True)
class Step:
    """One forget: what it was planned to cost, the groups it touched, the certificate, and how long it took."""

    what: str
    plan: dict[str, Any]
    groups: tuple[str, ...]
    vanished: tuple[str, ...]
    certificate: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class Story:
    """All that the demo found, in order: enough to print it, or to write a report."""

    learned: dict[str, Any]
    steps: tuple[Step, ...]
    forgot: dict[str, Any]
    verified: dict[str, Any]
    never_saw: dict[str, Any]
    portrait: "Portrait" = field(repr=False)  # before anything was forgotten

    @property
    def equal(self) -> bool:
        return bool(self.forgot["model_digest"] == self.never_saw["model_digest"])

    def to_json(self) -> dict[str, Any]:
        """The story as a plain dict."""
        facts = {name: getattr(self, name) for name in ("learned", "forgot", "verified", "never_saw", "equal")}
        return facts | {
            "plans": {step.what: step.plan for step in self.steps},
            "certificates": [step.certificate for step in self.steps],
        }


def demo(
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the data, both workspaces and the report in this new folder."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn, forget and prove it, on handwritten digits; leaves a report.html to look at."""
    bars = Bars()

    def tell(title: str, rows: list[tuple[str, object]]) -> None:
        bars.close()
        if not as_json:
            print_facts(f"\n{title}", rows)

    with _folder(keep) as folder:
        try:
            story, report = _play(folder, tell, bars)
            if keep:
                digits.write_pictures(digits.digits(), folder / ORIGINALS)
        finally:
            bars.close()
    tell("Look at the report", [("open", report)])
    tell("Open the pages", _pages(keep))
    if as_json:
        print_json(story.to_json() | {"kept": str(keep) if keep else None, "report": str(report)})
    if not story.equal:
        raise VerificationError("the two models differ: this must not happen, please report it")


def _play(folder: Path, tell: Tell, bars: Bars) -> tuple[Story, Path]:
    from shardgraph.cli.report.page import page
    from shardgraph.cli.report.story import told

    rows = digits.digits()
    story = tell_story(folder, rows, tell, bars)
    report = folder / REPORT
    report.write_text(page(told(story, rows)), encoding="utf-8")
    return story, report


def tell_story(folder: Path, rows: list[digits.Digit], tell: Tell, progress: Bars) -> Story:
    """Learn everything and forget some of it in one workspace, never see it in another; compare."""
    table = digits.write_table(rows, folder / "digits.parquet")
    with _workspace(folder / LEARNED, progress) as ws:
        learned = _learn(ws, table)
        portrait = ws.portrait()
        tell(f"1. Learned {len(rows)} pictures from {len(portrait.shards)} sources", _facts(learned))
        requests = {
            f"the picture {SAMPLE}": shardgraph.ForgetRequest(samples=(SAMPLE,)),
            f"the school {SOURCE}": shardgraph.ForgetRequest(sources=(SOURCE,)),
        }
        steps = [_forget(ws, what, request, 2 * i, tell) for i, (what, request) in enumerate(requests.items(), 1)]
        forgot = ws.evaluate() | {"model_digest": ws.model().digest}
        verified = ws.verify(full=True)
        checks = [(check.name, check.detail) for check in verified.checks]
        tell("6. Verified: certificates, files, and every group built anew", [*checks, *_facts(forgot)])
    kept = [row for row in rows if row.id != SAMPLE and row.source != SOURCE]
    with _workspace(folder / NEVER_SAW, progress) as ws:  # embeds the pictures again, in another order
        never_saw = _learn(ws, digits.write_table(kept[::-1], folder / "never-saw.parquet"))
    story = Story(learned, tuple(steps), forgot, verified.to_json(), never_saw, portrait)
    both = [("learned, then forgot", forgot["model_digest"]), ("never saw", never_saw["model_digest"])]
    equal = "equal, byte for byte" if story.equal else "NOT EQUAL"
    tell("7. A second workspace that never saw them", [*both, ("the two models are", equal)])
    return story


def _workspace(path: Path, progress: Bars) -> "shardgraph.Workspace":
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
    orders = ws.plan(request)
    figures = orders.to_json()
    tell(f"{number}. What forgetting {what} would cost", plan_rows(figures))
    start = time.monotonic()
    certificate = ws.forget(orders)
    seconds = round(time.monotonic() - start, 2)
    rows = [("certificate", certificate.number), ("guarantee", certificate.guarantee), ("seconds", seconds)]
    tell(f"{number + 1}. Forgot {what}", [*rows, ("model", certificate.model_digest)])
    rebuilt = tuple(name for name in orders.groups if name not in orders.vanishing)
    return Step(what, figures, rebuilt, orders.vanishing, asdict(certificate), seconds)


def _pages(keep: Path | None) -> list[tuple[str, object]]:
    """How to see the workspace in a browser; without --keep there is none to see any more."""
    folder = keep or Path("demo-workspace")
    command = f"shardgraph serve {folder / LEARNED} --originals {folder / ORIGINALS}"
    first = [] if keep else [("first", f"shardgraph demo --keep {folder}")]
    return [*first, ("run", command), ("open", "http://127.0.0.1:8000")]


def _facts(found: dict[str, Any]) -> list[tuple[str, object]]:
    accuracy = f"{found['accuracy']:.1%} on {found['samples']} pictures held out"
    return [("accuracy", accuracy), ("model", found["model_digest"])]


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """The folder to keep, or a temporary one of which only the report stays."""
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="shardgraph-demo-"))
        try:
            yield folder
        finally:
            for name in (LEARNED, NEVER_SAW):
                rmtree(folder / name, ignore_errors=True)
            for table in folder.glob("*.parquet"):
                table.unlink()
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InputError(f"{keep} is there already and not empty; choose another folder")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep
